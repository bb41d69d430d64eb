//! Handlers: kinds of jobs that the server runs itself, as SQL, with the rights of a role.

use crate::base::actor::role_in_force;
use crate::base::bounds::bounded;
use crate::base::clock::{self, timestamp};
use crate::base::roles::check_lendable;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::json::{self, Jsonb};
use crate::queue::rules::Rulebook;
use crate::queue::storage::marks::wake_all_at_commit;
use crate::server;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::prelude::*;

statements!("handlers.sql": HANDLER_SET, HANDLER_REMOVE, HANDLERS);

const DEFAULT_TIMEOUT: i32 = 60;
const LONGEST_TIMEOUT: i32 = 3_600;
const LONGEST_SQL: usize = agentq_core::bounds::SQL;

/// A registered handler.
#[derive(Clone, Debug)]
pub struct Handler {
    pub kind: String,
    pub sql: String,
    pub role: String,
    pub queue: String,
    pub timeout_seconds: i32,
    pub registered_by: String,
}

/// Every handler that is switched on.
pub fn all(db: &Db) -> Vec<Handler> {
    let mut handlers = Vec::new();
    db.run(&HANDLERS, &[]).each(|row| {
        handlers.push(Handler {
            kind: row.must("job_kind"),
            sql: row.must("sql"),
            role: row.must("role_name"),
            queue: row.must("queue"),
            timeout_seconds: row.must("timeout_seconds"),
            registered_by: row.must("registered_by"),
        });
    });
    handlers
}

/// Runs with the rights of the caller, because only these say who the caller is: inside another
/// function's rights, or in a worker, the outer user may be someone else. The row is then written
/// with the rights of the extension's owner.
#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn fn_handler_register(
    p_job_kind: Option<&str>,
    p_sql: Option<&str>,
    p_role: default!(Option<&str>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_handler_register: p_job_kind, p_sql, p_role, p_options);
    let kind = input::name("p_job_kind", required("p_job_kind", p_job_kind), input::LONGEST_NAME).or_raise();
    let sql = input::name("p_sql", required("p_sql", p_sql), LONGEST_SQL).or_raise();
    let caller = role_in_force();
    let caller_name = server::role_name(caller);
    let role = p_role.unwrap_or(&caller_name);
    check_lendable(role, caller);
    let options = json::options(p_options, &["queue", "timeout_seconds", "enabled"]).and_then(options).or_raise();
    let queue = options.queue.unwrap_or_else(|| input::DEFAULT_QUEUE.to_owned());
    wake_all_at_commit();
    db::answer_as_owner(|db| {
        Rulebook::current().queue(&queue).or_raise();
        let args = [
            kind.into(),
            sql.into(),
            role.into(),
            queue.as_str().into(),
            options.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT).into(),
            options.enabled.unwrap_or(true).into(),
            caller_name.as_str().into(),
            timestamp(clock::now()).into(),
        ];
        db.run(&HANDLER_SET, &args).only()
    })
}

/// What a handler may be registered with.
struct Options {
    queue: Option<String>,
    timeout_seconds: Option<i32>,
    enabled: Option<bool>,
}

fn options(options: Reader<'_>) -> Result<Options, Refusal> {
    let timeout = options.member("timeout_seconds");
    let timeout = timeout.hint("A job that runs longer belongs into a worker outside the server.");
    Ok(Options {
        queue: options.member("queue").text()?.map(str::to_owned),
        timeout_seconds: timeout.whole(1..=LONGEST_TIMEOUT)?,
        enabled: options.member("enabled").flag()?,
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_handler_remove(p_job_kind: Option<&str>) -> Jsonb {
    bounded!(fn_handler_remove: p_job_kind);
    let kind = required("p_job_kind", p_job_kind);
    wake_all_at_commit();
    db::answer(|db| {
        let row = db.run(&HANDLER_REMOVE, &[kind.into()]);
        if row.is_empty() {
            raise(
                PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
                format!("there is no handler for jobs of kind \"{}\"", agentq_core::error::shown(kind)),
                "The handlers are in agentq.job_handler.",
            )
        }
        row.only()
    })
}
