//! A mission's template: its steps, what each waits for, and what holds for each.
//!
//! Reading one checks all that can be known before it runs (`read`, and `step` for each of its steps), finds the order of
//! the steps (`order`) and that no step reads what may not be there yet (`results`). What is wrong is told with its path.
//! What the steps carry stays where it is: a template lasts as long as the document that it was read from.

mod order;
mod read;
pub(super) mod results;
mod spec;
mod step;
mod wait;

pub use spec::{Spec, Wait};
pub use step::STEPS_WITHOUT_KIND;

use crate::Refusal;
use crate::bounds;
use crate::error::shown;
use crate::jsonb::Item;
use crate::mission::status::Required;
use crate::reader::Reader;

/// Steps of one template, those of missions inside it included.
pub const MOST_STEPS: usize = bounds::STEPS;
/// Dependencies of one template.
pub const MOST_EDGES: usize = bounds::EDGES;
/// Missions inside missions.
pub const DEEPEST: usize = bounds::DEEPEST;
/// Items that one step works through.
pub const MOST_ITEMS: usize = bounds::ITEMS;
pub const LONGEST_NAME: usize = bounds::NAME;
/// Bytes of what is for people.
pub const LONGEST_TITLE: usize = bounds::TITLE;
pub const LONGEST_DESCRIPTION: usize = bounds::DESCRIPTION;
/// The name under which steps read what the mission was started with.
pub const INPUT: &str = "input";
pub const MODES: [&str; 2] = ["graceful", "compensate_then_stop"];

/// What only the server knows.
pub trait Outside {
    /// Whether this is an SQL/JSON path.
    fn path(&self, path: &str) -> Result<(), String>;
    /// Whether there is such a queue.
    fn queue(&self, queue: &str) -> Result<(), Refusal>;
    /// Whether jobs of this kind in this queue must have an idempotency key.
    fn needs_key(&self, queue: Option<&str>, kind: &str) -> bool;
    /// Whether this is a moment.
    fn moment(&self, at: &Reader<'_>) -> Result<(), Refusal>;
    /// Whether the schema knows steps that wait without a worker, and lists of missions.
    fn has_waits(&self) -> Result<(), Refusal>;
    /// Whether these may be a job's payload.
    fn params(&self, params: Item<'_>) -> Result<(), Refusal>;
}

#[derive(Clone, Debug)]
pub struct Template<'a> {
    pub title: Option<String>,
    pub mode: &'static str,
    pub timeout_seconds: Option<f64>,
    /// Whether its effects are compensated when it has failed.
    pub compensates_failure: bool,
    pub steps: Vec<Step<'a>>,
    /// The first step, also of a mission inside, whose jobs must have an idempotency key: where it stands, and its kind.
    pub needs_key: Option<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its number in the template.
    pub step: usize,
    /// How it must end.
    pub required: Required,
}

#[derive(Clone, Debug)]
pub struct Step<'a> {
    pub name: String,
    pub kind: String,
    pub executor: Option<String>,
    /// An object.
    pub params: Item<'a>,
    pub parents: Vec<Parent>,
    /// How many of them must end as asked.
    pub need: i32,
    /// Whether its failure ends the mission.
    pub fails_mission: bool,
    /// The longest way to it from a step that waits for none.
    pub level: i32,
    /// What holds for it beside that; None: nothing.
    pub spec: Option<Box<Spec>>,
}

impl<'a> Template<'a> {
    /// Reads a template, or says what is wrong with it, and where.
    pub fn read(document: Item<'a>, outside: &impl Outside) -> Result<Template<'a>, Refusal> {
        read::root(document, outside)
    }

    /// Refuses a mission without a key of its own, if the work of one of its steps must not be asked for twice. The key of
    /// the mission stands for all of them: it starts once, and each of its steps once in it.
    pub fn check_key(&self, key: Option<&str>) -> Result<(), Refusal> {
        match &self.needs_key {
            Some((at, kind)) if key.is_none() => Err(Refusal::new(
                format!(
                    "{at}: jobs of the kind \"{}\" need an idempotency key, and this mission has none",
                    shown(kind)
                ),
                "Start the mission with an idempotency_key that is the same whenever the same work is asked for; the retry policy of the kind or its queue requires it.",
            )),
            _ => Ok(()),
        }
    }

    /// The steps, each after all it waits for.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        order.sort_by_key(|index| (self.steps[*index].level, *index));
        order
    }
}
