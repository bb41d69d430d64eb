//! Access tokens: for whom a login acts that acts for others, in one transaction.
//!
//! What `fn_act_as` has said is kept in the memory of the session alone, where no setting and no statement of a caller's can
//! reach it. It goes with the transaction, or with the part of it in which it was said.

use super::actor::{self, role_in_force};
use super::bounds::bounded;
use super::clock::{self, Micros, timestamp};
use super::guard::acts_for_others;
use super::ids::{new_id, new_token};
use super::roles::check_lendable;
use super::{audit, guard, text};
use crate::db::{self, Db, Rows, statements};
use crate::error::{OrRaise, raise, required};
use crate::journal::{self, End};
use crate::json::{self, Jsonb};
use crate::server;
use agentq_core::access::{self, KINDS, LIFETIMES, MOST_TOKENS, SCOPES};
use agentq_core::reader::Reader;
use agentq_core::{Refusal, bounds};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

statements!("tokens.sql": LEVELS_OF, TOKEN_COUNT, TOKEN_FIND, TOKEN_INSERT, TOKEN_REVOKE, TOKEN_STATE, TOKENS_LIST, pub TOKENS_FORGET);

/// Within one statement that calls functions again and again, the token is looked at this often, in microseconds.
const LOOK_EVERY_US: i64 = 1_000_000;
/// Tokens that one call lists.
const MOST_LISTED: i64 = 1_000;

/// For whom this transaction acts.
pub struct Acting {
    pub role: pg_sys::Oid,
    token_id: Uuid,
    kind: String,
    scopes: Option<Vec<String>>,
    /// What the token says of itself, for people.
    told: Value,
    /// The part of the transaction in which it was said.
    part: Cell<pg_sys::SubTransactionId>,
    looked_at: Cell<Micros>,
}

thread_local!(static ACTING: RefCell<Option<Rc<Acting>>> = const { RefCell::new(None) });

/// For whom this transaction acts, if somebody has said so.
pub fn acting() -> Option<Rc<Acting>> {
    ACTING.with_borrow(Option::clone)
}

/// The role for which this transaction acts. Raises an error if its token does not hold any more.
pub fn role() -> Option<pg_sys::Oid> {
    let acting = acting()?;
    if clock::real_now() - acting.looked_at.get() >= LOOK_EVERY_US {
        acting.must_allow(None);
    }
    Some(acting.role)
}

pub fn at_end(end: End) {
    match end {
        End::Committed | End::Prepared | End::RolledBack => drop(ACTING.take()),
        End::PartKept { part, parent } => {
            if let Some(acting) = acting().filter(|acting| acting.part.get() == part) {
                acting.part.set(parent);
            }
        }
        End::PartUndone { part } => {
            if acting().is_some_and(|acting| acting.part.get() == part) {
                ACTING.take();
            }
        }
        End::Committing | End::Preparing | End::PreparedEnded => {}
    }
}

/// Why a role cannot be acted for.
fn unfit(role: pg_sys::Oid) -> Option<&'static str> {
    if !server::has_role(role) {
        Some("role_gone")
    } else if server::is_superuser(role) || guard::owns_agentq(role) {
        Some("role_is_superuser")
    } else if acts_for_others(role) {
        Some("role_acts_for_others")
    } else {
        None
    }
}

impl Acting {
    fn of(token: &Rows) -> Acting {
        let (kind, scopes) = (token.must("kind"), token.get("scopes"));
        let (token_id, role) = (token.must("token_id"), token.must("role_oid"));
        let told = token.must::<pgrx::JsonB>("told").0;
        Acting {
            role,
            token_id,
            kind,
            scopes,
            told,
            part: Cell::new(server::subtransaction()),
            looked_at: Cell::new(clock::real_now()),
        }
    }

    /// Raises an error if the token does not hold any more. Whether its scopes have this function.
    pub fn must_allow(&self, function: Option<&str>) -> bool {
        let now = clock::real_now();
        let look = |db: &Db| {
            let args = [self.token_id.into(), timestamp(now).into(), "EXECUTE".into(), function.into()];
            let token = db.read_latest(&TOKEN_STATE, &args);
            if token.is_empty() {
                return (Some("unknown_token"), false);
            }
            (state(&token), token.must("in_scope"))
        };
        // The guard stands outside of all functions, where the caller's names are in force.
        let (state, in_scope) = db::with_own_names(|| db::as_owner(look));
        if let Some(code) = state.or_else(|| unfit(self.role)) {
            raise(
                PgSqlErrorCode::ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
                format!("the token for which this transaction acts does not hold any more: {code}"),
                "Roll back, and begin again with another token.",
            )
        }
        self.looked_at.set(now);
        in_scope
    }

