//! Idempotent actions: what must be done once, whoever tries.
//!
//! Whoever begins an action has won it, is given the result of the one who did it, or is told who is at it. The primary
//! key decides: a second session waits for the transaction of the first, and no longer. A winner has a lease and a
//! token; when the lease has run out, or the attempt of its job has ended, another may take over, and the first one's
//! token fits no longer. Locks: the lease of the job, if one is named, then the action's row.

use super::step_rows;
use super::steps::{self, STEP_RUNS};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_token;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required, run_again};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::ends::lease;
use crate::queue::rules::Rulebook;
use agentq_core::jsonb::Item;
use agentq_core::reader::Member;
use agentq_core::steps::{ActionStatus, Inputs};
use agentq_core::{Refusal, canonical, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("actions.sql": ACTION_BEGIN, ACTION_LOCK, ACTION_WIN, ACTION_END);

/// Seconds for which a result is kept, unless the winner says otherwise.
const KEPT_SECONDS: f64 = 604_800.0;
const LONGEST_SECONDS: f64 = 315_360_000.0;
/// What whoever begins an action hears that is being carried out, and what to do: if it is its own, and if it is not.
const MINE: (&str, &str) = (
    "this holder has begun it already, and not ended it; nothing was changed",
    "End it with agentq.fn_action_finish or agentq.fn_action_fail and the token that the first answer had.",
);
const ANOTHERS: (&str, &str) = (
    "somebody else is at it; nothing was changed",
    "Ask again later: it is done then, or may be taken over when the lease has run out.",
);

/// Who begins which action.
struct Begin<'a> {
    key: &'a str,
    kind: &'a str,
    inputs: Inputs,
    holder: String,
    lease_seconds: f64,
    ttl: f64,
    /// The job for which it is done, and the token of its attempt.
    job: Option<(Uuid, Uuid)>,
}

/// The row of an action, locked.
struct Action {
    kind: String,
    inputs_hash: String,
    inputs_keys: Option<pgrx::JsonB>,
    status: ActionStatus,
    holder: String,
    token: Uuid,
    attempts: i32,
    lease_until: Micros,
    executed_at: Option<Micros>,
    expires_at: Micros,
    result: Option<Jsonb>,
    job: Option<(Uuid, Uuid)>,
}

impl Action {
    fn lock(db: &Db, key: &str) -> Option<Action> {
        let row = db.run(&ACTION_LOCK, &[key.into()]);
        if row.is_empty() {
            return None;
        }
        let at = |column| row.get::<TimestampWithTimeZone>(column).map(TimestampWithTimeZone::into_inner);
        Some(Action {
            kind: row.must("action_type"),
            inputs_hash: row.must("inputs_hash"),
            inputs_keys: row.get("inputs_keys"),
            status: row.word("status", ActionStatus::parse),
            holder: row.must("holder"),
            token: row.must("token"),
            attempts: row.must("attempts"),
            lease_until: at("lease_until").unwrap_or_default(),
            executed_at: at("executed_at"),
            expires_at: at("expires_at").unwrap_or_default(),
            result: row.get("result"),
            job: row.get("job_id").zip(row.get("lease_token")),
        })
    }

