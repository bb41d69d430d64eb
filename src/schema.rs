//! The table of contents of the schema: every SQL file, in the order in which it is loaded.
//!
//! Each room is one block, lower rooms first: its tables and views, then `access.sql` (who may do what with them)
//! and `functions.sql` (what its functions in Rust are for). A block goes on from the last file of the block before it
//! and names nothing of the blocks after it.
//!
//! Which functions in Rust a file needs is said by name alone: pgrx finds them in any module. A function that is left
//! out comes too late, and CREATE EXTENSION says so.

use pgrx::prelude::*;

// base: time, settings, and who may do what
extension_sql_file!("../sql/base/schema.sql", name = "base_schema", bootstrap);
/// Lets functions in Rust name this schema, which base/schema.sql has made by then.
#[pg_schema]
mod agentq_internal {}
extension_sql_file!(
    "../sql/base/config.sql",
    name = "base_config",
    requires = [fn_clock_now, fn_config_accepts, fn_config_defaults, fn_settings_changed]
);
extension_sql_file!("../sql/base/levels.sql", name = "base_levels", requires = ["base_config"]);
extension_sql_file!("../sql/base/grant.sql", name = "base_grant", requires = ["base_levels", fn_bounded]);
extension_sql_file!("../sql/base/grant_trigger.sql", name = "base_grant_trigger", requires = ["base_grant"]);
extension_sql_file!("../sql/base/identity.sql", name = "base_identity", requires = ["base_grant_trigger"]);
extension_sql_file!("../sql/base/access.sql", name = "base_access", requires = ["base_identity"]);
extension_sql_file!(
    "../sql/base/functions.sql",
    name = "base_functions",
    requires = [
        "base_access",
        fn_bounded,
        fn_act_as,
        fn_actor,
        fn_clock_now,
        fn_node_of,
        fn_role_that_sees,
        fn_token_issue,
        fn_token_list,
        fn_token_revoke,
        fn_version,
        fn_whoami,
        fn_config_accepts,
        fn_config_defaults,
        fn_config_get,
        fn_config_set,
        fn_settings_changed,
    ]
);

// events: what happened, in which order
extension_sql_file!("../sql/events/event.sql", name = "events_event", requires = ["base_functions", fn_config_get]);
extension_sql_file!("../sql/events/event_index.sql", name = "events_event_index", requires = ["events_event"]);
extension_sql_file!("../sql/events/log.sql", name = "events_log", requires = ["events_event_index"]);
extension_sql_file!("../sql/events/origin.sql", name = "events_origin", requires = ["events_log"]);
extension_sql_file!("../sql/events/partition.sql", name = "events_partition", requires = ["events_origin"]);
extension_sql_file!("../sql/events/access.sql", name = "events_access", requires = ["events_partition"]);
extension_sql_file!(
    "../sql/events/functions.sql",
    name = "events_functions",
    requires = ["events_access", fn_event_emit, fn_event_read, fn_event_verify]
);

