//! The rows of steps: finding, beginning and ending them, for steps, sleeps and waits alike.
//!
//! Whoever comes here has kept the lease of the job, so that an attempt that has lost it writes nothing. Two sessions of
//! one holder may begin steps at the same time; the primary key decides who has begun one, and the row is locked after
//! the lease.

use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use crate::error::OrRaise;
use crate::flow::settings::RESULT_MAX_BYTES;
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use agentq_core::replay::Recorded;
use agentq_core::steps::{self, Inputs, Next, Options, Status};
use agentq_core::{Refusal, payload};
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("step_rows.sql": STEP_FIND, STEP_KNOWN, STEP_PASSED, STEP_ADD, STEP_RUN, STEP_SEEN, STEP_END, STEP_BEFORE, STEP_EXPECTED, STEPS_RECORDED, STEPS_TAKE_OVER,
    LAST_DONE_AT);

/// A step that a holder asks for.
pub struct Wanted<'a> {
    pub job_id: Uuid,
    pub token: Uuid,
    pub name: &'a str,
    /// step, sleep or signal.
    pub kind: &'static str,
    pub inputs: &'a Inputs,
    pub options: &'a Options,
    /// Until when the job is to sleep or wait; what was said first counts.
    pub until: Option<Micros>,
}

/// A step as it stands.
pub struct Step {
    pub occurrence: i32,
    pub position: i32,
    pub status: Status,
    pub attempts: i32,
    /// The attempt that last began it.
    pub lease_token: Option<Uuid>,
    pub ended_at: Option<Micros>,
    pub until: Option<Micros>,
    pub result: Option<Jsonb>,
    pub kind: String,
    idempotent: bool,
    seen_by: Option<Uuid>,
    inputs_hash: String,
    inputs_keys: Option<pgrx::JsonB>,
}

impl Wanted<'_> {
    /// Which turn of a loop is meant.
    pub fn occurrence(&self, db: &Db) -> i32 {
        if !self.options.repeat {
            return self.options.index.unwrap_or(1);
        }
        let known = db.run(&STEP_KNOWN, &[self.job_id.into(), self.name.into()]);
        let known = if known.is_empty() { 0 } else { known.only() };
        steps::turn(known, |turn| {
            let row = db.run(&STEP_PASSED, &[self.job_id.into(), self.name.into(), turn.into(), self.token.into()]);
            !row.is_empty() && row.maybe_only().unwrap_or(false)
        })
    }

    /// Begins the step, or says why it need not be run. What is to be run is begun in its row.
    pub fn begin(&self, db: &Db, occurrence: i32, now: Micros) -> (Next, Step) {
        loop {
            if let Some(step) = find(db, self.job_id, self.name, occurrence) {
                return (self.begin_known(db, &step, now), step);
            }
            if self.options.ordered {
                self.check_order(db, occurrence, i32::MAX);
            }
            if let Some(position) = self.add(db, occurrence, now) {
                return (Next::Run, self.new_step(occurrence, position));
            }
            // Another session of the holder was quicker.
        }
    }

    fn begin_known(&self, db: &Db, step: &Step, now: Micros) -> Next {
        self.check_same(step).or_raise();
        if self.options.ordered {
            self.check_order(db, step.occurrence, step.position);
        }
        let key = (self.job_id, self.name, step.occurrence);
        let next = steps::next(step.status, step.idempotent && self.options.idempotent);
        if next == Next::Run {
            let may = self.options.idempotent;
            let now = timestamp(now);
            db.run(&STEP_RUN, &[key.0.into(), key.1.into(), key.2.into(), self.token.into(), now.into(), may.into()]);
        } else if step.seen_by != Some(self.token) {
            db.run(&STEP_SEEN, &[key.0.into(), key.1.into(), key.2.into(), self.token.into()]);
        }
        next
    }

    fn check_same(&self, step: &Step) -> Result<(), Refusal> {
        let called = steps::called(self.name, step.occurrence);
        if step.kind != self.kind {
            return Err(Refusal::new(
                format!("{called} is the name of a {} of this job, and cannot be a {} as well", step.kind, self.kind),
                "Give each step, sleep and wait of a job a name of its own.",
            ));
        }
        if step.inputs_hash != self.inputs.hash {
            let before = step.inputs_keys.as_ref().map(|keys| &keys.0);
            return Err(self.inputs.refuse_changed(&format!("the step {called}"), &step.inputs_hash, before));
        }
        Ok(())
    }

    /// Refuses a step when this attempt has not asked for the one that came before it in an earlier run. Since each was
    /// checked in its turn, the one before is enough.
    fn check_order(&self, db: &Db, occurrence: i32, position: i32) {
        let before = db.run(&STEP_BEFORE, &[self.job_id.into(), position.into(), self.token.into()]);
        if before.is_empty() || before.only() {
            return;
        }
        let expected = db.run(&STEP_EXPECTED, &[self.job_id.into(), self.token.into()]);
        let expected = steps::called(&expected.must::<String>("name"), expected.must("occurrence"));
        Err(steps::refuse_order(&steps::called(self.name, occurrence), &expected)).or_raise()
    }

    fn add(&self, db: &Db, occurrence: i32, now: Micros) -> Option<i32> {
        let keys = self.inputs.members.clone().map(Jsonb::from_value);
        let args = [
            self.job_id.into(),
            self.name.into(),
            occurrence.into(),
            self.kind.into(),
            self.options.idempotent.into(),
            self.token.into(),
            timestamp(now).into(),
            self.until.map(timestamp).into(),
            self.inputs.hash.as_str().into(),
            keys.into(),
        ];
        let row = db.run(&STEP_ADD, &args);
        (!row.is_empty()).then(|| row.only())
    }

    fn new_step(&self, occurrence: i32, position: i32) -> Step {
        Step {
            occurrence,
            position,
            status: Status::Begun,
            attempts: 0,
            lease_token: Some(self.token),
            ended_at: None,
            until: self.until,
            result: None,
            kind: self.kind.to_owned(),
            idempotent: self.options.idempotent,
            seen_by: Some(self.token),
            inputs_hash: self.inputs.hash.clone(),
            inputs_keys: None,
        }
    }
}

