-- What people see of missions. The version before has these views, too, so that they are replaced where they are there.

CREATE OR REPLACE FUNCTION agentq_internal.fn_job_begun_at(p_job_id uuid) RETURNS timestamptz LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(a.at) FROM (
        SELECT l.picked_at AS at FROM agentq_internal.job_lease l WHERE l.job_id = p_job_id
        UNION ALL SELECT d.picked_at FROM agentq_internal.job_done d WHERE d.job_id = p_job_id
        UNION ALL SELECT g.began_at FROM agentq_internal.job_attempt_log g WHERE g.job_id = p_job_id) a
$$;
COMMENT ON FUNCTION agentq_internal.fn_job_begun_at(uuid) IS 'When a worker first claimed a job; NULL: nobody has.';

CREATE OR REPLACE FUNCTION agentq_internal.fn_mission_step_begun_at(p_step_id uuid) RETURNS timestamptz LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(agentq_internal.fn_job_begun_at(s.job_id),
        CASE WHEN s.item_count IS NOT NULL THEN (SELECT min(agentq_internal.fn_job_begun_at(i.job_id)) FROM agentq.mission_item i
                                                 WHERE i.step_id = s.step_id) END,
        CASE WHEN s.item_count IS NOT NULL AND s.spec ? 'mission' THEN (
            SELECT min(agentq_internal.fn_mission_step_begun_at(c.step_id))
            FROM agentq.mission_item i JOIN agentq_internal.mission_step c ON c.mission_id = i.job_id WHERE i.step_id = s.step_id) END,
        -- A step without a worker begins by itself.
        CASE WHEN num_nonnulls(s.job_id, s.item_count, s.child_id) = 0 THEN s.queued_at END,
        CASE WHEN s.child_id IS NOT NULL THEN (SELECT min(agentq_internal.fn_mission_step_begun_at(c.step_id))
                                               FROM agentq_internal.mission_step c WHERE c.mission_id = s.child_id) END)
    FROM agentq_internal.mission_step s WHERE s.step_id = p_step_id AND s.queued_at IS NOT NULL
$$;
COMMENT ON FUNCTION agentq_internal.fn_mission_step_begun_at(uuid) IS 'When a worker first claimed a job of a step, or of the mission that is its work; NULL: nobody has.';

-- A step is claimed after it was queued. So of the steps behind the first ones only those matter that were queued before one
-- of the first was claimed, and there are few.
CREATE OR REPLACE FUNCTION agentq_internal.fn_mission_begun_at(p_mission_id uuid) RETURNS timestamptz LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    WITH first AS MATERIALIZED (
        SELECT min(agentq_internal.fn_mission_step_begun_at(s.step_id)) AS at
        FROM agentq_internal.mission_step s WHERE s.mission_id = p_mission_id AND s.level = 0 AND s.queued_at IS NOT NULL
    )
    SELECT least(first.at, (
        SELECT min(agentq_internal.fn_mission_step_begun_at(s.step_id))
        FROM agentq_internal.mission_step s
        WHERE s.mission_id = p_mission_id AND s.level > 0 AND s.queued_at < coalesce(first.at, 'infinity')))
    FROM first
$$;
COMMENT ON FUNCTION agentq_internal.fn_mission_begun_at(uuid) IS 'When a worker first claimed a step of a mission, or of a mission inside it; NULL: nobody has.';