// queue: jobs, and how they may run
extension_sql_file!("../sql/queue/queue.sql", name = "queue_queue", requires = ["events_functions"]);
extension_sql_file!(
    "../sql/queue/failure.sql",
    name = "queue_failure",
    requires = ["queue_queue", fn_error_class_defaults]
);
extension_sql_file!("../sql/queue/limits.sql", name = "queue_limits", requires = ["queue_failure"]);
extension_sql_file!("../sql/queue/domains.sql", name = "queue_domains", requires = ["queue_limits"]);
extension_sql_file!("../sql/queue/job.sql", name = "queue_job", requires = ["queue_domains"]);
extension_sql_file!("../sql/queue/job_order_due.sql", name = "queue_job_order_due", requires = ["queue_job"]);
extension_sql_file!("../sql/queue/job_end_due.sql", name = "queue_job_end_due", requires = ["queue_job_order_due"]);
extension_sql_file!("../sql/queue/dead_letter.sql", name = "queue_dead_letter", requires = ["queue_job_end_due"]);
extension_sql_file!("../sql/queue/heartbeat.sql", name = "queue_heartbeat", requires = ["queue_dead_letter"]);
extension_sql_file!("../sql/queue/job_queue_view.sql", name = "queue_job_queue_view", requires = ["queue_heartbeat"]);
extension_sql_file!("../sql/queue/sight.sql", name = "queue_sight", requires = ["queue_job_queue_view"]);
extension_sql_file!("../sql/queue/job_queue.sql", name = "queue_job_queue", requires = ["queue_sight"]);
extension_sql_file!("../sql/queue/views.sql", name = "queue_views", requires = ["queue_job_queue"]);
extension_sql_file!("../sql/queue/verify.sql", name = "queue_verify", requires = ["queue_views"]);
extension_sql_file!(
    "../sql/queue/schedule.sql",
    name = "queue_schedule",
    requires = ["queue_verify", fn_schedule_upcoming]
);
extension_sql_file!("../sql/queue/handler.sql", name = "queue_handler", requires = ["queue_schedule"]);
extension_sql_file!("../sql/queue/metric.sql", name = "queue_metric", requires = ["queue_handler"]);
extension_sql_file!(
    "../sql/queue/limit_views.sql",
    name = "queue_limit_views",
    requires = ["queue_metric", fn_limit_counted, fn_limit_gauge]
);
extension_sql_file!("../sql/queue/limit_view.sql", name = "queue_limit_view", requires = ["queue_limit_views"]);
extension_sql_file!(
    "../sql/queue/adjust_concurrency.sql",
    name = "queue_adjust_concurrency",
    requires = ["queue_limit_view"]
);
extension_sql_file!("../sql/queue/insight.sql", name = "queue_insight", requires = ["queue_adjust_concurrency"]);
extension_sql_file!("../sql/queue/job_explain.sql", name = "queue_job_explain", requires = ["queue_insight"]);
extension_sql_file!("../sql/queue/access.sql", name = "queue_access", requires = ["queue_job_explain"]);
extension_sql_file!(
    "../sql/queue/functions.sql",
    name = "queue_functions",
    requires = [
        "queue_access",
        fn_job_enqueue,
        fn_job_enqueue_batch,
        fn_job_enqueue_payloads,
        claim_or_wait,
        claim_batch_or_wait,
        fn_job_start,
        fn_job_heartbeat,
        fn_job_ack,
        fn_job_ack_batch,
        fn_job_ack_and_claim,
        fn_job_ack_and_claim_batch,
        fail_with_verdict,
        fn_job_release,
        fn_job_snooze,
        fn_job_cancel,
        fn_job_change,
        fn_job_move_to_dead_letter,
        fn_job_purge,
        fn_job_get,
        fn_job_wait,
        fn_job_replay,
        fn_job_reconcile,
        triage_and_resolve,
        fn_dead_letter_redrive,
        fn_dead_letter_purge,
        fn_error_class_defaults,
        fn_error_class_set,
        fn_error_class_remove,
        fn_retry_policy_set,
        fn_retry_policy_remove,
        fn_limit_set,
        fn_limit_preset,
        fn_limit_remove,
        fn_limit_report,
        fn_limit_gauge,
        fn_budget_set,
        fn_budget_remove,
        fn_job_usage,
        fn_admission_check,
        fn_limit_counted,
        fn_queue_set,
        fn_queue_pause,
        fn_queue_resume,
        fn_queue_heartbeat_tick,
        fn_queue_stale_check,
        fn_schedule_set,
        fn_schedule_pause,
        fn_schedule_resume,
        fn_schedule_remove,
        fn_schedule_upcoming,
        fn_handler_register,
        fn_handler_remove,
    ]
);

