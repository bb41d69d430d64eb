-- The end of a job waits for nobody who steers its mission. Where somebody was at it, the end leaves word here.
CREATE TABLE agentq_internal.mission_end_due (
    mission_id uuid NOT NULL,
    end_id     uuid NOT NULL,
    step_id    uuid NOT NULL,
    item       integer,
    status     agentq_internal.mission_step_status NOT NULL,
    result     jsonb,
    error      text,
    by_id      uuid,
    context    jsonb,
    CONSTRAINT mission_end_due_pkey PRIMARY KEY (mission_id, end_id)
);
COMMENT ON TABLE agentq_internal.mission_end_due IS 'Storage: work of steps that has ended while somebody steered its mission, and that the engine has yet to tell the mission of.';
COMMENT ON COLUMN agentq_internal.mission_end_due.mission_id IS 'The mission.';
COMMENT ON COLUMN agentq_internal.mission_end_due.end_id IS 'The end.';
COMMENT ON COLUMN agentq_internal.mission_end_due.step_id IS 'The step whose work has ended.';
COMMENT ON COLUMN agentq_internal.mission_end_due.item IS 'The item of its list that has; NULL: the step has no list, or all of it.';
COMMENT ON COLUMN agentq_internal.mission_end_due.status IS 'How it has ended.';
COMMENT ON COLUMN agentq_internal.mission_end_due.result IS 'The result.';
COMMENT ON COLUMN agentq_internal.mission_end_due.error IS 'The error.';
COMMENT ON COLUMN agentq_internal.mission_end_due.by_id IS 'The job, or the mission, that was the work.';
COMMENT ON COLUMN agentq_internal.mission_end_due.context IS 'What that job belonged to.';

SELECT pg_catalog.pg_extension_config_dump('agentq_internal.mission_end_due', '');
