//! The rows: every function of the schema agentq that takes a text, a document or a list, in the order of their names.

use super::Bound::{Beside, Cut, Document, List, Setting, Text};
use super::{
    ALIASES, BATCH, BATCH_BYTES, Bound, CHECKPOINT_SETTING, CRON, DOCUMENT, KEPT, KEY, LIMIT_KEY, LISTING, NAME, NAMES,
    OPTIONS, PAYLOAD_SETTING, PLAN, REFERENCE, REST, RESULT_SETTING, RULES, Row, SQL, STEP, UNIT,
};

const A_NAME: Bound = Text(NAME);
const A_KEY: Bound = Text(KEY);
const CUT: Bound = Cut(KEPT);
const PAYLOAD: Bound = Setting(PAYLOAD_SETTING);
const RESULT: Bound = Setting(RESULT_SETTING);
const CHECKPOINT: Bound = Setting(CHECKPOINT_SETTING);

pub const TABLE: &[Row] = &[
    ("fn_access_grant", &[("p_role", A_NAME), ("p_level", A_NAME)]),
    ("fn_access_revoke", &[("p_role", A_NAME), ("p_level", A_NAME)]),
    (
        "fn_action_begin",
        &[
            ("p_key", A_KEY),
            ("p_type", A_NAME),
            ("p_inputs", Document(DOCUMENT)),
            ("p_holder", A_NAME),
            ("p_options", Document(OPTIONS)),
        ],
    ),
    ("fn_action_fail", &[("p_key", A_KEY), ("p_holder", A_NAME), ("p_error", CUT)]),
    ("fn_action_finish", &[("p_key", A_KEY), ("p_holder", A_NAME), ("p_result", RESULT)]),
    ("fn_action_key", &[("p_step", Text(STEP)), ("p_inputs", Document(DOCUMENT))]),
    ("fn_adjust_concurrency", &[("p_scope", A_NAME)]),
    ("fn_admission_check", &[("p_job", Beside { member: "payload_json", setting: PAYLOAD_SETTING, rest: REST })]),
    ("fn_backpressure_status", &[("p_queue", A_NAME)]),
    ("fn_budget_remove", &[("p_key", Text(LIMIT_KEY)), ("p_unit", Text(UNIT)), ("p_period", A_NAME)]),
    (
        "fn_budget_set",
        &[("p_key", Text(LIMIT_KEY)), ("p_unit", Text(UNIT)), ("p_period", A_NAME), ("p_budget", Document(OPTIONS))],
    ),
    ("fn_capable_workers", &[("p_requires", List { elements: NAMES, bytes: NAMES * NAME })]),
    ("fn_checkpoint_save", &[("p_lease_owner", A_NAME), ("p_checkpoint", CHECKPOINT)]),
    (
        "fn_child_start",
        &[
            ("p_lease_owner", A_NAME),
            ("p_name", A_NAME),
            ("p_job_kind", A_NAME),
            ("p_payload_json", PAYLOAD),
            ("p_options", Document(OPTIONS)),
        ],
    ),
    ("fn_child_wait", &[("p_lease_owner", A_NAME), ("p_name", A_NAME)]),
    ("fn_config_get", &[("p_key", A_NAME)]),
    ("fn_config_set", &[("p_key", A_NAME), ("p_value", Document(OPTIONS))]),
    ("fn_dead_letter_purge", &[("p_filter", Document(LISTING))]),
    ("fn_dead_letter_redrive", &[("p_filter", Document(LISTING)), ("p_options", Document(OPTIONS))]),
    (
        "fn_dead_letter_triage",
        &[
            ("p_triage_status", A_NAME),
            ("p_triage_note", CUT),
            ("p_triaged_by", A_NAME),
            ("p_resolution", Document(OPTIONS)),
        ],
    ),
    ("fn_effect_begin", &[("p_lease_owner", A_NAME)]),
    ("fn_effect_compensate", &[("p_reason", CUT), ("p_options", Document(OPTIONS))]),
    ("fn_effect_compensation_remove", &[("p_compensation", A_NAME)]),
    ("fn_effect_compensation_set", &[("p_compensation", A_NAME), ("p_definition", Document(RULES))]),
    ("fn_effect_fail", &[("p_lease_owner", A_NAME), ("p_error", CUT)]),
    ("fn_effect_finish", &[("p_lease_owner", A_NAME), ("p_result", PAYLOAD)]),
    ("fn_effect_manifest_check", &[("p_manifest", Document(LISTING))]),
    ("fn_effect_manifest_set", &[("p_manifest", Document(LISTING)), ("p_note", CUT)]),
    ("fn_effect_operation_remove", &[("p_operation", A_NAME)]),
    ("fn_effect_operation_set", &[("p_operation", A_NAME), ("p_definition", Document(RULES))]),
    ("fn_effect_plan", &[("p_lease_owner", A_NAME), ("p_effects", List { elements: PLAN, bytes: DOCUMENT })]),
    ("fn_effect_reconcile", &[("p_verdict", A_NAME), ("p_result", PAYLOAD), ("p_note", CUT), ("p_by", A_NAME)]),
    ("fn_effect_skip", &[("p_reason", CUT), ("p_by", A_NAME)]),
    ("fn_engine_chore_set", &[("p_chore", A_NAME)]),
    ("fn_engine_tick", &[("p_chore", A_NAME)]),
    ("fn_error_class_remove", &[("p_error_class", A_NAME)]),
    (
        "fn_error_class_set",
        &[
            ("p_error_class", A_NAME),
            ("p_description", Text(REFERENCE)),
            ("p_aliases", List { elements: ALIASES, bytes: ALIASES * NAME }),
        ],
    ),
    (
        "fn_event_emit",
        &[("p_kind", A_NAME), ("p_subject", A_KEY), ("p_payload", PAYLOAD), ("p_options", Document(OPTIONS))],
    ),
    ("fn_event_read", &[("p_options", Document(OPTIONS))]),
    (
        "fn_handler_register",
        &[("p_job_kind", A_NAME), ("p_sql", Text(SQL)), ("p_role", A_NAME), ("p_options", Document(OPTIONS))],
    ),
    ("fn_handler_remove", &[("p_job_kind", A_NAME)]),
    ("fn_job_ack", &[("p_lease_owner", A_NAME), ("p_result", PAYLOAD)]),
    (
        "fn_job_ack_and_claim",
        &[("p_lease_owner", A_NAME), ("p_result", PAYLOAD), ("p_job_kind", A_NAME), ("p_options", Document(OPTIONS))],
    ),
    (
        "fn_job_ack_and_claim_batch",
        &[
            ("p_lease_owner", A_NAME),
            ("p_jobs", List { elements: BATCH, bytes: BATCH_BYTES }),
            ("p_job_kind", A_NAME),
            ("p_options", Document(OPTIONS)),
        ],
    ),
    ("fn_job_ack_batch", &[("p_lease_owner", A_NAME), ("p_jobs", List { elements: BATCH, bytes: BATCH_BYTES })]),
    ("fn_job_cancel", &[("p_reason", CUT)]),
    ("fn_job_change", &[("p_changes", Beside { member: "payload_json", setting: PAYLOAD_SETTING, rest: REST })]),
    ("fn_job_claim", &[("p_lease_owner", A_NAME), ("p_job_kind", A_NAME), ("p_options", Document(OPTIONS))]),
    ("fn_job_claim_batch", &[("p_lease_owner", A_NAME), ("p_job_kind", A_NAME), ("p_options", Document(OPTIONS))]),
    (
        "fn_job_enqueue",
        &[
            ("p_job_kind", A_NAME),
            ("p_idempotency_key", A_KEY),
            ("p_actor", A_NAME),
            ("p_payload_json", PAYLOAD),
            ("p_source_ref", Text(REFERENCE)),
            ("p_target_ref", Text(REFERENCE)),
            ("p_payload_ref", Text(REFERENCE)),
            ("p_options", Document(OPTIONS)),
        ],
    ),
    (
        "fn_job_enqueue_batch",
        &[("p_jobs", List { elements: BATCH, bytes: BATCH_BYTES }), ("p_options", Document(OPTIONS))],
    ),
    (
        "fn_job_enqueue_payloads",
        &[
            ("p_job_kind", A_NAME),
            ("p_payloads", List { elements: BATCH, bytes: BATCH_BYTES }),
            ("p_options", Document(OPTIONS)),
        ],
    ),
    (
        "fn_job_fail_or_retry",
        &[
            ("p_lease_owner", A_NAME),
            ("p_error", CUT),
            ("p_error_class", A_NAME),
            ("p_verdict", A_NAME),
            ("p_error_detail", CUT),
        ],
    ),
    ("fn_job_heartbeat", &[("p_lease_owner", A_NAME), ("p_checkpoint", CHECKPOINT)]),
    ("fn_job_move_to_dead_letter", &[("p_final_error", CUT), ("p_moved_by", A_NAME), ("p_letter_reason", A_NAME)]),
    ("fn_job_reconcile", &[("p_verdict", A_NAME), ("p_note", CUT), ("p_by", A_NAME)]),
    ("fn_job_release", &[("p_lease_owner", A_NAME)]),
    ("fn_job_replay", &[("p_from", A_NAME), ("p_step", Text(STEP)), ("p_options", Document(OPTIONS))]),
    ("fn_job_sleep", &[("p_lease_owner", A_NAME), ("p_name", A_NAME), ("p_options", Document(OPTIONS))]),
    ("fn_job_snooze", &[("p_lease_owner", A_NAME)]),
    ("fn_job_start", &[("p_lease_owner", A_NAME), ("p_run_id", A_KEY), ("p_meta", PAYLOAD)]),
    ("fn_job_usage", &[("p_lease_owner", A_NAME), ("p_usage", Document(OPTIONS))]),
    ("fn_limit_gauge", &[("p_key", A_NAME)]),
    ("fn_limit_remove", &[("p_key", Text(LIMIT_KEY))]),
    ("fn_limit_report", &[("p_key", Text(LIMIT_KEY))]),
    ("fn_limit_set", &[("p_key", Text(LIMIT_KEY)), ("p_limit", Document(OPTIONS))]),
    ("fn_mission_cancel", &[("p_reason", CUT), ("p_mode", A_NAME)]),
    ("fn_mission_fork", &[("p_from_step", A_NAME), ("p_options", Document(DOCUMENT))]),
    ("fn_mission_graph", &[("p_format", A_NAME)]),
    ("fn_mission_pause", &[("p_reason", CUT)]),
    ("fn_mission_retry", &[("p_step", A_NAME)]),
    (
        "fn_mission_start",
        &[
            ("p_template", Document(DOCUMENT)),
            ("p_options", Beside { member: "input", setting: CHECKPOINT_SETTING, rest: REST }),
        ],
    ),
    ("fn_policy_get", &[("p_key", A_NAME)]),
    ("fn_policy_history", &[("p_key", A_NAME)]),
    ("fn_policy_set", &[("p_key", A_NAME), ("p_value", Document(RULES)), ("p_reason", CUT)]),
    ("fn_proposal_approve", &[("p_by", A_NAME), ("p_reason", CUT)]),
    (
        "fn_proposal_create",
        &[("p_dedupe_key", A_KEY), ("p_source", A_NAME), ("p_template", CHECKPOINT), ("p_options", Document(OPTIONS))],
    ),
    ("fn_proposal_gate", &[("p_template", CHECKPOINT), ("p_source", A_NAME)]),
    ("fn_proposal_is_auto_approvable", &[("p_template", CHECKPOINT), ("p_source", A_NAME)]),
    ("fn_proposal_reject", &[("p_reason", Text(REFERENCE)), ("p_by", A_NAME)]),
    (
        "fn_queue_heartbeat_tick",
        &[
            ("p_executor_name", A_NAME),
            ("p_executor_kind", A_NAME),
            ("p_status", A_NAME),
            ("p_lease_owner", A_NAME),
            ("p_metadata", PAYLOAD),
        ],
    ),
    ("fn_queue_pause", &[("p_queue", A_NAME), ("p_reason", CUT)]),
    ("fn_queue_resume", &[("p_queue", A_NAME)]),
    ("fn_queue_set", &[("p_queue", A_NAME), ("p_options", Document(OPTIONS))]),
    ("fn_retry_policy_remove", &[("p_scope", A_NAME), ("p_name", A_NAME)]),
    ("fn_retry_policy_set", &[("p_scope", A_NAME), ("p_name", A_NAME), ("p_policy", Document(RULES))]),
    ("fn_schedule_pause", &[("p_schedule", A_NAME)]),
    ("fn_schedule_remove", &[("p_schedule", A_NAME)]),
    ("fn_schedule_resume", &[("p_schedule", A_NAME)]),
    (
        "fn_schedule_set",
        &[
            ("p_schedule", A_NAME),
            ("p_cron", Text(CRON)),
            ("p_job", Document(DOCUMENT)),
            ("p_timezone", A_NAME),
            ("p_missed", A_NAME),
        ],
    ),
    ("fn_schedule_upcoming", &[("p_cron", Text(CRON)), ("p_timezone", A_NAME)]),
    (
        "fn_signal_send",
        &[("p_name", A_NAME), ("p_key", A_NAME), ("p_payload", RESULT), ("p_options", Document(OPTIONS))],
    ),
    (
        "fn_signal_wait",
        &[("p_lease_owner", A_NAME), ("p_name", A_NAME), ("p_key", A_NAME), ("p_options", Document(OPTIONS))],
    ),
    (
        "fn_step_begin",
        &[
            ("p_lease_owner", A_NAME),
            ("p_name", A_NAME),
            ("p_inputs", Document(DOCUMENT)),
            ("p_options", Document(OPTIONS)),
        ],
    ),
    (
        "fn_step_complete",
        &[("p_lease_owner", A_NAME), ("p_name", A_NAME), ("p_result", RESULT), ("p_options", Document(OPTIONS))],
    ),
    (
        "fn_step_fail",
        &[("p_lease_owner", A_NAME), ("p_name", A_NAME), ("p_error", CUT), ("p_options", Document(OPTIONS))],
    ),
    (
        "fn_step_resolve",
        &[
            ("p_lease_owner", A_NAME),
            ("p_name", A_NAME),
            ("p_verdict", A_NAME),
            ("p_result", RESULT),
            ("p_note", CUT),
            ("p_options", Document(OPTIONS)),
        ],
    ),
    ("fn_template_step_kinds", &[("p_template", Document(DOCUMENT))]),
];
