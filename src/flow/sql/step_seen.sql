UPDATE agentq.job_step SET seen_by = $4
WHERE job_id = $1 AND name = $2 AND occurrence = $3 AND seen_by IS DISTINCT FROM $4
