INSERT INTO agentq.job_checkpoint (job_id, saved_at, checkpoint) VALUES ($1, $2, $3)
ON CONFLICT (job_id) DO UPDATE SET saved_at = excluded.saved_at, checkpoint = excluded.checkpoint
