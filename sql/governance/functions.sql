-- What the functions of this room that are written in Rust are for.
COMMENT ON FUNCTION agentq_internal.fn_policy_accepts IS 'Whether a policy may have a value: those of agentq have a shape, others may hold what they like.';
COMMENT ON FUNCTION agentq.fn_policy_set IS 'Sets a policy: a new version, kept for good, and an audit event. A value that does not have the policy''s shape is refused with the path of what is wrong.';
COMMENT ON FUNCTION agentq.fn_policy_get IS 'A policy in force, or one of its versions. Version 0 is the default of a policy that nobody has set.';
COMMENT ON FUNCTION agentq.fn_policy_history IS 'The versions of a policy, the newest first: what it said, since when, by whom and why.';
COMMENT ON FUNCTION agentq.fn_proposal_create IS 'Proposes a mission: gated, and approved at once or left for a person, with the policies that decided. A second call with its key answers with the first proposal.';
COMMENT ON FUNCTION agentq.fn_proposal_gate IS 'What the gate would say of a proposal now: caps per day and source, number of steps, and the policy''s hook. Counts nothing.';
COMMENT ON FUNCTION agentq.fn_proposal_is_auto_approvable IS 'Whether a proposal needs no person, by the kinds of its steps, its risk and its source.';
COMMENT ON FUNCTION agentq.fn_template_step_kinds IS 'Every kind of work that a mission template asks for, also in missions within steps.';
COMMENT ON FUNCTION agentq.fn_proposal_approve IS 'Approves a pending proposal and starts its mission.';
COMMENT ON FUNCTION agentq.fn_proposal_reject IS 'Rejects a pending proposal, with the reason.';
COMMENT ON FUNCTION agentq.fn_proposal_get IS 'Everything known of one proposal.';
COMMENT ON FUNCTION agentq.fn_ops_tick IS 'One turn of the loop by hand: recovers leases, reads events, makes proposals. For servers without the engine.';
