-- name: chore_settings(name text)
SELECT every_seconds::double precision AS every_seconds, enabled FROM agentq.engine_chore WHERE chore = $1

-- name: chore_record(chore text, last_run_at timestamptz, last_seconds float8, rows int8, last_error text,
--   ended timestamptz, next_run_at timestamptz)
INSERT INTO agentq_internal.engine_chore_run AS r (chore, last_run_at, last_seconds, last_rows, runs, failures, last_error,
    last_error_at, next_run_at)
VALUES ($1, $2, $3, coalesce($4, 0), 1, ($5 IS NOT NULL)::integer, $5, CASE WHEN $5 IS NOT NULL THEN $6 END, $7)
ON CONFLICT (chore) DO UPDATE
SET last_run_at = excluded.last_run_at, last_seconds = excluded.last_seconds, last_rows = excluded.last_rows,
    runs = r.runs + 1, failures = CASE WHEN $5 IS NULL THEN 0 ELSE r.failures + 1 END,
    last_error = coalesce(excluded.last_error, r.last_error),
    last_error_at = coalesce(excluded.last_error_at, r.last_error_at), next_run_at = excluded.next_run_at