    /// Whether somebody is at it, whose lease goes on.
    fn is_held(&self, db: &Db, now: Micros) -> bool {
        let runs = |(job, token): (Uuid, Uuid)| !db.run(&STEP_RUNS, &[job.into(), token.into()]).is_empty();
        self.status == ActionStatus::InProgress && self.lease_until > now && self.job.is_none_or(runs)
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_action_begin(
    p_key: Option<&str>,
    p_type: Option<&str>,
    p_inputs: default!(Option<Jsonb>, "'{}'"),
    p_holder: default!(Option<&str>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_action_begin: p_key, p_type, p_inputs, p_holder, p_options);
    answer::if_on(|rules| {
        let begin = Begin::read(rules, p_key, p_type, p_inputs, p_holder, p_options).or_raise();
        db::answer(|db| {
            let Some((job_id, token)) = begin.job else { return begin.run(db) };
            let Some(kept) = lease::keep(db, job_id, None, Some(token)) else {
                return answer::lease_lost(db, job_id, None, Some(token));
            };
            begin.run(db).with("cancel_requested", Jsonb::from_item(Item::Bool(kept.cancel_requested)))
        })
    })
}

impl<'a> Begin<'a> {
    fn read(
        rules: &Rulebook,
        key: Option<&'a str>,
        kind: Option<&'a str>,
        inputs: Option<Jsonb>,
        holder: Option<&str>,
        options: Option<Jsonb>,
    ) -> Result<Begin<'a>, Refusal> {
        let options = json::options(options, &["lease_seconds", "ttl", "job_id", "lease_token"])?;
        let id = |id: Member<'_>| {
            let parse = |text: &str| uuid::Uuid::parse_str(text).ok().map(|id| Uuid::from_bytes(*id.as_bytes()));
            id.hint("Give the job_id and the lease_token that the claim answered with.").parsed("a uuid", parse)
        };
        // A token is in no error, also one with a slip of the pen.
        let (job_id, token) = (id(options.member("job_id"))?, id(options.member("lease_token").secret())?);
        if job_id.is_some() != token.is_some() {
            return Err(Refusal::new(
                "p_options.job_id and p_options.lease_token belong together, and one of them is missing",
                "Give both, so that the action can be taken over when that attempt has ended; or neither.",
            ));
        }
        let longest = f64::from(input::LONGEST_LEASE_SECONDS);
        let lease = options.member("lease_seconds").seconds(1.0..=longest)?;
        let ttl = options.member("ttl").seconds(1.0..=LONGEST_SECONDS)?;
        let holder = match holder {
            Some(holder) => input::name("p_holder", holder, input::LONGEST_NAME)?.to_owned(),
            None => actor(),
        };
        Ok(Begin {
            key: input::name("p_key", required("p_key", key), input::LONGEST_KEY)?,
            kind: input::name("p_type", required("p_type", kind), input::LONGEST_NAME)?,
            inputs: steps::inputs(inputs)?,
            holder,
            lease_seconds: lease.unwrap_or_else(|| f64::from(rules.lease_seconds)),
            ttl: ttl.unwrap_or(KEPT_SECONDS),
            job: job_id.zip(token),
        })
    }

    fn run(&self, db: &Db) -> Jsonb {
        for _ in 0..3 {
            let (now, token) = (clock::now(), new_token());
            if let Some(until) = self.add(db, token, now) {
                return self.won(token, until, 1, None);
            }
            // Whoever was quicker has committed by now; its row may have been forgotten since.
            if let Some(action) = Action::lock(db, self.key) {
                return self.meet(db, &action, token, clock::now());
            }
        }
        run_again(format!("the action \"{}\" keeps changing hands", agentq_core::error::shown(self.key)))
    }

    /// What becomes of an action that is known.
    fn meet(&self, db: &Db, action: &Action, token: Uuid, now: Micros) -> Jsonb {
        let is_held = action.is_held(db, now);
        let forgotten = action.expires_at <= now && !is_held;
        if !forgotten {
            self.check_same(action).or_raise();
        }
        if is_held {
            let is_mine = action.holder == self.holder && action.job == self.job;
            let (message, hint) = if is_mine { MINE } else { ANOTHERS };
            return Jsonb::from_value(json!({
                "ok": false, "code": "in_progress", "action_key": self.key, "holder": action.holder,
                "job_id": action.job.map(|(job, _)| job.to_string()), "lease_until": timestamp(action.lease_until),
                "attempt": action.attempts, "mine": is_mine, "message": message, "hint": hint,
            }));
        }
        if action.status == ActionStatus::Done && !forgotten {
            let answer = Jsonb::from_value(json!({
                "ok": true, "code": "done", "action_key": self.key, "holder": action.holder,
                "executed_at": action.executed_at.map(timestamp), "expires_at": timestamp(action.expires_at),
            }));
            return answer.with("result", action.result.unwrap_or_else(|| Jsonb::from_value(Value::Null)));
        }
        let mut args = self.args(token, now);
        args.push(forgotten.into());
        let row = db.run(&ACTION_WIN, &args);
        let from = (action.status == ActionStatus::InProgress && !forgotten).then_some(action.holder.as_str());
        self.won(token, row.must("lease_until"), row.must("attempts"), from)
    }

    fn check_same(&self, action: &Action) -> Result<(), Refusal> {
        let called = format!("the action \"{}\"", agentq_core::error::shown(self.key));
        if action.kind != self.kind {
            return Err(Refusal::new(
                format!("{called} is of the type \"{}\", not \"{}\"", action.kind, self.kind),
                "The same key stands for the same action. Give the type that it has, or another key.",
            ));
        }
        if action.inputs_hash != self.inputs.hash {
            let before = action.inputs_keys.as_ref().map(|keys| &keys.0);
            return Err(self.inputs.refuse_changed(&called, &action.inputs_hash, before));
        }
        Ok(())
    }