CREATE OR REPLACE VIEW agentq.v_mission_step AS
SELECT s.step_id,
       s.mission_id,
       s.position,
       s.name,
       s.kind,
       s.params,
       CASE WHEN s.status <> 'queued' THEN s.status::text
            WHEN l.job_id IS NOT NULL OR s.child_id IS NOT NULL OR num_nonnulls(s.job_id, s.item_count) = 0
                OR s.item_count IS NOT NULL AND s.spec ? 'mission' THEN 'running'
            WHEN s.item_count IS NOT NULL AND EXISTS (SELECT FROM agentq.mission_item i JOIN agentq_internal.job_lease il ON il.job_id = i.job_id
                WHERE i.step_id = s.step_id) THEN 'running'
            ELSE 'queued' END AS status,
       s.executor,
       coalesce(l.picked_at, d.picked_at, j.picked_at) AS reserved_at,
       l.lease_until AS lease_expires_at,
       coalesce(j.attempts::integer, 0) AS failure_count,
       coalesce(j.max_attempts::integer, (s.spec->>'max_attempts')::integer) - 1 AS max_retries,
       coalesce(s.last_error, j.last_error) AS last_error,
       s.result,
       s.created_at,
       greatest(s.created_at, s.ready_at, s.queued_at, s.ended_at, j.updated_at, l.picked_at, l.started_at, l.heartbeat_at) AS updated_at,
       s.queued_at,
       s.ended_at,
       s.job_id,
       s.child_id AS child_mission_id,
       s.item_count,
       s.taken_from,
       s.ready_at IS NOT NULL AND s.status = 'waiting' AS held
FROM agentq_internal.mission_step s
LEFT JOIN agentq_internal.job j ON j.job_id = s.job_id
LEFT JOIN agentq_internal.job_lease l ON l.job_id = s.job_id
LEFT JOIN agentq_internal.job_done d ON d.job_id = s.job_id;
COMMENT ON VIEW agentq.v_mission_step IS 'The steps of missions, with what is known of their jobs.';
COMMENT ON COLUMN agentq.v_mission_step.step_id IS 'The step.';
COMMENT ON COLUMN agentq.v_mission_step.mission_id IS 'Its mission.';
COMMENT ON COLUMN agentq.v_mission_step.position IS 'Its number in the template, from 0.';
COMMENT ON COLUMN agentq.v_mission_step.name IS 'Its name.';
COMMENT ON COLUMN agentq.v_mission_step.kind IS 'The kind of its jobs.';
COMMENT ON COLUMN agentq.v_mission_step.params IS 'Its parameters, as in the template.';
COMMENT ON COLUMN agentq.v_mission_step.status IS 'waiting, queued, running, succeeded, failed, skipped or cancelled.';
COMMENT ON COLUMN agentq.v_mission_step.executor IS 'Who is to do it.';
COMMENT ON COLUMN agentq.v_mission_step.reserved_at IS 'When a worker last claimed its job.';
COMMENT ON COLUMN agentq.v_mission_step.lease_expires_at IS 'Until when that worker holds it.';
COMMENT ON COLUMN agentq.v_mission_step.failure_count IS 'Attempts at its job that ended without success.';
COMMENT ON COLUMN agentq.v_mission_step.max_retries IS 'Attempts that its job has after the first.';
COMMENT ON COLUMN agentq.v_mission_step.last_error IS 'Why it failed, was skipped or was cancelled, or the last attempt''s error.';
COMMENT ON COLUMN agentq.v_mission_step.result IS 'What its job handed in.';
COMMENT ON COLUMN agentq.v_mission_step.created_at IS 'When it was submitted.';
COMMENT ON COLUMN agentq.v_mission_step.updated_at IS 'When it last changed.';
COMMENT ON COLUMN agentq.v_mission_step.queued_at IS 'When it became a job.';
COMMENT ON COLUMN agentq.v_mission_step.ended_at IS 'When it ended.';
COMMENT ON COLUMN agentq.v_mission_step.job_id IS 'Its job.';
COMMENT ON COLUMN agentq.v_mission_step.child_mission_id IS 'The mission that is its work.';
COMMENT ON COLUMN agentq.v_mission_step.item_count IS 'How many items it works through.';
COMMENT ON COLUMN agentq.v_mission_step.taken_from IS 'The step of the forked mission whose result it has.';
COMMENT ON COLUMN agentq.v_mission_step.held IS 'Whether it might begin, but for the pause of its mission.';

