//! Where a replay begins, and whether it is safe.
//!
//! A checkpoint may list the steps that are done (`completed_steps`, in order) and those that must not
//! be run twice (`non_idempotent_steps`).

use crate::error::{Refusal, shown};
use serde_json::{Value, json};

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

/// What a replay starts with.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub checkpoint: Option<Value>,
    /// What would run again though it must not.
    pub unsafe_steps: Vec<String>,
}

fn names(checkpoint: Option<&Value>, key: &str) -> Vec<String> {
    let list = checkpoint.and_then(|checkpoint| checkpoint.get(key)).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// `external_effects`: the job as a whole has effects that must not happen twice.
pub fn plan(from: &From<'_>, checkpoint: Option<&Value>, external_effects: bool) -> Result<Plan, Refusal> {
    let done = names(checkpoint, "completed_steps");
    let begin_at = match from {
        From::Beginning => 0,
        From::LastCheckpoint => done.len(),
        From::Step(step) => done.iter().position(|name| name == step).ok_or_else(|| {
            let known = if done.is_empty() { "none".to_owned() } else { done.join(", ") };
            Refusal::new(
                format!("the job's checkpoint does not say that the step \"{}\" was done", shown(step)),
                format!("Steps that were done: {known}."),
            )
        })?,
    };
    let again = &done[begin_at..];
    let delicate = names(checkpoint, "non_idempotent_steps");
    let mut unsafe_steps: Vec<String> = again.iter().filter(|step| delicate.contains(step)).cloned().collect();
    // With a list of steps that are delicate, the others are not; without, the whole job is.
    if external_effects && delicate.is_empty() {
        unsafe_steps.push("the job as a whole".to_owned());
    }
    let checkpoint = match from {
        From::Beginning => None,
        From::LastCheckpoint => checkpoint.cloned(),
        From::Step(step) => checkpoint.cloned().map(|mut checkpoint| {
            checkpoint["completed_steps"] = json!(done[..begin_at]);
            checkpoint["step"] = json!(step);
            checkpoint["step_index"] = json!(begin_at);
            checkpoint
        }),
    };
    Ok(Plan { checkpoint, unsafe_steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Value {
        json!({"completed_steps": ["search", "pay", "mail"], "non_idempotent_steps": ["pay"], "intermediate_state": {"n": 1}})
    }

    #[test]
    fn from_the_beginning_everything_runs_again() {
        let plan = plan(&From::Beginning, Some(&saved()), false).unwrap();
        assert_eq!(plan, Plan { checkpoint: None, unsafe_steps: vec!["pay".to_owned()] });
    }

    #[test]
    fn from_the_last_checkpoint_nothing_that_was_done_runs_again() {
        let plan = plan(&From::LastCheckpoint, Some(&saved()), true).unwrap();
        assert_eq!(plan, Plan { checkpoint: Some(saved()), unsafe_steps: vec![] });
    }

    #[test]
    fn from_a_step_it_and_what_follows_runs_again() {
        let mail = plan(&From::Step("mail"), Some(&saved()), false).unwrap();
        assert_eq!(mail.unsafe_steps, Vec::<String>::new());
        let checkpoint = mail.checkpoint.unwrap();
        assert_eq!(checkpoint["completed_steps"], json!(["search", "pay"]));
        assert_eq!((checkpoint["step"].clone(), checkpoint["step_index"].clone()), (json!("mail"), json!(2)));
        assert_eq!(checkpoint["intermediate_state"], json!({"n": 1}));
        assert_eq!(plan(&From::Step("pay"), Some(&saved()), false).unwrap().unsafe_steps, ["pay"]);
        assert!(plan(&From::Step("fly"), Some(&saved()), false).unwrap_err().hint.contains("search, pay, mail"));
        assert!(plan(&From::Step("fly"), None, false).unwrap_err().hint.contains("none"));
    }

    #[test]
    fn a_job_with_external_effects_and_no_list_is_unsafe_as_a_whole() {
        assert_eq!(plan(&From::Beginning, None, true).unwrap().unsafe_steps, ["the job as a whole"]);
        assert_eq!(plan(&From::LastCheckpoint, None, true).unwrap().unsafe_steps.len(), 1);
    }

    #[test]
    fn a_step_is_named_exactly_where_one_is_meant() {
        assert_eq!(From::parse("specific_step", Some("a")).unwrap().name(), "a");
        for (from, step) in [("specific_step", None), ("beginning", Some("a")), ("end", None)] {
            assert!(From::parse(from, step).is_err(), "{from} {step:?}");
        }
    }
}