// flow: what jobs have already done, missions, effects
extension_sql_file!("../sql/flow/steps.sql", name = "flow_steps", requires = ["queue_functions"]);
extension_sql_file!("../sql/flow/step_view.sql", name = "flow_step_view", requires = ["flow_steps"]);
extension_sql_file!("../sql/flow/mission.sql", name = "flow_mission", requires = ["flow_step_view"]);
extension_sql_file!("../sql/flow/mission_wait.sql", name = "flow_mission_wait", requires = ["flow_mission"]);
extension_sql_file!("../sql/flow/mission_end_due.sql", name = "flow_mission_end_due", requires = ["flow_mission_wait"]);
extension_sql_file!("../sql/flow/mission_views.sql", name = "flow_mission_views", requires = ["flow_mission_end_due"]);
extension_sql_file!("../sql/flow/effect.sql", name = "flow_effect", requires = ["flow_mission_views"]);
extension_sql_file!("../sql/flow/access.sql", name = "flow_access", requires = ["flow_effect"]);
extension_sql_file!(
    "../sql/flow/functions.sql",
    name = "flow_functions",
    requires = [
        "flow_access",
        fn_step_begin,
        fn_step_complete,
        fn_step_fail,
        fn_step_resolve,
        fn_action_begin,
        fn_action_finish,
        fn_action_fail,
        fn_action_key,
        fn_checkpoint_save,
        fn_checkpoint_load,
        fn_job_sleep,
        fn_signal_send,
        fn_signal_wait,
        fn_child_start,
        fn_child_wait,
        fn_mission_start,
        fn_mission_cancel,
        pause_whole,
        fn_mission_resume,
        fn_mission_recover_stale,
        fn_mission_retry,
        fn_runtime_capabilities,
        fn_mission_fork,
        fn_mission_get,
        fn_mission_wait,
        fn_mission_explain,
        fn_mission_graph,
        fn_effect_manifest_set,
        fn_effect_manifest_check,
        fn_effect_operation_set,
        fn_effect_operation_remove,
        fn_effect_compensation_set,
        fn_effect_compensation_remove,
        fn_effect_plan,
        fn_effect_begin,
        fn_effect_finish,
        fn_effect_fail,
        fn_effect_reconcile,
        fn_effect_skip,
        fn_effect_get,
        fn_effect_compensate,
    ]
);

// governance: policies, reactions, proposals
extension_sql_file!(
    "../sql/governance/policy.sql",
    name = "governance_policy",
    requires = ["flow_functions", fn_policy_accepts]
);
extension_sql_file!("../sql/governance/proposal.sql", name = "governance_proposal", requires = ["governance_policy"]);
extension_sql_file!(
    "../sql/governance/proposal_views.sql",
    name = "governance_proposal_views",
    requires = ["governance_proposal"]
);
extension_sql_file!(
    "../sql/governance/consumer.sql",
    name = "governance_consumer",
    requires = ["governance_proposal_views"]
);
extension_sql_file!("../sql/governance/access.sql", name = "governance_access", requires = ["governance_consumer"]);
extension_sql_file!(
    "../sql/governance/functions.sql",
    name = "governance_functions",
    requires = [
        "governance_access",
        fn_policy_accepts,
        fn_policy_set,
        fn_policy_get,
        fn_policy_history,
        fn_proposal_create,
        fn_proposal_gate,
        fn_proposal_is_auto_approvable,
        fn_template_step_kinds,
        fn_proposal_approve,
        fn_proposal_reject,
        fn_proposal_get,
        fn_ops_tick,
    ]
);

// engine: the chores
extension_sql_file!(
    "../sql/engine/engine.sql",
    name = "engine_engine",
    requires = ["governance_functions", fn_engine_chore_defaults, fn_engine_live, fn_engine_state]
);
extension_sql_file!("../sql/engine/chore_set.sql", name = "engine_chore_set", requires = ["engine_engine"]);
extension_sql_file!("../sql/engine/access.sql", name = "engine_access", requires = ["engine_chore_set"]);
extension_sql_file!(
    "../sql/engine/functions.sql",
    name = "engine_functions",
    requires = [
        "engine_access",
        fn_engine_tick,
        fn_engine_announce,
        fn_engine_chore_defaults,
        fn_engine_live,
        fn_engine_state,
    ]
);

extension_sql_file!("../sql/finish.sql", name = "finish", finalize);
