//! One turn of the loop by hand: read events, make proposals, recover what was dropped.

use super::{propose, reactions};
use crate::base::clock::{self, timestamp};
use crate::base::settings::{Settings, WORKER_ENABLED, is_schema_previous};
use crate::db::{self, statements};
use crate::events::{self, seal};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::ends::{deadlines, reap};
use crate::queue::storage::marks::wake_all_at_commit;
use crate::server::is_in_transaction_block;
use crate::shared::seats;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("ops.sql": BURIED_AT);

/// Turns of the sealer in one turn of the loop.
const SEALS: usize = 100;
/// Leases and deadlines that one turn looks at.
const AT_MOST: i64 = 500;

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_ops_tick() -> Jsonb {
    if !Settings::current().worker_enabled {
        return answer::switched_off(WORKER_ENABLED);
    }
    // As chores by hand.
    if is_in_transaction_block() && seats::is_running_here() && !is_schema_previous() {
        wake_all_at_commit();
        return Jsonb::from_value(json!({"ok": true, "code": "left_to_the_engine", "errors": [],
            "message": "the engine runs, and a turn by hand in a transaction would be in its way; it does all of it when this one commits"}));
    }
    // Asked here, because each part of the turn is in a subtransaction.
    let is_on = Settings::current().substrate_enabled;
    let may_seal = seal::may_be_done_here();
    let mut errors = Vec::new();
    let trigger = part(&mut errors, || {
        if may_seal {
            seal_all();
        }
        let reacted = reactions::react(clock::now());
        json!({"events": reacted.events, "queued": reacted.queued})
    });
    let reaction = part(&mut errors, || {
        let proposed = propose::propose(clock::now());
        json!({"processed": proposed.processed, "created": proposed.created})
    });
    let lease = part(&mut errors, || {
        if !is_on {
            return json!({"requeued_steps": 0, "failed_steps": 0});
        }
        let now = clock::now();
        let recovered = reap::now(now, AT_MOST) as i64;
        let failed: i64 = db::connect(|db| db.run(&BURIED_AT, &[timestamp(now).into()]).only());
        json!({"requeued_steps": (recovered - failed).max(0), "failed_steps": failed})
    });
    let stale =
        part(&mut errors, || json!({"recovered": if is_on { deadlines::enforce(clock::now(), AT_MOST) } else { 0 }}));
    let mut done = json!({
        "triggerResult": trigger,
        "reactionResult": reaction,
        "learningResult": {"promoted": 0},
        "leaseResult": lease,
        "staleResult": stale,
        "errors": errors,
    });
    let mut unthought = Vec::new();
    part(&mut unthought, || {
        think(&done);
        Value::Null
    });
    done["ok"] = json!(errors.is_empty());
    done["code"] = json!("ticked");
    Jsonb::from_value(done)
}

/// Tells, as an event agent:thought, what the turn has done; of a turn that only read events, nothing: it would read its own
/// thoughts for ever.
fn think(done: &Value) {
    let count = |part: &str, what: &str| done[part][what].as_i64().unwrap_or_default();
    let (queued, created) = (count("triggerResult", "queued"), count("reactionResult", "created"));
    let processed = count("reactionResult", "processed");
    let (requeued, failed) = (count("leaseResult", "requeued_steps"), count("leaseResult", "failed_steps"));
    let (stale, errors) = (count("staleResult", "recovered"), done["errors"].as_array().map_or(0, Vec::len) as i64);
    let parts = [
        (queued, "reactions queued"),
        (processed, "reactions processed"),
        (created, "proposals made"),
        (requeued, "steps requeued"),
        (failed, "steps failed"),
        (stale, "late steps ended"),
        (errors, "errors"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !parts.is_empty() {
        let mut what = done.clone();
        what["thought"] = json!(parts.join(", "));
        db::connect(|db| events::emit(db, reactions::THOUGHT, "ops", what, clock::now()));
    }
}

/// Where no engine does so, committed events get their place in the log now; but not in a transaction
/// of the caller's, which would keep others from it.
fn seal_all() {
    db::connect(|db| {
        for _ in 0..SEALS {
            if !seal::seal(db, seal::AT_MOST).is_some_and(|sealed| sealed.more) {
                break;
            }
        }
    });
}

/// Runs a part of the turn. An error undoes what it did, is told, and stops no other part.
fn part(errors: &mut Vec<String>, work: impl FnOnce() -> Value) -> Value {
    db::attempt(work).unwrap_or_else(|error| {
        errors.push(error.message);
        Value::Null
    })
}
