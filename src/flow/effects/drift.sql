-- name: drift_add(job_id uuid, effect_type text, drift text, about text, declared_by text, compensates uuid,
--   mission_id uuid, manifest_version int8, found_at timestamptz)
INSERT INTO agentq_internal.effect_drift (job_id, effect_type, drift, about, declared_by, compensates, mission_id, manifest_version, found_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (job_id, effect_type, drift) DO NOTHING
RETURNING job_id

-- name: drift_halted(chain_id uuid, job_id uuid, declared_by text, compensates uuid, mission_id uuid, manifest_version int8,
--   found_at timestamptz)
INSERT INTO agentq_internal.effect_drift (job_id, effect_type, drift, about, declared_by, compensates, mission_id, manifest_version, found_at)
SELECT DISTINCT $2::uuid, e.effect_type, 'standing', 'compensation', $3, $4::uuid, $5::uuid, $6::bigint, $7::timestamptz
FROM agentq_internal.effect e
WHERE e.chain_id = $1 AND e.status IN ('succeeded', 'executing', 'compensating', 'compensation_failed')
ON CONFLICT (job_id, effect_type, drift) DO NOTHING
RETURNING effect_type

-- before: drift_halted(chain_id uuid, job_id uuid, declared_by text, compensates uuid, mission_id uuid, manifest_version int8,
--   found_at timestamptz)
SELECT NULL::text WHERE num_nulls($1, $2, $3, $4, $5, $6, $7) < 0

-- name: effects_of_job(job_id uuid)
SELECT effect_type, bool_or(status NOT IN ('planned', 'executing', 'failed')) AS happened
FROM agentq_internal.effect WHERE job_id = $1 GROUP BY effect_type