CREATE OR REPLACE VIEW agentq.v_mission AS
SELECT m.mission_id,
       -- Nobody works at it before a worker has claimed one of its steps.
       CASE WHEN m.status = 'running' AND b.begun_at IS NULL AND c.ended = 0 THEN 'approved' ELSE m.status END AS status,
       m.title, m.source, m.actor, m.step_count,
       c.waiting, c.open, c.succeeded, c.failed, c.skipped, c.cancelled,
       m.failed_step, m.last_error, m.paused_at, m.paused_reason, m.cancellation_mode, m.cancel_reason, m.cancelled_by,
       m.deadline_at, m.created_at, b.begun_at AS started_at, m.completed_at,
       p.mission_id AS parent_mission_id, p.name AS parent_step, m.depth, m.forked_from, m.forked_step, m.command_id,
       m.correlation_id, m.trace_id, m.idempotency_key, m.policy_snapshot, m.template,
       greatest(m.created_at, m.updated_at, b.begun_at, c.changed_at) AS updated_at, m.input, m.outcome, m.finally_of
FROM agentq.mission m
LEFT JOIN agentq_internal.mission_step p ON p.step_id = m.parent_step_id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE s.status = 'waiting') AS waiting,
           count(*) FILTER (WHERE s.status = 'queued') AS open,
           count(*) FILTER (WHERE s.status = 'succeeded') AS succeeded,
           count(*) FILTER (WHERE s.status = 'failed') AS failed,
           count(*) FILTER (WHERE s.status = 'skipped') AS skipped,
           count(*) FILTER (WHERE s.status = 'cancelled') AS cancelled,
           count(s.ended_at) FILTER (WHERE s.taken_from IS NULL) AS ended,
           max(greatest(s.ready_at, s.queued_at, s.ended_at)) AS changed_at
    FROM agentq_internal.mission_step s WHERE s.mission_id = m.mission_id) c
CROSS JOIN LATERAL (SELECT agentq_internal.fn_mission_begun_at(m.mission_id) AS begun_at) b;
COMMENT ON VIEW agentq.v_mission IS 'Missions, with how many of their steps stand where.';
COMMENT ON COLUMN agentq.v_mission.mission_id IS 'The mission.';
COMMENT ON COLUMN agentq.v_mission.status IS 'approved until a worker claims its first step; then running, cancelling, compensating, finishing, succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.v_mission.title IS 'What it is called.';
COMMENT ON COLUMN agentq.v_mission.source IS 'Where it comes from.';
COMMENT ON COLUMN agentq.v_mission.actor IS 'Who started it.';
COMMENT ON COLUMN agentq.v_mission.step_count IS 'How many steps it has.';
COMMENT ON COLUMN agentq.v_mission.waiting IS 'Steps that wait for others.';
COMMENT ON COLUMN agentq.v_mission.open IS 'Steps that are queued or run.';
COMMENT ON COLUMN agentq.v_mission.succeeded IS 'Steps that succeeded.';
COMMENT ON COLUMN agentq.v_mission.failed IS 'Steps that failed.';
COMMENT ON COLUMN agentq.v_mission.skipped IS 'Steps that were skipped.';
COMMENT ON COLUMN agentq.v_mission.cancelled IS 'Steps that were cancelled.';
COMMENT ON COLUMN agentq.v_mission.failed_step IS 'The first step whose failure ended it.';
COMMENT ON COLUMN agentq.v_mission.last_error IS 'Why it failed, or is about to.';
COMMENT ON COLUMN agentq.v_mission.paused_at IS 'Since when it is paused.';
COMMENT ON COLUMN agentq.v_mission.paused_reason IS 'Why it is paused.';
COMMENT ON COLUMN agentq.v_mission.cancellation_mode IS 'What a cancel does.';
COMMENT ON COLUMN agentq.v_mission.cancel_reason IS 'Why it was cancelled.';
COMMENT ON COLUMN agentq.v_mission.cancelled_by IS 'Who cancelled it.';
COMMENT ON COLUMN agentq.v_mission.deadline_at IS 'When it fails if it has not ended.';
COMMENT ON COLUMN agentq.v_mission.created_at IS 'When it was submitted.';
COMMENT ON COLUMN agentq.v_mission.started_at IS 'When a worker first claimed one of its steps.';
COMMENT ON COLUMN agentq.v_mission.completed_at IS 'When it ended.';
COMMENT ON COLUMN agentq.v_mission.parent_mission_id IS 'The mission in which it is.';
COMMENT ON COLUMN agentq.v_mission.parent_step IS 'The step of that mission whose work it is.';
COMMENT ON COLUMN agentq.v_mission.depth IS 'In how many other missions it is.';
COMMENT ON COLUMN agentq.v_mission.forked_from IS 'The mission of which it is a fork.';
COMMENT ON COLUMN agentq.v_mission.forked_step IS 'The step from which the fork begins.';
COMMENT ON COLUMN agentq.v_mission.command_id IS 'The command that started it.';
COMMENT ON COLUMN agentq.v_mission.correlation_id IS 'What it belongs to.';
COMMENT ON COLUMN agentq.v_mission.trace_id IS 'The caller''s trace.';
COMMENT ON COLUMN agentq.v_mission.idempotency_key IS 'A second start with this key answers with this mission.';
COMMENT ON COLUMN agentq.v_mission.policy_snapshot IS 'The policies in force when it was approved.';
COMMENT ON COLUMN agentq.v_mission.template IS 'What it was started with.';
COMMENT ON COLUMN agentq.v_mission.updated_at IS 'When it, or one of its steps, last changed.';
COMMENT ON COLUMN agentq.v_mission.input IS 'What its steps may read as $.input.';
COMMENT ON COLUMN agentq.v_mission.outcome IS 'How it ends when what is to be done in any case has been done.';
COMMENT ON COLUMN agentq.v_mission.finally_of IS 'The mission of which this one does what is to be done in any case.';

