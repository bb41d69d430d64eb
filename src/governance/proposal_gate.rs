//! The gate: which proposals may go on at all. Caps are exact, however many sessions propose at once: where there is a
//! cap, whoever proposes locks the day's counters.

use super::hook;
use super::policies::InForce;
use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use crate::error::raise;
use crate::json::Jsonb;
use agentq_core::Refusal;
use agentq_core::policy::{AUTO_APPROVE, AutoApprove, PROPOSAL_CAPS, ProposalCaps, WORKER_POLICY, WorkerPolicy};
use agentq_core::proposal::{self, Counts, Stopped};
use pgrx::{PgSqlErrorCode, Uuid};
use serde_json::{Value, json};

statements!("proposal_gate.sql": COUNTS_LOCK, COUNTS_OPEN, COUNTS_ADD, COUNTS_READ);

/// How often counters are opened for one proposal.
const OPEN_TRIES: i32 = 3;
/// Stands for all sources in the counters.
const ALL: &str = "*";

/// The policies that a decision about a proposal goes by, read once.
pub struct Rules {
    caps: InForce,
    auto: InForce,
    worker: InForce,
    pub auto_approve: AutoApprove,
    pub worker_policy: WorkerPolicy,
    limits: ProposalCaps,
}

impl Rules {
    pub fn in_force(db: &Db) -> Result<Rules, Refusal> {
        let (caps, auto, worker) =
            (InForce::of(db, PROPOSAL_CAPS), InForce::of(db, AUTO_APPROVE), InForce::of(db, WORKER_POLICY));
        let worker_policy = worker.read(WorkerPolicy::read)?;
        Ok(Rules {
            auto_approve: auto.read(AutoApprove::read)?,
            limits: caps.read(ProposalCaps::read)?,
            worker_policy,
            caps,
            auto,
            worker,
        })
    }

    /// What a decision writes down of them.
    pub fn snapshot(&self) -> Value {
        json!({PROPOSAL_CAPS: self.caps.noted(), AUTO_APPROVE: self.auto.noted(), WORKER_POLICY: self.worker.noted()})
    }

    /// A snapshot in which the policy that missions go by is the present one.
    pub fn renewed(&self, mut snapshot: Value) -> Value {
        snapshot[WORKER_POLICY] = self.worker.noted();
        snapshot
    }

    /// The counters that have a cap.
    fn counted(&self, source: &str) -> Vec<String> {
        let all = self.limits.daily_limit.map(|_| ALL.to_owned());
        let own = self.limits.per_source.get(source).map(|_| source.to_owned());
        all.into_iter().chain(own).collect()
    }

    /// Lets a proposal through and counts it, or says why not. Locks the counters to the end of the
    /// transaction.
    pub fn pass(&self, db: &Db, id: Uuid, template: &Value, source: &str, now: Micros) -> Result<(), Stopped> {
        let steps = proposal::step_count(template);
        self.ask(db, template, source, steps, now)?;
        let names = self.counted(source);
        if names.is_empty() {
            return proposal::gate(&self.limits, source, steps, Counts::default());
        }
        let at = timestamp(now);
        let mut counts = Counts::default();
        let mut lock = || {
            let rows = db.run(&COUNTS_LOCK, &[at.into(), names.clone().into()]);
            let found = rows.len();
            rows.each(|row| counts.take(&row.must::<String>("source"), row.must("accepted")));
            found
        };
        // A change of the caps takes the counters away, also while this waits for them.
        let mut tries = 0;
        while lock() < names.len() {
            if tries == OPEN_TRIES {
                raise(
                    PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                    "the policy proposal_caps was changed meanwhile",
                    "Nothing was decided. Propose it again.",
                )
            }
            tries += 1;
            db.run(&COUNTS_OPEN, &[at.into(), names.clone().into(), id.into()]);
        }
        proposal::gate(&self.limits, source, steps, counts)?;
        db.run(&COUNTS_ADD, &[at.into(), names.clone().into()]);
        Ok(())
    }

    /// What the gate would say now. Counts and locks nothing.
    pub fn preview(&self, db: &Db, template: &Value, source: &str, now: Micros) -> Result<(), Stopped> {
        let steps = proposal::step_count(template);
        self.caps_now(db, source, steps, now)?;
        self.ask(db, template, source, steps, now)
    }

    fn caps_now(&self, db: &Db, source: &str, steps: i64, now: Micros) -> Result<(), Stopped> {
        let mut counts = Counts::default();
        let names = self.counted(source);
        if !names.is_empty() {
            let rows = db.run(&COUNTS_READ, &[timestamp(now).into(), names.into()]);
            rows.each(|row| counts.take(&row.must::<String>("source"), row.must("accepted")));
        }
        proposal::gate(&self.limits, source, steps, counts)
    }

    /// Asks the hook, if there is one, before anything is locked: it may take its time. It is not
    /// asked about what a cap will stop anyway.
    fn ask(&self, db: &Db, template: &Value, source: &str, steps: i64, now: Micros) -> Result<(), Stopped> {
        let Some(hook) = &self.limits.hook else { return Ok(()) };
        self.caps_now(db, source, steps, now)?;
        hook::ask(db, hook, &self.caps, Jsonb::from_value(template.clone()), source)
    }
}

/// Fills the counts from the counters' rows.
trait Take {
    fn take(&mut self, name: &str, accepted: i64);
}

impl Take for Counts {
    fn take(&mut self, name: &str, accepted: i64) {
        if name == ALL {
            self.all = accepted;
        } else {
            self.of_source = accepted;
        }
    }
}
