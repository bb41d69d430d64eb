//! The rules that hold for jobs: the settings of the queue, the queues themselves, and what was set about failures,
//! limits and budgets. A session keeps a copy, which every function of the queue asks.

mod bounds;
mod policies;
mod queues;

pub use bounds::{BudgetRow, LimitRow};
pub use policies::{Policies, PolicyRow};
pub use queues::Queue;

use super::settings as keys;
use crate::base::cache::Cache;
use crate::base::settings::Settings;
use crate::db::{self, statements};
use agentq_core::Refusal;
use agentq_core::budget::Budgets;
use agentq_core::limits::Rules;
use agentq_core::retry::Policy;
use queues::Queues;
use serde::de::DeserializeOwned;
use std::ops::Deref;
use std::rc::Rc;

statements!("rules.sql": RULEBOOK_LOAD);

/// What holds for jobs. It is also the settings of every room.
pub struct Rulebook {
    settings: Rc<Settings>,
    pub queues: Queues,
    pub policies: Policies,
    pub limits: Rules,
    pub budgets: Budgets,
    pub keep_seconds: i64,
    pub reap_stale: bool,
    pub max_attempts: i32,
    pub backoff_base_sec: i64,
    pub lease_seconds: i32,
    pub checkpoint_max_bytes: i64,
    pub stale_threshold_seconds: i32,
    pub max_crashes: i64,
}

thread_local!(static RULEBOOK: Cache<Rulebook> = const {
    let tables = &[c"config", c"queue", c"error_class", c"retry_policy", c"limit_rule", c"budget"];
    Cache::new(tables, Rulebook::load)
});

impl Deref for Rulebook {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

impl Rulebook {
    /// The rules in force.
    pub fn current() -> Rc<Rulebook> {
        RULEBOOK.with(Cache::current)
    }

    fn load() -> Rulebook {
        let settings = Settings::current();
        let (queues, classes, policies, limits, budgets) = db::connect(|db| {
            let row = db.run(&RULEBOOK_LOAD, &[]);
            (
                list(row.must("queues")),
                list(row.must("classes")),
                list(row.must("policies")),
                list(row.must("limits")),
                list(row.must("budgets")),
            )
        });
        Rulebook {
            queues: Queues::new(queues),
            policies: Policies::new(classes, policies),
            limits: Rules::new(limits.into_iter().map(LimitRow::rule)),
            budgets: Budgets::new(budgets.into_iter().filter_map(BudgetRow::budget)),
            keep_seconds: settings.number(keys::KEEP_SECONDS),
            reap_stale: settings.flag(keys::REAP_STALE),
            max_attempts: settings.number(keys::MAX_ATTEMPTS) as i32,
            backoff_base_sec: settings.number(keys::BACKOFF_BASE),
            lease_seconds: settings.number(keys::LEASE_DURATION) as i32,
            checkpoint_max_bytes: settings.number(keys::CHECKPOINT_MAX_BYTES),
            stale_threshold_seconds: settings.number(keys::STALE_THRESHOLD) as i32,
            max_crashes: settings.number(keys::MAX_CRASHES),
            settings,
        }
    }

    /// The queue of that name, or a refusal that lists the queues there are.
    pub fn queue(&self, name: &str) -> Result<&Rc<Queue>, Refusal> {
        self.queues.find(name)
    }

    /// What follows a failure of a job of this kind and queue, which may have a policy of its own.
    pub fn retry_policy(&self, own: Option<&PolicyRow>, queue_id: i32, kind: &str) -> Policy {
        let queue = self.queues.by_id(queue_id).map_or("", |queue| queue.queue.as_str());
        self.policies.policy(own, queue, kind, self.backoff_base_sec)
    }

    /// How many attempts a job gets that names none.
    pub fn max_attempts_of(&self, queue: &Queue, kind: &str) -> i32 {
        let policies = &self.policies;
        let narrow = policies.narrow_max_attempts(&queue.queue, kind).or(queue.max_attempts);
        narrow.or_else(|| policies.default_max_attempts()).unwrap_or(self.max_attempts)
    }
}

/// The rows of a table. One that cannot be read is as if the table were empty.
fn list<T: DeserializeOwned>(rows: pgrx::JsonB) -> Vec<T> {
    serde_json::from_value(rows.0).unwrap_or_default()
}
