//! What the table `queue` says.

use agentq_core::Refusal;
use serde::Deserialize;
use std::collections::HashMap;
use std::rc::Rc;

#[derive(Clone, Debug, Deserialize)]
pub struct Queue {
    pub queue_id: i32,
    pub queue: String,
    pub lease_seconds: Option<i32>,
    pub max_attempts: Option<i32>,
    pub priority: Option<i32>,
    pub paused: bool,
    pub keep_seconds: Option<i64>,
    /// Whether a claim is on disk before it is answered.
    pub durable_claims: bool,
}

/// All queues, by name.
pub struct Queues(HashMap<String, Rc<Queue>>);

impl Queues {
    pub fn new(queues: Vec<Queue>) -> Queues {
        Queues(queues.into_iter().map(|queue| (queue.queue.clone(), Rc::new(queue))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&Rc<Queue>> {
        self.0.get(name)
    }

    /// The queue of that name, or a refusal that lists the queues there are.
    pub fn find(&self, name: &str) -> Result<&Rc<Queue>, Refusal> {
        self.get(name).ok_or_else(|| {
            let mut names: Vec<_> = self.0.keys().map(String::as_str).collect();
            names.sort_unstable();
            Refusal::new(
                format!("there is no queue \"{}\"", agentq_core::error::shown(name)),
                format!("Make it with SELECT agentq.fn_queue_set('…'). The queues are: {}.", names.join(", ")),
            )
        })
    }

    pub fn by_id(&self, queue_id: i32) -> Option<&Rc<Queue>> {
        self.0.values().find(|queue| queue.queue_id == queue_id)
    }

    pub fn ids(&self) -> Vec<i32> {
        self.0.values().map(|queue| queue.queue_id).collect()
    }

    /// The shortest time for which any queue keeps its finished jobs; `usual`: that of a queue which does not say.
    pub fn shortest_keep_seconds(&self, usual: i64) -> i64 {
        self.0.values().map(|queue| queue.keep_seconds.unwrap_or(usual)).min().unwrap_or(usual)
    }
}
