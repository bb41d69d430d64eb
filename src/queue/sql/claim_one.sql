SELECT job, job_id, queue_id, job_kind, priority, scheduled_at, picked_at IS NOT NULL FROM doc
