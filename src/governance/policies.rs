//! Policies: the rules in force, each with its versions.
//!
//! A change locks the policy's row, makes the next version, keeps it for good beside all the others, and writes an
//! audit event: all in one transaction. A key that nobody has set holds its default, as version 0.

use super::{audit, hook, paths};
use crate::base::actor::role_in_force;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::roles::check_lendable;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::flow::missions;
use crate::json::Jsonb;
use crate::server::{role_id, role_name};
use agentq_core::context::Context;
use agentq_core::error::shown;
use agentq_core::jsonb::{self, Container, Item};
use agentq_core::policy::{self, PROPOSAL_CAPS, ProposalCaps, REACTION_MATRIX};
use agentq_core::reaction::{self, Matrix, Pattern};
use agentq_core::reader::Member;
use agentq_core::{Refusal, input, proposal};
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;

statements!("policies.sql": POLICY_GET, POLICY_VERSION, POLICY_STAMP, POLICY_LOCK, POLICY_SET, POLICY_HISTORY, COUNTS_FORGET);

/// A policy is a rule and no store of data.
const LONGEST_HISTORY: i32 = 1_000;

/// What a CHECK of the table asks: what depends on nothing but the value.
#[pg_extern(schema = "agentq_internal", immutable, strict, parallel_safe)]
fn fn_policy_accepts(p_key: &str, p_value: Jsonb) -> bool {
    p_value.reader(p_key).is_ok_and(|value| examine_shape(p_key, value.item()).is_ok())
}

fn examine_shape(key: &str, value: Item<'_>) -> Result<(), Refusal> {
    policy::check(key, value)?;
    if key == REACTION_MATRIX {
        for (at, path) in Matrix::read(value)?.patterns.iter().flat_map(Pattern::paths) {
            paths::check(&at, &path)?;
        }
    }
    Ok(())
}

/// Everything that a value must be when it is set. What a template may hold depends on the queues
/// there are, so it is no matter for a CHECK.
fn examine(key: &str, value: Item<'_>) -> Result<(), Refusal> {
    examine_shape(key, value)?;
    if key == REACTION_MATRIX {
        for pattern in &Matrix::read(value)?.patterns {
            // What comes from the event is not known yet: any text stands for it.
            let template = reaction::resolve(&pattern.template, &mut |_| Ok(json!("event")))?;
            missions::check(&proposal::bare(&template)).map_err(|refusal| {
                Refusal::new(format!("{}.template: {}", pattern.path, refusal.message), refusal.hint)
            })?;
            proposal::risk(&template, Member::ABSENT)?;
        }
    }
    Ok(())
}

/// Runs with the rights of the caller, because only these say who the caller is: a hook gets the
/// caller's rights or those of a role of the caller's. The rows are written with the owner's.
#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn fn_policy_set(p_key: Option<&str>, p_value: Option<Jsonb>, p_reason: default!(Option<&str>, "NULL")) -> Jsonb {
    bounded!(fn_policy_set: p_key, p_value, p_reason);
    let key = input::name("p_key", required("p_key", p_key), input::LONGEST_NAME).or_raise();
    let given = required("p_value", p_value);
    let value = given.parse("p_value").or_raise();
    let caller = role_in_force();
    db::answer_as_owner(|db| {
        examine(key, given.item()).or_raise();
        let value =
            if key == PROPOSAL_CAPS { with_role(db, given, value, caller) } else { policy::completed(key, value) };
        set(db, key, &value, p_reason, &role_name(caller))
    })
}

/// The caps, with the role that their hook runs as.
fn with_role(db: &Db, given: Jsonb, mut caps: Value, caller: pg_sys::Oid) -> Value {
    let Some(hook) = ProposalCaps::read(given.item()).or_raise().hook else { return caps };
    let role = hook.role.unwrap_or_else(|| role_name(caller));
    check_lendable(&role, caller);
    let function = format!("{}.{}", hook.schema, hook.function);
    let Some(owner) = hook::owner(db, &hook.schema, &hook.function) else {
        raise(
            PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
            format!("proposal_caps.hook: there is no function {function}(jsonb, text)"),
            "Make it first. It gets the template and the source, and returns boolean, or jsonb with ok and reason.",
        )
    };
    // Whoever owns the function says what it does, and must not gain rights by that.
    if !role_id(&role).is_some_and(|role| hook::may_run_as(owner, role)) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!(
                "proposal_caps.hook: {function} belongs to \"{}\", who does not have the rights of the role \"{}\"",
                shown(&role_name(owner)),
                shown(&role)
            ),
            hook::OWNER_HINT,
        )
    }
    caps["hook"] = json!({"function": function, "role": role});
    caps
}