/// The step, its row locked.
pub fn find(db: &Db, job_id: Uuid, name: &str, occurrence: i32) -> Option<Step> {
    let row = db.run(&STEP_FIND, &[job_id.into(), name.into(), occurrence.into()]);
    if row.is_empty() {
        return None;
    }
    let at = |column| row.get::<TimestampWithTimeZone>(column).map(TimestampWithTimeZone::into_inner);
    Some(Step {
        occurrence,
        position: row.must("position"),
        kind: row.must("kind"),
        status: row.word("status", Status::parse),
        idempotent: row.must("idempotent"),
        attempts: row.must("attempts"),
        lease_token: row.get("lease_token"),
        seen_by: row.get("seen_by"),
        ended_at: at("ended_at"),
        until: at("until_at"),
        inputs_hash: row.must("inputs_hash"),
        inputs_keys: row.get("inputs_keys"),
        result: row.get("result"),
    })
}

/// Ends a step: done with a result, or failed with an error.
pub fn end(db: &Db, job_id: Uuid, name: &str, occurrence: i32, ended: Result<Option<Jsonb>, &str>, now: Micros) {
    let (result, error) = match ended {
        Ok(result) => (result, None),
        Err(error) => (None, Some(error)),
    };
    let args = [job_id.into(), name.into(), occurrence.into(), timestamp(now).into(), result.into(), error.into()];
    db.run(&STEP_END, &args);
}

/// Refuses what is too large to be kept as a result.
pub fn check_size(rules: &Rulebook, what: &str, value: Jsonb) -> Result<(), Refusal> {
    let most = rules.number(RESULT_MAX_BYTES);
    if value.size() as i64 <= most {
        return Ok(());
    }
    Err(payload::refuse_too_large(what, value.size(), most, RESULT_MAX_BYTES))
}

/// The steps that a job has begun, for a replay.
pub fn recorded(db: &Db, job_id: Uuid) -> Vec<Recorded> {
    let mut steps = Vec::new();
    db.run(&STEPS_RECORDED, &[job_id.into()]).each(|row| {
        steps.push(Recorded {
            name: row.must("name"),
            position: row.must("position"),
            status: row.word("status", Status::parse),
            idempotent: row.must("idempotent"),
        });
    });
    steps
}

/// Gives another run of a job the steps that are done, and those of which nobody knows.
pub fn take_over(db: &Db, from: Uuid, to: Uuid, before: i32) {
    db.run(&STEPS_TAKE_OVER, &[from.into(), to.into(), before.into()]);
}

/// When a step or an effect of a job was last completed.
pub fn last_done_at(db: &Db, job_id: Uuid) -> Option<Micros> {
    let row = db.run(&LAST_DONE_AT, &[job_id.into()]);
    row.maybe_only::<TimestampWithTimeZone>().map(TimestampWithTimeZone::into_inner)
}
