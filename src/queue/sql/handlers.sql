SELECT job_kind, sql, role_name::text, queue, timeout_seconds, registered_by::text FROM agentq.job_handler WHERE enabled ORDER BY job_kind
