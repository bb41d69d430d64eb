-- Who may do what with the objects of this room.
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, worker, reader, operator}', '{fn_action_key}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, proposer, worker, reader, operator}', '{
    fn_mission_get, fn_mission_wait, fn_mission_explain, fn_mission_graph}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, worker, operator}', '{fn_signal_send}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, operator}', '{fn_mission_start}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, reader, operator}', '{fn_checkpoint_load, fn_effect_get}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, operator}', '{
    fn_step_begin, fn_step_complete, fn_step_fail, fn_step_resolve, fn_action_begin, fn_action_finish,
    fn_action_fail, fn_checkpoint_save, fn_job_sleep, fn_signal_wait, fn_child_start, fn_child_wait, fn_effect_plan, fn_effect_begin,
    fn_effect_finish, fn_effect_fail}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{fn_effect_manifest_check, fn_runtime_capabilities}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{operator}', '{
    fn_mission_cancel, fn_mission_pause, fn_mission_resume, fn_mission_fork, fn_mission_retry, fn_mission_recover_stale, fn_effect_manifest_set,
    fn_effect_operation_set, fn_effect_operation_remove, fn_effect_compensation_set, fn_effect_compensation_remove,
    fn_effect_reconcile, fn_effect_skip, fn_effect_compensate}');
SELECT agentq_internal.fn_access_allow('SELECT', '{reader, operator}', '{
    v_job_step, action, signal, signal_wait, mission, v_mission, v_mission_step, v_action_run, mission_item, mission_wait,
    v_effect, v_effect_drift, effect_chain, effect_manifest, effect_operation, effect_compensation, effect_type}');
-- What v_mission shows of jobs.
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{fn_mission_begun_at}');
