//! Reading one job with all that is known of it.

use crate::db::{self, statements};
use crate::error::{required, unknown_job};
use crate::json::Jsonb;
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("get.sql": JOB_GET);

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_get(p_job_id: Option<Uuid>) -> Jsonb {
    let job_id = required("p_job_id", p_job_id);
    db::answer(|db| {
        let row = db.run(&JOB_GET, &[job_id.into()]);
        if row.is_empty() {
            unknown_job(job_id);
        }
        row.only()
    })
}
