//! Handlers: kinds of jobs that the server runs itself, as SQL, with the rights of a role.

#![allow(unsafe_code, reason = "asking the server about roles")]

use super::hints;
use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, Db, statement};
use crate::error::{OrRaise, raise, required};
use crate::json::{self, Jsonb};
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::prelude::*;
use std::ffi::CString;

statement!(
    HANDLER_SET,
    "sql/handler_set.sql",
    [TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, BOOLOID, TEXTOID, TIMESTAMPTZOID]
);
statement!(HANDLER_REMOVE, "sql/handler_remove.sql", [TEXTOID]);
statement!(HANDLERS, "sql/handlers.sql", []);

const DEFAULT_TIMEOUT: i32 = 60;
const LONGEST_TIMEOUT: i32 = 3_600;
const LONGEST_SQL: usize = 100_000;

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
            kind: row.must(1),
            sql: row.must(2),
            role: row.must(3),
            queue: row.must(4),
            timeout_seconds: row.must(5),
            registered_by: row.must(6),
        });
    });
    handlers
}

/// The id of a role, if it is there.
pub fn role_id(name: &str) -> Option<pg_sys::Oid> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks the name up.
    Some(unsafe { pg_sys::get_role_oid(name.as_ptr(), true) }).filter(|id| *id != pg_sys::InvalidOid)
}

/// Whether a role has the rights of another.
pub fn is_member(member: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: looks the roles up.
    unsafe { pg_sys::is_member_of_role(member, role) }
}

pub fn is_superuser(role: pg_sys::Oid) -> bool {
    // SAFETY: looks the role up.
    unsafe { pg_sys::superuser_arg(role) }
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
    let kind = input::name("p_job_kind", required("p_job_kind", p_job_kind), input::LONGEST_NAME).or_raise();
    let sql = input::name("p_sql", required("p_sql", p_sql), LONGEST_SQL).or_raise();
    // SAFETY: a plain variable of the server's: whose rights are in force.
    let caller = unsafe { pg_sys::GetUserId() };
    let caller_name = role_name(caller);
    let role = p_role.unwrap_or(&caller_name);
    check_role(role, caller);
    let options = json::options(p_options, &["queue", "timeout_seconds", "enabled"]).and_then(options).or_raise();
    let queue = options.queue.unwrap_or_else(|| input::DEFAULT_QUEUE.to_owned());
    hints::stir();
    db::answer_as_owner(|db| {
        super::enqueue::find_queue(&Settings::current(), &queue).or_raise();
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
        db.run(&HANDLER_SET, &args).must(1)
    })
}

pub fn role_name(role: pg_sys::Oid) -> String {
    // SAFETY: the name of a role that exists.
    unsafe { std::ffi::CStr::from_ptr(pg_sys::GetUserNameFromId(role, false)) }.to_string_lossy().into_owned()
}

/// The caller must be a member of the role, and only a superuser may name one.
pub fn check_role(name: &str, caller: pg_sys::Oid) {
    let Some(role) = role_id(name) else {
        raise(
            PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
            format!("there is no role \"{}\"", agentq_core::error::shown(name)),
            "Create it first: CREATE ROLE …",
        )
    };
    if !is_member(caller, role) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("you are not a member of the role \"{name}\", so its rights are not yours to give"),
            "Register with a role of your own, or ask for membership: GRANT … TO …",
        )
    }
    if is_superuser(role) && !is_superuser(caller) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("the role \"{name}\" is a superuser, and only a superuser may let jobs run as one"),
            "Use a role with no more rights than the jobs need.",
        )
    }
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
    let kind = required("p_job_kind", p_job_kind);
    hints::stir();
    db::answer(|db| {
        let row = db.run(&HANDLER_REMOVE, &[kind.into()]);
        if row.is_empty() {
            raise(
                PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
                format!("there is no handler for jobs of kind \"{}\"", agentq_core::error::shown(kind)),
                "The handlers are in agentq.job_handler.",
            )
        }
        row.must(1)
    })
}
