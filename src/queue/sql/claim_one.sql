SELECT job, queue_id, job_kind, priority, scheduled_at, job_id FROM doc
