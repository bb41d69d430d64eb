//! Durable steps: what follows when a step is begun, and which turn of a loop is meant.

use crate::canonical;
use crate::error::{Refusal, shown};
use crate::jsonb::Item;
use crate::reader::Reader;
use crate::words::words;
use serde_json::Value;

/// The longest name of a step that a worker gives.
pub const LONGEST_NAME: usize = crate::bounds::NAME;

words! {
    /// How a step stands.
    Status {
        Begun = "begun",
        Done = "done",
        Failed = "failed",
    }
}

words! {
    /// How an action stands, which is to be done once, whoever tries.
    ActionStatus {
        /// Somebody has won it, and has not ended it.
        InProgress = "in_progress",
        Done = "done",
        Failed = "failed",
    }
}

impl ActionStatus {
    /// How an action ends, by whether it was done.
    pub fn end(done: bool) -> ActionStatus {
        if done { ActionStatus::Done } else { ActionStatus::Failed }
    }
}

/// What a worker is told when it begins a step that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Run,
    /// Here is the result.
    Done,
    /// It was begun and never ended, and must not be run twice.
    Unknown,
}

/// `idempotent`: whether everybody who began it said that it may be run again.
pub fn next(status: Status, idempotent: bool) -> Next {
    match status {
        Status::Done => Next::Done,
        Status::Begun if !idempotent => Next::Unknown,
        // A failure says that it was not done.
        Status::Begun | Status::Failed => Next::Run,
    }
}

/// Which turn of a loop an attempt is at: the first of `known` turns that it has not passed, or the one after them. An
/// attempt passes turns in order, from the first on.
pub fn turn(known: i32, mut passed: impl FnMut(i32) -> bool) -> i32 {
    // Mostly the attempt is ahead of all that is known.
    if known == 0 || passed(known) {
        return known + 1;
    }
    let (mut low, mut high) = (1, known);
    while low < high {
        let middle = low + (high - low) / 2;
        if passed(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// The inputs of a step or an action: their hash, and what tells a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    pub hash: String,
    pub members: Option<Value>,
}

impl Inputs {
    pub fn of(value: Item<'_>) -> Inputs {
        Inputs { hash: canonical::hash(value), members: canonical::members(value) }
    }

    /// The refusal of other inputs than those of before; `what` names the step or action.
    pub fn refuse_changed(&self, what: &str, before: &str, members: Option<&Value>) -> Refusal {
        let known = members.zip(self.members.as_ref());
        let told = known.and_then(|(before, after)| canonical::difference(before, after));
        let told = told.map(|told| format!(" ({told})")).unwrap_or_default();
        Refusal::new(
            format!("{what} was begun with other inputs before{told}: their hash was {before}, and is {}", self.hash),
            "A name always stands for the same work. Give the same inputs, or another name, or an index where it is one of several.",
        )
    }
}

/// A step's name as people write it.
pub fn called(name: &str, occurrence: i32) -> String {
    if occurrence == 1 { format!("\"{}\"", shown(name)) } else { format!("\"{}\" ({occurrence})", shown(name)) }
}

pub fn refuse_order(asked: &str, expected: &str) -> Refusal {
    Refusal::new(
        format!("the step {asked} is begun where an earlier run of the job began the step {expected}"),
        "Ordered steps are begun in the same order by every attempt. Keep the order, or leave the option \"ordered\" out.",
    )
}

/// The options of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub index: Option<i32>,
    pub repeat: bool,
    pub ordered: bool,
    pub idempotent: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { index: None, repeat: false, ordered: false, idempotent: true }
    }
}

impl Options {
    pub const KEYS: [&str; 4] = ["index", "repeat", "ordered", "idempotent"];

    /// Reads them; `accepted` are the keys that make sense for the function.
    pub fn read(options: &Reader<'_>, accepted: &[&str]) -> Result<Options, Refusal> {
        options.object(accepted)?;
        let flag = |key: &str, usual: bool| options.member(key).flag().map(|flag| flag.unwrap_or(usual));
        let index = options.member("index").hint("It says which turn of a loop the step is: 1 for the first.");
        let options = Options {
            index: index.whole(1..=i32::MAX)?,
            repeat: flag("repeat", false)?,
            ordered: flag("ordered", false)?,
            idempotent: flag("idempotent", true)?,
        };
        if options.index.is_some() && options.repeat {
            return Err(Refusal::new(
                "p_options.index and p_options.repeat exclude each other",
                "With index you say which turn of the loop it is; with repeat the turns are counted.",
            ));
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::document;
    use crate::words::listed;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_done_is_not_run_and_what_is_unknown_only_if_it_may() {
        assert_eq!(next(Status::Done, false), Next::Done);
        assert_eq!((next(Status::Begun, true), next(Status::Begun, false)), (Next::Run, Next::Unknown));
        assert_eq!((next(Status::Failed, true), next(Status::Failed, false)), (Next::Run, Next::Run));
    }

    #[test]
    fn the_schema_has_the_same_words() {
        let schema = include_str!("../../../sql/flow/steps.sql");
        assert_eq!(listed(schema, "CONSTRAINT job_step_status_check"), Status::NAMES);
        assert_eq!(listed(schema, "CONSTRAINT action_status_check"), ActionStatus::NAMES);
        for status in Status::ALL {
            assert_eq!(Status::parse(status.name()), Some(*status));
        }
        for status in ActionStatus::ALL {
            assert_eq!(ActionStatus::parse(status.name()), Some(*status));
        }
    }

    proptest! {
        #[test]
        fn the_turn_is_the_first_that_was_not_passed(known in 0..200_i32, done in 0..200_i32) {
            let done = done.min(known);
            let mut asked = 0;
            let turn = turn(known, |number| { asked += 1; assert!((1..=known).contains(&number)); number <= done });
            prop_assert_eq!(turn, done + 1);
            prop_assert!(asked <= 9);
        }
    }

    #[test]
    fn a_change_of_inputs_is_told_with_both_hashes() {
        let before = Inputs::of(document(&json!({"to": "a", "n": 1})));
        let after = Inputs::of(document(&json!({"to": "b", "n": 1})));
        let refusal = after.refuse_changed("the step \"mail\"", &before.hash, before.members.as_ref());
        for part in ["\"mail\"", "changed: \"to\"", &before.hash, &after.hash] {
            assert!(refusal.message.contains(part), "{refusal}");
        }
        assert!(Inputs::of(document(&json!([1]))).refuse_changed("x", "h", None).message.contains("before: their"));
    }

    #[test]
    fn options_keep_to_their_kinds() {
        let read = |value: Value| Options::read(&Reader::at("p_options", document(&value)), &Options::KEYS);
        assert_eq!(read(json!({})), Ok(Options::default()));
        let all = read(json!({"index": 3, "ordered": true, "idempotent": false})).unwrap();
        assert_eq!(all, Options { index: Some(3), repeat: false, ordered: true, idempotent: false });
        for bad in [
            json!([]),
            json!({"index": 0}),
            json!({"index": 1.5}),
            json!({"index": "1"}),
            json!({"repeat": 1}),
            json!({"index": 1, "repeat": true}),
            json!({"again": true}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
        assert_eq!((called("a", 1), called("a", 2)), ("\"a\"".to_owned(), "\"a\" (2)".to_owned()));
    }
}
