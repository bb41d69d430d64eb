-- name: again_facts(job_id uuid)
SELECT j.external_effects IS TRUE AS external_effects, c.checkpoint
FROM agentq_internal.job j
LEFT JOIN agentq_internal.job_checkpoint c ON c.job_id = j.job_id
WHERE j.job_id = $1

-- name: checkpoint_at(job_id uuid)
SELECT saved_at FROM agentq_internal.job_checkpoint WHERE job_id = $1
