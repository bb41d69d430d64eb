//! Classes of errors and retry policies: seen, set and removed.

use crate::base::bounds::bounded;
use crate::base::clock::{self, timestamp};
use crate::base::texts::Texts;
use crate::db::{self, statements};
use crate::error::{OrRaise, raise, required};
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use agentq_core::error_class::{CLASSES, normal};
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input, retry_policy};
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("policies.sql": CLASS_SET, CLASS_REMOVE, POLICY_SET, POLICY_REMOVE);

const SCOPES: [&str; 3] = ["default", "queue", "kind"];

/// The classes as the library knows them; the table takes its first rows from here.
#[pg_extern(schema = "agentq_internal", immutable, parallel_safe)]
fn fn_error_class_defaults() -> TableIterator<
    'static,
    (
        name!(error_class, &'static str),
        name!(retryable, bool),
        name!(aliases, Vec<&'static str>),
        name!(description, &'static str),
    ),
> {
    TableIterator::new(CLASSES.iter().map(|c| (c.name, c.retryable, c.aliases.to_vec(), c.about)))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_error_class_set(
    p_error_class: Option<&str>,
    p_retryable: Option<bool>,
    p_description: default!(Option<&str>, "NULL"),
    p_aliases: default!(Option<Texts>, "NULL"),
) -> Jsonb {
    bounded!(fn_error_class_set: p_error_class, p_description, p_aliases);
    let name = input::name("p_error_class", required("p_error_class", p_error_class), input::LONGEST_NAME).or_raise();
    let retryable = required("p_retryable", p_retryable);
    let aliases = p_aliases.map(|all| {
        let mut all: Vec<String> = all.texts().map(normal).collect();
        all.sort();
        all.dedup();
        all
    });
    let rules = Rulebook::current();
    for said in aliases.iter().flatten().map(String::as_str).chain([name]) {
        input::name("an alias", said, input::LONGEST_NAME).or_raise();
        let taken = rules.policies.class(Some(said));
        if taken.known && taken.name != normal(name) {
            Err(Refusal::new(
                format!("\"{}\" already means {}", agentq_core::error::shown(said), taken.name),
                "Take the name from that class first, or choose another.",
            ))
            .or_raise()
        }
    }
    let now = timestamp(clock::now());
    db::answer(|db| {
        let args = [normal(name).into(), retryable.into(), p_description.into(), aliases.into(), now.into()];
        db.run(&CLASS_SET, &args).only()
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_error_class_remove(p_error_class: Option<&str>) -> Jsonb {
    bounded!(fn_error_class_remove: p_error_class);
    let name = normal(required("p_error_class", p_error_class));
    db::answer(|db| {
        if db.run(&CLASS_REMOVE, &[name.as_str().into()]).is_empty() {
            raise(
                PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
                format!("there is no class \"{}\" of yours", agentq_core::error::shown(&name)),
                "Built-in classes stay; change them with agentq.fn_error_class_set.",
            )
        }
        Jsonb::from_value(json!({"ok": true, "code": "removed", "error_class": name}))
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_retry_policy_set(p_scope: Option<&str>, p_name: Option<&str>, p_policy: Option<Jsonb>) -> Jsonb {
    bounded!(fn_retry_policy_set: p_scope, p_name, p_policy);
    let (scope, name) = named(p_scope, p_name).or_raise();
    let policy = required("p_policy", p_policy).reader("p_policy").and_then(checked).or_raise();
    let classes = ["retryable", "non_retryable"].into_iter().filter_map(|key| policy[key].as_array()).flatten();
    let rules = Rulebook::current();
    if rules.policies.lacks_delays(scope, name, &policy) {
        Err(Refusal::new(
            "the backoff \"list\" needs its delays",
            "For example: {\"backoff\": \"list\", \"delays\": [30, 120, 600]}.",
        ))
        .or_raise()
    }
    let unknown: Vec<Value> = classes.filter(|class| !rules.policies.class(class.as_str()).known).cloned().collect();
    let now = timestamp(clock::now());
    db::answer(|db| {
        let answer = db.run(&POLICY_SET, &[scope.into(), name.into(), Jsonb::from_value(policy).into(), now.into()]);
        let pgrx::JsonB(mut answer) = answer.only();
        // A class that is not in the table is allowed, since a worker may use others, but it is more often a slip.
        if !unknown.is_empty() {
            answer["unknown_classes"] = json!(unknown);
        }
        Jsonb::from_value(answer)
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_retry_policy_remove(p_scope: Option<&str>, p_name: Option<&str>) -> Jsonb {
    bounded!(fn_retry_policy_remove: p_scope, p_name);
    let (scope, name) = named(p_scope, p_name).or_raise();
    db::answer(|db| {
        let removed = !db.run(&POLICY_REMOVE, &[scope.into(), name.into()]).is_empty();
        let code = if removed { "removed" } else { "not_found" };
        Jsonb::from_value(json!({"ok": removed, "code": code, "scope": scope, "name": name}))
    })
}

/// The scope and name of a policy. The default has no name.
fn named<'a>(scope: Option<&'a str>, name: Option<&'a str>) -> Result<(&'a str, &'a str), Refusal> {
    let scope = input::one_of("scope", required("p_scope", scope), &SCOPES)?;
    let name = name.unwrap_or_default();
    if scope == "default" {
        return match name {
            "" => Ok((scope, name)),
            _ => Err(Refusal::new(
                format!("the default policy has no name, but \"{}\" was given", agentq_core::error::shown(name)),
                "Leave p_name NULL, or name a queue or a kind with that scope.",
            )),
        };
    }
    Ok((scope, input::name("p_name", name, input::LONGEST_NAME)?))
}

/// Checks a policy, and brings the names of classes into their normal form.
fn checked(policy: Reader<'_>) -> Result<Value, Refusal> {
    let keys: Vec<&str> = retry_policy::KEYS.into_iter().chain(["max_attempts", "requires_idempotency_key"]).collect();
    policy.object(&keys)?;
    policy.member("max_attempts").hint(input::ATTEMPTS_HINT).whole(input::ATTEMPTS)?;
    let key_wanted = policy.member("requires_idempotency_key");
    key_wanted.hint("With true, a job without an idempotency key is refused.").flag()?;
    retry_policy::checked(&policy)
}
