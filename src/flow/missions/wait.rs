//! Waiting for what becomes of a mission.

use super::{finalize, unknown_mission};
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::waking::ends;
use agentq_core::jsonb::Item;
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::prelude::*;

statements!("wait.sql": MISSION_OVER);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_wait(p_mission: Option<Uuid>, p_wait: default!(Option<Interval>, "'30 seconds'")) -> Jsonb {
    let mission_id = required("p_mission", p_mission);
    let wait_us = p_wait.map_or(0, |wait| ends::check_wait(&wait).or_raise());
    db::answer(|db| {
        let look = || {
            let row = db.run(&MISSION_OVER, &[mission_id.into()]);
            if row.is_empty() {
                unknown_mission(mission_id)
            }
            (row.must::<bool>("is_over"), row.must::<Jsonb>("answer"))
        };
        let ended = || Some(look()).filter(|(is_over, _)| *is_over).map(|(_, answer)| answer);
        let Some(answer) = ends::until(mission_id, wait_us, ended) else { return look().1 };
        match finalize::result_of(db, mission_id) {
            Ok(result) => answer.with("result", result.unwrap_or_else(|| Jsonb::from_item(Item::Null))),
            Err(error) => answer.with("result_error", Jsonb::from_item(error.as_str().into())),
        }
    })
}
