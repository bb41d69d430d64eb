-- 0.2.0 shows the depth of each queue.

CREATE VIEW agentq.v_queue_depth AS
SELECT q.queue,
       q.paused_at IS NOT NULL AS paused,
       r.jobs AS ready,
       w.jobs AS waiting,
       l.jobs AS held,
       r.oldest AS oldest_ready_at,
       extract(epoch FROM (agentq.fn_clock_now() - r.oldest))::numeric(20, 3) AS oldest_ready_seconds,
       w.next AS next_due_at
FROM agentq.queue q
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(scheduled_at) AS oldest FROM agentq.job_ready
                    WHERE any_queue_id = q.queue_id) r
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(w.scheduled_at) AS next
                    FROM agentq.job_waiting w JOIN agentq.job j ON j.job_id = w.job_id WHERE j.queue_id = q.queue_id) w
CROSS JOIN LATERAL (SELECT count(*) AS jobs
                    FROM agentq.job_lease l JOIN agentq.job j ON j.job_id = l.job_id WHERE j.queue_id = q.queue_id) l;
COMMENT ON VIEW agentq.v_queue_depth IS 'Each queue with its jobs that may run now, later, or are held, and how long the oldest has waited.';
COMMENT ON COLUMN agentq.v_queue_depth.queue IS 'The queue.';
COMMENT ON COLUMN agentq.v_queue_depth.paused IS 'Whether it gives out no jobs.';
COMMENT ON COLUMN agentq.v_queue_depth.ready IS 'Jobs that may run now.';
COMMENT ON COLUMN agentq.v_queue_depth.waiting IS 'Jobs whose time has not come, or has come since the last claim.';
COMMENT ON COLUMN agentq.v_queue_depth.held IS 'Jobs that a worker holds.';
COMMENT ON COLUMN agentq.v_queue_depth.oldest_ready_at IS 'Since when the oldest ready job may run.';
COMMENT ON COLUMN agentq.v_queue_depth.oldest_ready_seconds IS 'How long that is.';
COMMENT ON COLUMN agentq.v_queue_depth.next_due_at IS 'When the next waiting job may run.';

INSERT INTO agentq.access_rule (level, privilege, object)
VALUES ('reader', 'SELECT', 'v_queue_depth'), ('operator', 'SELECT', 'v_queue_depth');
-- Roles that have a level get what it has gained.
UPDATE agentq.access_grant SET granted_at = granted_at WHERE level IN ('reader', 'operator');
