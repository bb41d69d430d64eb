-- Who may do what with the objects of this room.
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, proposer, reader, operator}', '{
    fn_proposal_is_auto_approvable, fn_template_step_kinds, fn_proposal_get}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, proposer, operator}', '{fn_proposal_create, fn_proposal_gate}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, reader, operator}', '{fn_policy_get}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{fn_policy_history}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{operator}', '{
    fn_policy_set, fn_proposal_approve, fn_proposal_reject, fn_ops_tick}');
SELECT agentq_internal.fn_access_allow('SELECT', '{reader, operator}', '{
    policy, policy_version, event_cursor, reaction, reaction_pattern, command, v_proposal, v_event_consumer}');