    pub fn has_scopes(&self) -> bool {
        self.scopes.is_some()
    }
}

/// Why a token does not hold by itself.
fn state(token: &Rows) -> Option<&'static str> {
    if token.must("revoked") { Some("token_revoked") } else { token.must::<bool>("ended").then_some("token_expired") }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_act_as(p_token: Option<&str>) -> Jsonb {
    bounded!(fn_act_as: p_token);
    let hash = access::hash(required("p_token", p_token));
    let now = timestamp(clock::real_now());
    let found = db::connect(|db| {
        let token = db.read_latest(&TOKEN_FIND, &[hash.into(), now.into()]);
        if token.is_empty() {
            return Err("unknown_token");
        }
        state(&token).map_or_else(|| Ok(Acting::of(&token)), Err)
    });
    let acting = match found.and_then(|acting| unfit(acting.role).map_or(Ok(acting), Err)) {
        Ok(acting) => acting,
        Err(code) => return Jsonb::from_value(json!({"ok": false, "code": code})),
    };
    if self::acting().is_some_and(|before| before.token_id != acting.token_id) {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "this transaction acts for somebody else already",
            "One transaction acts for one. End it, and act with the other token in the next.",
        )
    }
    journal::open();
    let answer = json!({"ok": true, "code": "acting", "actor": server::role_name(acting.role), "token": acting.told});
    if self::acting().is_none() {
        ACTING.set(Some(Rc::new(acting)));
    }
    Jsonb::from_value(answer)
}

#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn fn_whoami() -> Jsonb {
    let role = role_in_force();
    let levels = db::as_owner(|db| db.run(&LEVELS_OF, &[role.into()]).only::<Jsonb>().beyond_connection());
    Jsonb::from_value(json!({
        "ok": true,
        "code": "known",
        "actor": actor::actor(),
        "role": server::role_name(role),
        "login": server::role_name(server::session_role()),
        "token": acting().map(|acting| acting.told.clone()),
    }))
    .with("levels", levels)
}

/// What a token is issued with.
struct Terms<'a> {
    role: Option<&'a str>,
    label: Option<&'a str>,
    agent: Option<&'a str>,
    run_id: Option<&'a str>,
    scopes: Option<Vec<String>>,
    seconds: Option<i32>,
}

fn terms(options: Reader<'_>) -> Result<Terms<'_>, Refusal> {
    let scopes = options.member("scopes").names(SCOPES.len(), bounds::NAME)?;
    if let Some(wrong) = scopes.iter().flatten().find(|scope| !SCOPES.contains(&scope.as_str())) {
        return Err(Refusal::new(
            format!("p_options.scopes has \"{}\", which is no level", agentq_core::error::shown(wrong)),
            format!("Use some of: {}.", SCOPES.join(", ")),
        ));
    }
    Ok(Terms {
        role: options.member("role").name(bounds::NAME)?,
        label: options.member("label").name(bounds::NAME)?,
        agent: options.member("agent").name(bounds::NAME)?,
        run_id: options.member("run_id").name(bounds::NAME)?,
        scopes: scopes.filter(|scopes| !scopes.is_empty()),
        seconds: options.member("seconds").whole(LIFETIMES)?,
    })
}

/// Runs with the rights of the caller, because only these say whose the token may be.
#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn fn_token_issue(p_kind: Option<&str>, p_options: default!(Option<Jsonb>, "NULL")) -> Jsonb {
    bounded!(fn_token_issue: p_kind, p_options);
    let kind = required("p_kind", p_kind);
    let Some(kind) = KINDS.into_iter().find(|known| *known == kind) else {
        raise(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("p_kind must not be \"{}\"", agentq_core::error::shown(kind)),
            "Use one of: console (a person), api (a program), mcp (the tools of an agent).",
        )
    };
    let accepted = ["role", "label", "agent", "run_id", "scopes", "seconds"];
    let mut terms = json::options(p_options, &accepted).and_then(terms).or_raise();
    let caller = role_in_force();
    let role = match terms.role {
        None => caller,
        Some(name) => {
            check_lendable(name, caller);
            server::role_id(name).expect("it was just found")
        }
    };
    if let Some(code) = unfit(role) {
        return Jsonb::from_value(json!({"ok": false, "code": code}));
    }
    let with = acting();
    if let Some(with) = &with {
        if with.kind != "console" || kind == "console" {
            return Jsonb::from_value(json!({"ok": false, "code": "not_with_this_token"}));
        }
        limit(&mut terms, with);
    }
    let (secret, id) = (access::secret([*new_token().as_bytes(), *new_token().as_bytes()]), new_id());
    let now = clock::real_now();
    db::answer_as_owner(|db| {
        if db.run(&TOKEN_COUNT, &[role.into(), timestamp(now).into()]).only::<i64>() >= MOST_TOKENS {
            return Jsonb::from_value(json!({"ok": false, "code": "too_many_tokens", "most": MOST_TOKENS}));
        }
        let args = [
            id.into(),
            access::hash(&secret).into(),
            role.into(),
            kind.into(),
            terms.label.into(),
            terms.agent.into(),
            terms.run_id.into(),
            terms.scopes.into(),
            timestamp(now).into(),
            actor::actor().into(),
            with.as_ref().map(|with| with.token_id).into(),
            terms.seconds.unwrap_or_else(|| access::usual_lifetime(kind)).into(),
        ];
        let what = json!({"kind": kind, "role": server::role_name(role), "label": terms.label});
        let issued: Jsonb = db.run(&TOKEN_INSERT, &args).only();
        tell(db, "access.token_issued", id, what);
        issued.with("token", Jsonb::from_value(secret.as_str().into()))
    })
}

