-- name: measured_until()
SELECT max(taken_at) FROM agentq.metric

-- name: measure(since timestamptz, now timestamptz, expires timestamptz, seconds float8, most int8) freely
WITH ended AS (
    SELECT j.queue_id, j.job_kind, coalesce(d.state, 'succeeded') AS state,
        extract(epoch FROM d.picked_at - greatest(j.scheduled_at, j.created_at))::double precision AS waited,
        extract(epoch FROM d.finished_at - d.picked_at)::double precision AS ran
    FROM agentq_internal.job_done d JOIN agentq_internal.job j ON j.job_id = d.job_id
    WHERE d.finished_at > $1 AND d.finished_at <= $2
), finished AS (
    SELECT queue_id, job_kind, count(*) AS finished, count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
        percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY waited) AS waited,
        percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ran) AS ran
    FROM ended GROUP BY queue_id, job_kind
), ready AS (
    SELECT queue_id, job_kind, count(*) AS jobs FROM agentq_internal.job_ready GROUP BY queue_id, job_kind
), waiting AS (
    SELECT j.queue_id, j.job_kind, count(*) AS jobs
    FROM agentq_internal.job_waiting w JOIN agentq_internal.job j ON j.job_id = w.job_id GROUP BY j.queue_id, j.job_kind
), held AS (
    SELECT j.queue_id, j.job_kind, count(*) AS jobs
    FROM agentq_internal.job_lease l JOIN agentq_internal.job j ON j.job_id = l.job_id GROUP BY j.queue_id, j.job_kind
), kinds AS (
    SELECT queue_id, job_kind FROM finished UNION SELECT queue_id, job_kind FROM ready
    UNION SELECT queue_id, job_kind FROM waiting UNION SELECT queue_id, job_kind FROM held
), taken AS (
    INSERT INTO agentq.metric (taken_at, queue, job_kind, period_seconds, ready, waiting, held, finished, succeeded,
        wait_p50, wait_p95, wait_p99, run_p50, run_p95, run_p99, expires_at)
    SELECT $2, q.queue, k.job_kind, $4, coalesce(r.jobs, 0), coalesce(w.jobs, 0), coalesce(h.jobs, 0),
        coalesce(f.finished, 0), coalesce(f.succeeded, 0),
        f.waited[1], f.waited[2], f.waited[3], f.ran[1], f.ran[2], f.ran[3], $3
    FROM kinds k
    JOIN agentq.queue q USING (queue_id)
    LEFT JOIN finished f USING (queue_id, job_kind)
    LEFT JOIN ready r USING (queue_id, job_kind)
    LEFT JOIN waiting w USING (queue_id, job_kind)
    LEFT JOIN held h USING (queue_id, job_kind)
    -- Where there are more kinds than anybody looks at, those with the most jobs.
    ORDER BY coalesce(f.finished, 0) + coalesce(r.jobs, 0) + coalesce(w.jobs, 0) + coalesce(h.jobs, 0) DESC LIMIT $5
    RETURNING 1
)
SELECT count(*) FROM taken
