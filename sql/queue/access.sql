-- Who may do what with the objects of this room.
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, worker, reader, operator}', '{
    fn_job_get, fn_job_wait, fn_job_explain, fn_backpressure_status}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, reader, operator}', '{fn_admission_check}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, operator}', '{
    fn_job_enqueue, fn_job_enqueue_batch, fn_job_enqueue_payloads}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, reader, operator}', '{fn_limit_gauge}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, operator}', '{
    fn_job_claim, fn_job_claim_batch, fn_job_start, fn_job_heartbeat, fn_job_ack, fn_job_ack_batch,
    fn_job_ack_and_claim, fn_job_ack_and_claim_batch, fn_job_fail_or_retry, fn_job_release, fn_job_snooze,
    fn_limit_report, fn_job_usage, fn_queue_heartbeat_tick}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{
    fn_limit_counted, fn_limit_pending, fn_queue_stale_check, fn_schedule_upcoming, fn_vacuum_state, fn_queue_verify,
    fn_limit_rule_of, fn_budget_period, fn_budget_ends, fn_capable_workers}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, reader, operator}', '{fn_attempt_id}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{operator}', '{
    fn_job_cancel, fn_job_change, fn_job_move_to_dead_letter, fn_job_purge, fn_job_replay, fn_job_reconcile,
    fn_dead_letter_triage, fn_dead_letter_redrive, fn_dead_letter_purge, fn_error_class_set, fn_error_class_remove,
    fn_retry_policy_set, fn_retry_policy_remove, fn_limit_set, fn_budget_set, fn_budget_remove, fn_limit_remove,
    fn_queue_set, fn_queue_pause, fn_queue_resume, fn_schedule_set, fn_schedule_pause, fn_schedule_resume,
    fn_schedule_remove, fn_handler_register, fn_handler_remove, fn_limit_preset, fn_adjust_concurrency}');
SELECT agentq_internal.fn_access_allow('SELECT', '{reader, operator}', '{
    job_queue, job_attempt, job_dead_letter, queue_heartbeat, queue, v_queue_health, v_queue_depth,
    v_job_queue_backlog, v_job_dead_letter_summary, metric, schedule, v_schedule, job_handler, error_class,
    retry_policy, limit_rule, v_limit, budget, v_budget}');
SELECT agentq_internal.fn_access_allow('INSERT', '{operator}', '{job_queue}');
SELECT agentq_internal.fn_access_allow('UPDATE', '{operator}', '{job_queue}');
SELECT agentq_internal.fn_access_allow('DELETE', '{operator}', '{job_queue}');
