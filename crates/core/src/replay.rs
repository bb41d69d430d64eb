//! Where a replay begins, and whether it is safe.
//!
//! A checkpoint may list the steps that are done (`completed_steps`, in order) and those that must not
//! be run twice (`non_idempotent_steps`). Steps that the job has begun through the step functions are recorded.

use crate::error::{Refusal, shown};
use crate::jsonb::{self, Container, Item};
use crate::reader::Reader;
use crate::steps::Status;

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From<'a> {
    Beginning,
    LastCheckpoint,
    Step(&'a str),
}

impl<'a> From<'a> {
    pub fn parse(from: &str, step: Option<&'a str>) -> Result<Self, Refusal> {
        match (from, step) {
            ("beginning", None) => Ok(From::Beginning),
            ("last_checkpoint", None) => Ok(From::LastCheckpoint),
            ("specific_step", Some(step)) => Ok(From::Step(step)),
            ("specific_step", None) => Err(Refusal::new(
                "a replay from a step needs its name in p_step",
                "For example: fn_job_replay(job, 'specific_step', 'charge card').",
            )),
            ("beginning" | "last_checkpoint", Some(step)) => Err(Refusal::new(
                format!("p_step is \"{}\", but the replay is from the {from}", shown(step)),
                "Give p_from => 'specific_step', or leave p_step out.",
            )),
            (other, _) => Err(Refusal::new(
                format!("a replay cannot be from \"{}\"", shown(other)),
                "Use one of: beginning, last_checkpoint, specific_step.",
            )),
        }
    }

    pub fn name(&self) -> &'a str {
        match self {
            From::Beginning => "beginning",
            From::LastCheckpoint => "last_checkpoint",
            From::Step(step) => step,
        }
    }
}

/// A step that the job has begun, whatever became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub name: String,
    /// The steps of a job are numbered in the order in which they were first begun.
    pub position: i32,
    pub status: Status,
    pub idempotent: bool,
}

/// What a replay starts with.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In the server's form.
    pub checkpoint: Option<Vec<u8>>,
    /// Recorded steps before this position are taken over; None: none are.
    pub keep_before: Option<i32>,
    /// What would run again though it must not.
    pub unsafe_steps: Vec<String>,
}

/// The names in a list of the checkpoint. Passes over what is no name: a checkpoint is the worker's own.
fn names<'a>(checkpoint: Option<Item<'a>>, key: &str) -> Vec<&'a str> {
    let list = checkpoint.and_then(|item| Reader::at("the checkpoint", item).member(key).reader());
    let list = list.filter(Reader::is_list);
    let names = list.iter().filter_map(|list| list.elements().ok()).flatten();
    names.filter_map(|name| name.text().ok()).collect()
}

/// `recorded`: the steps of the job in order of their position. `external_effects`: the job as a whole has effects that
/// must not happen twice.
pub fn plan(
    from: &From<'_>,
    checkpoint: Option<Item<'_>>,
    recorded: &[Recorded],
    external_effects: bool,
) -> Result<Plan, Refusal> {
    let done = names(checkpoint, "completed_steps");
    let (begin_at, keep_before) = match from {
        From::Beginning => (0, None),
        From::LastCheckpoint => (done.len(), Some(i32::MAX)),
        From::Step(step) => {
            let listed = done.iter().position(|name| name == step);
            let position = recorded.iter().find(|other| other.name == *step).map(|other| other.position);
            if listed.is_none() && position.is_none() {
                return Err(refuse_unknown(step, &done, recorded));
            }
            let again = &done[listed.unwrap_or(done.len())..];
            let first_again =
                || recorded.iter().find(|other| again.contains(&other.name.as_str())).map(|other| other.position);
            let keep_before = position.or_else(first_again).unwrap_or(i32::MAX);
            // A step that the checkpoint does not list: what it lists and was begun later is not done either.
            let later = |name: &&str| recorded.iter().any(|r| r.name == *name && r.position >= keep_before);
            let begin_at = listed.or_else(|| done.iter().position(later)).unwrap_or(done.len());
            (begin_at, Some(keep_before))
        }
    };
    let again = &done[begin_at..];
    let delicate = names(checkpoint, "non_idempotent_steps");
    let unsafe_steps = again.iter().filter(|step| delicate.contains(step));
    let mut unsafe_steps: Vec<String> = unsafe_steps.map(|step| (*step).to_owned()).collect();
    for step in recorded.iter().filter(|step| !step.idempotent && step.status != Status::Failed) {
        // One that is taken over without its end is not run again: its outcome is unknown to the next run, too.
        if step.position >= keep_before.unwrap_or(0) && !unsafe_steps.contains(&step.name) {
            unsafe_steps.push(step.name.clone());
        }
    }
    // With a list of steps that are delicate, the others are not; without, the whole job is.
    if external_effects && delicate.is_empty() && recorded.iter().all(|step| step.idempotent) {
        unsafe_steps.push("the job as a whole".to_owned());
    }
    let checkpoint = match (from, checkpoint) {
        (From::Beginning, _) | (_, None) => None,
        (From::Step(step), Some(Item::Container(bytes))) if Container::new(bytes).is_object() => {
            let completed = jsonb::array(done[..begin_at].iter().map(|name| Item::from(*name)))?;
            let changes = [
                ("completed_steps", Item::Container(&completed)),
                ("step", (*step).into()),
                ("step_index", (begin_at as i64).into()),
            ];
            Some(jsonb::with(Container::new(bytes), &changes)?)
        }
        (_, Some(checkpoint)) => Some(jsonb::root(checkpoint)?),
    };
    Ok(Plan { checkpoint, keep_before, unsafe_steps })
}

