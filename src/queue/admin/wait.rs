//! Waiting for what becomes of a job.

use crate::db::{self, statements};
use crate::error::{OrRaise, required, unknown_job};
use crate::json::Jsonb;
use crate::queue::waking::ends;
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::prelude::*;

statements!("wait.sql": JOB_END);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_wait(p_job_id: Option<Uuid>, p_wait: default!(Option<Interval>, "'30 seconds'")) -> Jsonb {
    let job_id = required("p_job_id", p_job_id);
    let wait_us = p_wait.map_or(0, |wait| ends::check_wait(&wait).or_raise());
    db::answer(|db| {
        let look = || {
            let row = db.run(&JOB_END, &[job_id.into()]);
            if row.is_empty() {
                unknown_job(job_id)
            }
            (row.must::<bool>("is_over"), row.must::<Jsonb>("answer"))
        };
        let ended = || Some(look()).filter(|(is_over, _)| *is_over).map(|(_, answer)| answer);
        ends::until(job_id, wait_us, ended).unwrap_or_else(|| look().1)
    })
}
