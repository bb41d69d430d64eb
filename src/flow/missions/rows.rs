//! The tables of missions that are read and written directly, and their columns.

use crate::table::layout;

layout!(mission_step: step_id, mission_id, position, level, depth, shard, need, met, pending, children, fails_mission,
    status, ready_at, queued_at, ended_at, job_id, child_id, item_count, taken_from, created_at, name, kind, executor,
    last_error, params, spec, result);
layout!(mission_edge: parent_id, child_id, child_level, required);
layout!(mission_item: step_id, item, job_id, status, ended_at, last_error, result);
layout!(mission_count: owner_id, shard, active, state);