CREATE OR REPLACE VIEW agentq.v_action_run AS
SELECT a.attempt_id AS id,
       coalesce(a.run_id, a.job_id || '#' || a.attempt_no) AS run_id,
       s.step_id,
       s.mission_id,
       s.name AS step,
       coalesce(s.executor, s.kind) AS executor,
       CASE WHEN a.ended_at IS NULL THEN 'started' WHEN a.outcome = 'succeeded' THEN 'succeeded' ELSE 'failed' END AS status,
       a.began_at AS started_at,
       a.ended_at AS completed_at,
       jsonb_strip_nulls(jsonb_build_object('lease_owner', a.lease_owner, 'outcome', a.outcome, 'attempt_no', a.attempt_no,
           'error_class', a.error_class, 'item', w.item)) || coalesce(a.meta, '{}') AS meta,
       a.error
FROM (SELECT step_id, job_id, NULL::integer AS item FROM agentq_internal.mission_step WHERE job_id IS NOT NULL
      UNION ALL SELECT step_id, job_id, item FROM agentq.mission_item) w
JOIN agentq_internal.mission_step s ON s.step_id = w.step_id
CROSS JOIN LATERAL (SELECT * FROM agentq.job_attempt a WHERE a.job_id = w.job_id) a;
COMMENT ON VIEW agentq.v_action_run IS 'Every attempt at a step of a mission.';
COMMENT ON COLUMN agentq.v_action_run.id IS 'The attempt, as in job_attempt.';
COMMENT ON COLUMN agentq.v_action_run.run_id IS 'What its worker calls it, as fn_job_start was told; else the job and the number of the attempt.';
COMMENT ON COLUMN agentq.v_action_run.step_id IS 'The step.';
COMMENT ON COLUMN agentq.v_action_run.mission_id IS 'Its mission.';
COMMENT ON COLUMN agentq.v_action_run.step IS 'The name of the step.';
COMMENT ON COLUMN agentq.v_action_run.executor IS 'Who was to do it; the step''s kind if it names nobody.';
COMMENT ON COLUMN agentq.v_action_run.status IS 'started, succeeded or failed.';
COMMENT ON COLUMN agentq.v_action_run.started_at IS 'When it was claimed.';
COMMENT ON COLUMN agentq.v_action_run.completed_at IS 'When it ended.';
COMMENT ON COLUMN agentq.v_action_run.meta IS 'The worker, the outcome, the number of the attempt, the class of its error and the item, and what its worker told fn_job_start.';
COMMENT ON COLUMN agentq.v_action_run.error IS 'Its error.';