/// What is issued with a token may do no more than that.
fn limit(terms: &mut Terms<'_>, with: &Acting) {
    let Some(most) = &with.scopes else { return };
    let scopes = terms.scopes.get_or_insert_with(|| most.clone());
    if let Some(wrong) = scopes.iter().find(|scope| !most.contains(scope)) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!(
                "the token for which this transaction acts does not have the scope {wrong}, so it cannot pass it on"
            ),
            format!("Use some of: {}.", most.join(", ")),
        )
    }
}

fn tell(db: &Db, kind: &str, token_id: Uuid, what: Value) {
    audit::tell(db, kind, ("access_token", &token_id.to_string()), what, clock::now());
}

/// Whether the caller may see to the tokens of others.
fn operates(role: pg_sys::Oid) -> bool {
    guard::may_call(role, c"fn_config_set")
}

#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn fn_token_revoke(p_token_id: Option<Uuid>, p_reason: default!(Option<&str>, "NULL")) -> Jsonb {
    bounded!(fn_token_revoke: p_reason);
    let id = required("p_token_id", p_token_id);
    let role = role_in_force();
    let (all, now, by) = (operates(role), timestamp(clock::real_now()), actor::actor());
    db::answer_as_owner(|db| {
        let reason = p_reason.map(text::shorten);
        let args = [id.into(), role.into(), all.into(), now.into(), by.into(), reason.into()];
        let row = db.run(&TOKEN_REVOKE, &args);
        let (is_known, is_revoked): (bool, bool) = (row.must("is_known"), row.must("is_revoked"));
        if is_revoked {
            tell(db, "access.token_revoked", id, json!({"reason": reason}));
        }
        let code = match (is_known, is_revoked) {
            (_, true) => "revoked",
            (true, false) => "already_revoked",
            (false, false) => "unknown_token",
        };
        Jsonb::from_value(json!({"ok": is_known, "code": code, "token_id": id.to_string()}))
    })
}

#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn fn_token_list(p_options: default!(Option<Jsonb>, "NULL")) -> Jsonb {
    bounded!(fn_token_list: p_options);
    let options = json::options(p_options, &["ended", "after", "limit"]).or_raise();
    let ended = options.member("ended").flag().or_raise().unwrap_or(false);
    let after = options.member("after").parsed("a token_id", super::ids::parse_id).or_raise();
    let most = options.member("limit").whole(1..=MOST_LISTED).or_raise().unwrap_or(100);
    let role = role_in_force();
    let (all, now) = (operates(role), timestamp(clock::real_now()));
    let tokens = db::answer_as_owner(|db| {
        let args = [role.into(), all.into(), ended.into(), now.into(), after.into(), most.into()];
        db.run(&TOKENS_LIST, &args).only()
    });
    Jsonb::from_value(json!({"ok": true, "code": "listed"})).with("tokens", tokens)
}
