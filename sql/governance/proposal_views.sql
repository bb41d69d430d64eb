-- What people see of commands. The version before has this view, too.
CREATE OR REPLACE VIEW agentq.v_proposal AS
SELECT command_id AS proposal_id, dedupe_key, source, decision AS status,
       -- From the first claim of a step on, its mission runs.
       CASE WHEN state IN ('approved', 'auto_approved') AND agentq_internal.fn_mission_begun_at(mission_id) IS NOT NULL
            THEN 'running' ELSE state END AS state,
       title, risk_level, template, reason,
       policy_snapshot, requested_by, decided_by, decided_at, approved_at, mission_id, reaction_id, depth, created_at, finished_at,
       trace_id, correlation_id
FROM agentq.command;
COMMENT ON VIEW agentq.v_proposal IS 'Proposals: what awaits a decision, and what was decided.';
COMMENT ON COLUMN agentq.v_proposal.proposal_id IS 'Id of the proposal.';
COMMENT ON COLUMN agentq.v_proposal.dedupe_key IS 'A key stands for one proposal.';
COMMENT ON COLUMN agentq.v_proposal.source IS 'api, trigger, reaction or manual.';
COMMENT ON COLUMN agentq.v_proposal.status IS 'pending, approved, rejected or auto_approved.';
COMMENT ON COLUMN agentq.v_proposal.state IS 'As the status; then running, from the first claim of a step of its mission on, or how that ended: succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.v_proposal.title IS 'Its template''s title.';
COMMENT ON COLUMN agentq.v_proposal.risk_level IS 'How risky it says it is.';
COMMENT ON COLUMN agentq.v_proposal.template IS 'The mission template.';
COMMENT ON COLUMN agentq.v_proposal.reason IS 'Why it was rejected, why it needs a person, or what whoever decided said.';
COMMENT ON COLUMN agentq.v_proposal.policy_snapshot IS 'The policies that decided, each with its version and value.';
COMMENT ON COLUMN agentq.v_proposal.requested_by IS 'Who wants it.';
COMMENT ON COLUMN agentq.v_proposal.decided_by IS 'Who decided; policy: the rules alone.';
COMMENT ON COLUMN agentq.v_proposal.decided_at IS 'When it was decided.';
COMMENT ON COLUMN agentq.v_proposal.approved_at IS 'When it was approved.';
COMMENT ON COLUMN agentq.v_proposal.mission_id IS 'The mission that it started.';
COMMENT ON COLUMN agentq.v_proposal.reaction_id IS 'The reaction that it came from.';
COMMENT ON COLUMN agentq.v_proposal.depth IS 'How many times over the loop itself has caused it.';
COMMENT ON COLUMN agentq.v_proposal.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.v_proposal.finished_at IS 'When the end of its mission was noted.';
COMMENT ON COLUMN agentq.v_proposal.trace_id IS 'The trace that it is part of.';
COMMENT ON COLUMN agentq.v_proposal.correlation_id IS 'What it belongs to.';
