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

pub use spec::Spec;

use crate::Refusal;
use crate::jsonb::Item;
use crate::mission::status::Required;

/// Steps of one template, those of missions inside it included.
pub const MOST_STEPS: usize = 20_000;
/// Dependencies of one template.
pub const MOST_EDGES: usize = 200_000;
/// Missions inside missions.
pub const DEEPEST: usize = 8;
/// Items that one step works through.
pub const MOST_ITEMS: usize = 10_000;
pub const LONGEST_NAME: usize = 200;
/// The name under which steps read what the mission was started with.
pub const INPUT: &str = "input";
pub const MODES: [&str; 2] = ["graceful", "compensate_then_stop"];

/// What only the server knows.
pub trait Outside {
    /// Whether this is an SQL/JSON path.
    fn path(&self, path: &str) -> Result<(), String>;
    /// Whether there is such a queue.
    fn queue(&self, queue: &str) -> Result<(), Refusal>;
    /// Whether these may be a job's payload.
    fn params(&self, params: Item<'_>) -> Result<(), Refusal>;
}

#[derive(Clone, Debug)]
pub struct Template<'a> {
    pub title: Option<String>,
    pub mode: &'static str,
    pub timeout_seconds: Option<f64>,
    pub steps: Vec<Step<'a>>,
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

    /// The steps, each after all it waits for.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        order.sort_by_key(|index| (self.steps[*index].level, *index));
        order
    }
}
