//! Running the chores by hand, for servers without the background workers.

use super::chores;
use crate::base::bounds::bounded;
use crate::base::clock;
use crate::base::settings::{Settings, WORKER_ENABLED, is_schema_previous};
use crate::db;
use crate::error::raise;
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::ends::hooks;
use crate::queue::storage::marks::wake_all_at_commit;
use crate::room::{Chore, Next, Outcome};
use crate::server::{is_creating_extension, is_in_transaction_block};
use crate::shared::{news, seats};
use pgrx::prelude::*;
use serde_json::{Value, json};

/// A chore that says it has more to do is run again at once, at most this many times.
const ROUNDS: usize = 100;

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_engine_tick(p_chore: default!(Option<&str>, "NULL")) -> Jsonb {
    bounded!(fn_engine_tick: p_chore);
    if !Settings::current().worker_enabled {
        return answer::switched_off(WORKER_ENABLED);
    }
    let is_meant = |chore: &&Chore| p_chore.is_none_or(|name| name == chore.name);
    let chosen: Vec<&Chore> = chores::all().iter().copied().filter(is_meant).collect();
    if chosen.is_empty() {
        let names: Vec<_> = chores::all().iter().map(|chore| chore.name).collect();
        raise(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("there is no chore \"{}\"", agentq_core::error::shown(p_chore.unwrap_or_default())),
            format!("The chores are: {}.", names.join(", ")),
        )
    }
    // What chores lock would stay locked until the caller commits, and the engine would have to do without.
    if is_in_transaction_block() && seats::is_running_here() && !is_schema_previous() {
        wake_all_at_commit();
        return Jsonb::from_value(json!({"ok": true, "code": "left_to_the_engine", "failed": 0, "chores": [],
            "message": "the engine runs, and chores that are run by hand in a transaction would be in its way; it runs all of them when this one commits"}));
    }
    let each: Vec<Value> = chosen.into_iter().map(tick).collect();
    let failed = each.iter().filter(|chore| !chore["error"].is_null()).count();
    Jsonb::from_value(json!({"ok": failed == 0, "code": "ticked", "failed": failed, "chores": each}))
}

/// Called by the extension's script: tells the launcher, when it has committed, that this database
/// has the extension.
#[pg_extern(schema = "agentq_internal")]
fn fn_engine_announce() {
    if is_creating_extension() {
        news::begin_anew();
    }
    wake_all_at_commit();
}

/// Runs one chore. An error undoes what it did, is recorded, and stops no other.
fn tick(chore: &Chore) -> Value {
    if chores::rests(chore) {
        return json!({"chore": chore.name, "rows": 0, "error": null, "seconds": 0.0, "rests": true});
    }
    let began = clock::real_now();
    let result = db::attempt(|| {
        let mut rows = 0;
        for _ in 0..ROUNDS {
            let outcome = (chore.run)();
            rows += outcome.rows;
            if !matches!(outcome.next, Next::AtOnce) {
                break;
            }
        }
        Outcome::rows(rows)
    })
    .map_err(|error| error.message);
    let ended = clock::real_now();
    // Another tick of this chore may have been recorded since a fixed snapshot: that stays.
    // Nor is one waited for whose transaction is still open.
    let record = || {
        db::with_setting(c"lock_timeout", c"1ms", || {
            chores::record(chore.name, &result, began, ended, ended + chore.every_us);
            1
        })
    };
    match db::attempt(|| hooks::skipping(record)) {
        Err(error) if !error.is_in_the_way() => raise(error.code, error.message, error.hint),
        _ => {}
    }
    let (rows, error) = match &result {
        Ok(outcome) => (outcome.rows, None),
        Err(error) => (0, Some(error.as_str())),
    };
    json!({"chore": chore.name, "rows": rows, "error": error, "seconds": (ended - began) as f64 / 1e6})
}