    fn args(&self, token: Uuid, now: Micros) -> Vec<pgrx::datum::DatumWithOid<'_>> {
        vec![
            self.key.into(),
            self.kind.into(),
            self.inputs.hash.as_str().into(),
            self.inputs.members.clone().map(Jsonb::from_value).into(),
            self.holder.as_str().into(),
            token.into(),
            self.job.map(|(job, _)| job).into(),
            self.job.map(|(_, token)| token).into(),
            timestamp(now).into(),
            self.lease_seconds.into(),
            self.ttl.into(),
        ]
    }

    fn add(&self, db: &Db, token: Uuid, now: Micros) -> Option<TimestampWithTimeZone> {
        let row = db.run(&ACTION_BEGIN, &self.args(token, now));
        (!row.is_empty()).then(|| row.only())
    }

    fn won(&self, token: Uuid, until: TimestampWithTimeZone, attempt: i32, from: Option<&str>) -> Jsonb {
        Jsonb::from_value(json!({
            "ok": true, "code": "won", "action_key": self.key, "holder": self.holder, "token": token.to_string(),
            "lease_until": until, "attempt": attempt, "taken_over_from": from,
        }))
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_action_finish(
    p_key: Option<&str>,
    p_holder: default!(Option<&str>, "NULL"),
    p_result: default!(Option<Jsonb>, "NULL"),
    p_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_action_finish: p_key, p_holder, p_result);
    answer::if_on(|rules| {
        p_result.into_iter().for_each(|result| step_rows::check_size(rules, "p_result", result).or_raise());
        end(required("p_key", p_key), p_holder, p_token, Ok(p_result))
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_action_fail(
    p_key: Option<&str>,
    p_holder: default!(Option<&str>, "NULL"),
    p_error: default!(Option<&str>, "NULL"),
    p_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_action_fail: p_key, p_holder, p_error);
    answer::if_on(|_| {
        let error = p_error.filter(|error| !error.trim().is_empty()).unwrap_or("no error was given");
        end(required("p_key", p_key), p_holder, p_token, Err(error))
    })
}

/// Ends an action that this holder (and, where given, this token) has won.
fn end(key: &str, holder: Option<&str>, token: Option<Uuid>, ended: Result<Option<Jsonb>, &str>) -> Jsonb {
    let holder = holder.map_or_else(actor, str::to_owned);
    db::answer(|db| {
        let Some(action) = Action::lock(db, key) else {
            raise(
                PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
                format!("there is no action \"{}\"", agentq_core::error::shown(key)),
                "Begin it with agentq.fn_action_begin. One that has expired is forgotten.",
            )
        };
        let mine = action.holder == holder && token.is_none_or(|token| token == action.token);
        let code = if ended.is_ok() { "finished" } else { "failed" };
        if mine && action.status == ActionStatus::end(ended.is_ok()) {
            // The answer was lost, and the winner asks again: what was stored first stays.
            let again = json!({"ok": true, "code": code, "action_key": key, "again": true,
                "expires_at": timestamp(action.expires_at)});
            return Jsonb::from_value(again);
        }
        if !mine || action.status != ActionStatus::InProgress {
            return Jsonb::from_value(json!({
                "ok": false, "code": "action_lost", "action_key": key, "status": action.status.name(), "holder": action.holder,
                "message": "this holder and token have not won the action, or it is over; nothing was changed",
                "hint": "Another has taken it over, or has ended it: ask with agentq.fn_action_begin how it stands.",
            }));
        }
        let (result, error) = match ended {
            Ok(result) => (result, None),
            Err(error) => (None, Some(error)),
        };
        let now = timestamp(clock::now());
        let row = db.run(&ACTION_END, &[key.into(), now.into(), result.into(), error.into()]);
        let expires_at: TimestampWithTimeZone = row.only();
        Jsonb::from_value(
            json!({"ok": true, "code": code, "action_key": key, "again": false, "expires_at": expires_at}),
        )
    })
}

/// A key for an action of a step of a job: the same for the same three.
#[pg_extern(immutable, parallel_safe)]
fn fn_action_key(p_job_id: Option<Uuid>, p_step: Option<&str>, p_inputs: default!(Option<Jsonb>, "'{}'")) -> String {
    bounded!(fn_action_key: p_step, p_inputs);
    let job_id = required("p_job_id", p_job_id).to_string();
    let inputs = p_inputs.unwrap_or_else(Jsonb::empty_object).reader("p_inputs").or_raise().item();
    let parts = [job_id.as_str().into(), required("p_step", p_step).into(), inputs];
    canonical::hash(Item::Container(&json::array(parts.into_iter())))
}
