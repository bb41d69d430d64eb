//! Taking back steps that somebody holds and does not come on with, when a person asks for it.

use super::HOOK;
use crate::base::clock;
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::ends::reap;
use agentq_core::Refusal;
use pgrx::prelude::*;
use serde_json::json;

/// One call takes back at most this many.
const AT_MOST: i64 = 1_000;
/// From a second to a year, in minutes.
const MINUTES: std::ops::RangeInclusive<f64> = 0.01..=525_600.0;

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_recover_stale(p_minutes: Option<f64>) -> Jsonb {
    answer::if_on(|_| {
        let minutes = required("p_minutes", p_minutes);
        if !MINUTES.contains(&minutes) {
            let problem = format!("p_minutes must be from 0.01 to 525600, but is {minutes}");
            Err(Refusal::new(problem, "Say for how many minutes a step may be held without progress.")).or_raise()
        }
        let recovered = reap::without_progress(HOOK, (minutes * 60.0) as i64, clock::now(), AT_MOST);
        let more = recovered as i64 >= AT_MOST;
        Jsonb::from_value(json!({"ok": true, "code": "recovered", "recovered": recovered, "more": more}))
    })
}