fn set(db: &Db, key: &str, value: &Value, reason: Option<&str>, by: &str) -> Jsonb {
    let now = clock::now();
    let stored = Jsonb::from_value(value.clone());
    let held = db.run(&POLICY_LOCK, &[key.into(), stored.into()]);
    let before = if held.is_empty() { 0 } else { held.must::<i32>("version") };
    if before > 0 && held.must::<bool>("is_same") {
        return Jsonb::from_value(
            json!({"ok": true, "code": "unchanged", "key": key, "version": before, "value": value}),
        );
    }
    let args = [key.into(), stored.into(), reason.into(), timestamp(now).into(), by.into()];
    let version: i32 = db.run(&POLICY_SET, &args).only();
    if key == PROPOSAL_CAPS {
        // What passed while there was no cap was not counted: the next proposal counts the day anew.
        db.run(&COUNTS_FORGET, &[timestamp(now).into()]);
    }
    let what = json!({"key": key, "version": version, "reason": reason, "by": by});
    audit(db, "policy.changed", ("policy", key), what, Context::default(), now);
    Jsonb::from_value(json!({"ok": true, "code": "set", "key": key, "version": version, "value": value}))
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_policy_get(p_key: Option<&str>, p_version: default!(Option<i32>, "NULL")) -> Jsonb {
    bounded!(fn_policy_get: p_key);
    let key = required("p_key", p_key);
    db::answer(|db| {
        let row = match p_version {
            Some(version) => db.run(&POLICY_VERSION, &[key.into(), version.into()]),
            None => db.run(&POLICY_GET, &[key.into()]),
        };
        if !row.is_empty() {
            return row.must("answer");
        }
        match policy::default_of(key).filter(|_| p_version.unwrap_or_default() == 0) {
            Some(value) => {
                Jsonb::from_value(json!({"ok": true, "code": "found", "key": key, "version": 0, "value": value,
                "updated_at": null, "updated_by": null}))
            }
            None => unknown(db, key, p_version),
        }
    })
}

fn unknown(db: &Db, key: &str, version: Option<i32>) -> ! {
    let is_there = !db.run(&POLICY_STAMP, &[key.into()]).is_empty() || policy::default_of(key).is_some();
    match version.filter(|_| is_there) {
        Some(version) => raise(
            PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
            format!("the policy \"{}\" has no version {version}", shown(key)),
            "Its versions are in agentq.fn_policy_history.",
        ),
        None => raise(
            PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
            format!("there is no policy \"{}\"", shown(key)),
            format!("Set it with agentq.fn_policy_set. Those with a default are: {}.", policy::KNOWN.join(", ")),
        ),
    }
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_policy_history(p_key: Option<&str>, p_limit: default!(Option<i32>, "100")) -> Jsonb {
    bounded!(fn_policy_history: p_key);
    let key = required("p_key", p_key);
    let limit = p_limit.unwrap_or(100);
    if !(1..=LONGEST_HISTORY).contains(&limit) {
        raise(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("p_limit must be from 1 to {LONGEST_HISTORY}, but is {limit}"),
            "All versions are in the table agentq.policy_version.",
        )
    }
    db::answer(|db| {
        let row = db.run(&POLICY_HISTORY, &[key.into(), limit.into()]);
        if !row.is_empty() {
            return row.only();
        }
        if policy::default_of(key).is_none() {
            unknown(db, key, None)
        }
        Jsonb::from_value(json!({"ok": true, "code": "found", "key": key, "versions": []}))
    })
}

/// A policy as it is now.
pub struct InForce {
    pub value: Value,
    /// 0: the default.
    pub version: i32,
    /// The role that set it.
    pub set_by: Option<String>,
}

impl InForce {
    pub fn of(db: &Db, key: &str) -> InForce {
        let row = db.run(&POLICY_GET, &[key.into()]);
        if row.is_empty() {
            return InForce { value: policy::default_of(key).unwrap_or(Value::Null), version: 0, set_by: None };
        }
        InForce {
            value: row.must::<pgrx::JsonB>("value").0,
            version: row.must("version"),
            set_by: row.get("updated_by"),
        }
    }

    pub fn read<T>(&self, read: impl FnOnce(Item<'_>) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let document = jsonb::from_value(&self.value)?;
        read(Container::new(&document).item())
    }

    /// What a decision that went by it writes down.
    pub fn noted(&self) -> Value {
        json!({"version": self.version, "value": self.value})
    }
}

/// The reaction matrix as this session has read it.
struct Compiled {
    version: i32,
    /// Tells versions apart that have the same number in two lives of the extension.
    set_at: Micros,
    matrix: Rc<Matrix>,
}

thread_local!(static COMPILED: RefCell<Option<Compiled>> = const { RefCell::new(None) });

/// The reaction matrix in force and its version. It is read anew only when there is a new version.
pub fn matrix(db: &Db) -> (i32, Rc<Matrix>) {
    let row = db.run(&POLICY_STAMP, &[REACTION_MATRIX.into()]);
    if row.is_empty() {
        return (0, Rc::default());
    }
    let (version, set_at): (i32, _) =
        (row.must("version"), row.must::<TimestampWithTimeZone>("updated_at").into_inner());
    let known = COMPILED.with_borrow(|compiled| {
        let fits = compiled.as_ref().filter(|known| known.version == version && known.set_at == set_at);
        fits.map(|known| Rc::clone(&known.matrix))
    });
    let matrix = known.unwrap_or_else(|| {
        let matrix = Rc::new(InForce::of(db, REACTION_MATRIX).read(Matrix::read).or_raise());
        COMPILED.set(Some(Compiled { version, set_at, matrix: Rc::clone(&matrix) }));
        matrix
    });
    (version, matrix)
}
