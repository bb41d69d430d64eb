-- name: checkpoint_load(job_id uuid)
SELECT jsonb_build_object('ok', true, 'code', 'found', 'job_id', job_id, 'checkpoint', checkpoint, 'saved_at', saved_at)
FROM agentq_internal.job_checkpoint WHERE job_id = $1
