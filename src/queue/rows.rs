//! The tables that the hot path reads and writes directly, and their columns.

use crate::table::layout;

layout!(job_ready: scheduled_at, queue_id, any_queue_id, priority, job_id, keyed, job_kind);
// Its first columns are those of job_ready, in the same order: a lane reads both alike.
layout!(job_line: scheduled_at, queue_id, any_queue_id, priority, job_id, keyed, job_kind, line);
layout!(job_waiting: scheduled_at, job_id);
layout!(job_lease: job_id, lease_token, lease_until, picked_at, started_at, keyed, lease_owner, cancel_reason; rarely limits, reserved,
    lease_seconds, heartbeat_at, stall_seconds, run);
layout!(job_done: job_id, lease_token, finished_at, picked_at, state, lease_owner, cancel_reason, result; rarely run);
layout!(job_key: idempotency_key, job_id);
layout!(limit_rule: limit_key, max_concurrent, max_pending, taken_by_hand, pending_by_hand, rate, per_seconds, burst, algorithm, weight, max_age_seconds);
layout!(limit_gauge: limit_key, gauge);
layout!(budget: limit_key, unit, period, amount, when_exhausted);
layout!(budget_spent: spent_at, amount, job_id, counter);
layout!(budget_use: amount, counter);
layout!(job_deadline: deadline_at, job_id, what);
layout!(job_checkpoint: job_id, saved_at, checkpoint);
layout!(job: job_id, queue_id, priority, attempts, max_attempts, scheduled_at, created_at, updated_at, picked_at,
    run_id, resting_state, job_kind, actor, idempotency_key, source_ref, target_ref, payload_ref, last_error,
    payload_json; rarely start_by, finish_by, external_effects, replay_of, replay_count, limit_keys, ordering_key,
    limit_weights, cost, fairness_key, requires, on_end, stall_seconds,
    context, retry, enqueued_by);