fn refuse_unknown(step: &str, done: &[&str], recorded: &[Recorded]) -> Refusal {
    let mut known: Vec<&str> = done.to_vec();
    for step in recorded {
        if !known.contains(&step.name.as_str()) {
            known.push(&step.name);
        }
    }
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Refusal::new(
        format!(
            "the job's checkpoint does not say that the step \"{}\" was done, and it has not begun it",
            shown(step)
        ),
        format!("Steps that were done: {known}."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::document;
    use serde_json::{Value, json};

    fn made(checkpoint: &Option<Vec<u8>>) -> Value {
        jsonb::to_value(Container::new(checkpoint.as_ref().unwrap()).item()).unwrap()
    }

    fn saved() -> Value {
        json!({"completed_steps": ["search", "pay", "mail"], "non_idempotent_steps": ["pay"], "intermediate_state": {"n": 1}})
    }

    #[test]
    fn from_the_beginning_everything_runs_again() {
        let plan = plan(&From::Beginning, Some(document(&saved())), &[], false).unwrap();
        assert_eq!(plan, Plan { checkpoint: None, keep_before: None, unsafe_steps: vec!["pay".to_owned()] });
    }

    #[test]
    fn from_the_last_checkpoint_nothing_that_was_done_runs_again() {
        let plan = plan(&From::LastCheckpoint, Some(document(&saved())), &[], true).unwrap();
        assert_eq!((made(&plan.checkpoint), plan.keep_before, plan.unsafe_steps.len()), (saved(), Some(i32::MAX), 0));
    }

    #[test]
    fn from_a_step_it_and_what_follows_runs_again() {
        let mail = plan(&From::Step("mail"), Some(document(&saved())), &[], false).unwrap();
        assert_eq!(mail.unsafe_steps, Vec::<String>::new());
        let checkpoint = made(&mail.checkpoint);
        assert_eq!(checkpoint["completed_steps"], json!(["search", "pay"]));
        assert_eq!((checkpoint["step"].clone(), checkpoint["step_index"].clone()), (json!("mail"), json!(2)));
        assert_eq!(checkpoint["intermediate_state"], json!({"n": 1}));
        assert_eq!(plan(&From::Step("pay"), Some(document(&saved())), &[], false).unwrap().unsafe_steps, ["pay"]);
        assert!(
            plan(&From::Step("fly"), Some(document(&saved())), &[], false)
                .unwrap_err()
                .hint
                .contains("search, pay, mail")
        );
        assert!(plan(&From::Step("fly"), None, &[], false).unwrap_err().hint.contains("none"));
    }

    #[test]
    fn a_job_with_external_effects_and_no_list_is_unsafe_as_a_whole() {
        assert_eq!(plan(&From::Beginning, None, &[], true).unwrap().unsafe_steps, ["the job as a whole"]);
        assert_eq!(plan(&From::LastCheckpoint, None, &[], true).unwrap().unsafe_steps.len(), 1);
    }

    #[test]
    fn a_step_is_named_exactly_where_one_is_meant() {
        assert_eq!(From::parse("specific_step", Some("a")).unwrap().name(), "a");
        for (from, step) in [("specific_step", None), ("beginning", Some("a")), ("end", None)] {
            assert!(From::parse(from, step).is_err(), "{from} {step:?}");
        }
    }

    fn recorded(name: &str, position: i32, status: Status, idempotent: bool) -> Recorded {
        Recorded { name: name.to_owned(), position, status, idempotent }
    }

    #[test]
    fn recorded_steps_say_more_than_a_checkpoint() {
        let steps = [
            recorded("search", 1, Status::Done, true),
            recorded("pay", 2, Status::Done, false),
            recorded("mail", 3, Status::Begun, false),
            recorded("note", 4, Status::Failed, false),
        ];
        let kept = |from: From<'_>| plan(&from, None, &steps, true).unwrap();
        let all = kept(From::Beginning);
        assert_eq!((all.keep_before, all.unsafe_steps.join(",")), (None, "pay,mail".to_owned()));
        // What was begun and not ended is taken over as it stands.
        let last = kept(From::LastCheckpoint);
        assert_eq!((last.keep_before, last.unsafe_steps.len()), (Some(i32::MAX), 0));
        let mail = kept(From::Step("mail"));
        assert_eq!((mail.keep_before, mail.unsafe_steps.join(",")), (Some(3), "mail".to_owned()));
        let note = kept(From::Step("note"));
        assert_eq!((note.keep_before, note.unsafe_steps.len()), (Some(4), 0));
        let unknown = plan(&From::Step("fly"), None, &steps, false).unwrap_err();
        assert!(unknown.hint.contains("search, pay, mail, note"), "{}", unknown.hint);
    }

    #[test]
    fn a_checkpoint_goes_back_with_the_recorded_steps() {
        let steps = [
            recorded("search", 1, Status::Done, true),
            recorded("sum up", 2, Status::Done, true),
            recorded("pay", 3, Status::Done, true),
        ];
        let saved = json!({"completed_steps": ["search", "pay"], "intermediate_state": 7});
        let plan = plan(&From::Step("sum up"), Some(document(&saved)), &steps, false).unwrap();
        assert_eq!(plan.keep_before, Some(2));
        let checkpoint = made(&plan.checkpoint);
        assert_eq!((&checkpoint["completed_steps"], &checkpoint["step_index"]), (&json!(["search"]), &json!(1)));
    }
}
