//! What a holder may do with a job it keeps: start it and extend its lease. Fenced by owner and
//! token: anyone else is told `lease_lost`, and nothing changes.

use super::answer;
use crate::base::clock::{self, timestamp};
use crate::db::{self, statement};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use agentq_core::{config, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;

statement!(START, "sql/start.sql", [UUIDOID, TEXTOID, UUIDOID, TIMESTAMPTZOID]);
statement!(EXTEND, "sql/extend.sql", [UUIDOID, TEXTOID, UUIDOID, TIMESTAMPTZOID, INT4OID, INT4OID]);
statement!(CHECKPOINT, "sql/checkpoint.sql", [UUIDOID, TIMESTAMPTZOID, JSONBOID]);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_start(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    answer::gated(|_| {
        let job_id = required("p_job_id", p_job_id);
        let owner = required("p_lease_owner", p_lease_owner);
        let now = timestamp(clock::now());
        db::answer(|db| {
            let row = db.run(&START, &[job_id.into(), owner.into(), p_lease_token.into(), now.into()]);
            if row.is_empty() { answer::lease_lost(db, job_id) } else { row.must(1) }
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_heartbeat(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_checkpoint: default!(Option<Jsonb>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    answer::gated(|settings| {
        let job_id = required("p_job_id", p_job_id);
        let owner = required("p_lease_owner", p_lease_owner);
        let seconds = p_lease_seconds.map(|s| input::lease_seconds(s).or_raise());
        if let Some(checkpoint) = p_checkpoint
            && checkpoint.size() as i64 > settings.checkpoint_max_bytes
        {
            let (size, most) = (checkpoint.size(), settings.checkpoint_max_bytes);
            Err(payload::refuse_too_large("p_checkpoint", size, most, config::CHECKPOINT_MAX_BYTES)).or_raise()
        }
        let now = timestamp(clock::now());
        db::answer(|db| {
            let args = [
                job_id.into(),
                owner.into(),
                p_lease_token.into(),
                now.into(),
                seconds.into(),
                settings.lease_seconds.into(),
            ];
            let row = db.run(&EXTEND, &args);
            if row.is_empty() {
                return answer::lease_lost(db, job_id);
            }
            let answer = row.must(1);
            if let Some(checkpoint) = p_checkpoint {
                db.run(&CHECKPOINT, &[job_id.into(), now.into(), checkpoint.into()]);
            }
            answer
        })
    })
}
