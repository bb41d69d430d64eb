//! The policies that agentq itself goes by: their shapes, bounds and defaults. Any other key is the
//! user's own, and may hold what it likes.

use crate::error::{Refusal, shown};
use crate::input;
use crate::jsonb::Item;
use crate::reaction::Matrix;
use crate::reader::Reader;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub const REACTION_MATRIX: &str = "reaction_matrix";
pub const AUTO_APPROVE: &str = "auto_approve";
pub const PROPOSAL_CAPS: &str = "proposal_caps";
pub const WORKER_POLICY: &str = "worker_policy";
pub const AGENT_ROLES: &str = "agent_roles";
pub const KNOWN: [&str; 5] = [REACTION_MATRIX, AUTO_APPROVE, PROPOSAL_CAPS, WORKER_POLICY, AGENT_ROLES];

/// Where a proposal may come from.
pub const SOURCES: [&str; 4] = ["api", "trigger", "reaction", "manual"];

const MANY: i64 = 1_000_000_000;
/// Kinds, sources or tags that one rule names, and the longest of them.
pub(crate) const MOST_GLOBS: usize = 10_000;
pub(crate) const LONGEST_GLOB: usize = input::LONGEST_KEY;

/// What holds for a key that nobody has set.
pub fn default_of(key: &str) -> Option<Value> {
    Some(match key {
        REACTION_MATRIX => json!([]),
        AUTO_APPROVE => json!({"enabled": false, "allowed_step_kinds": []}),
        PROPOSAL_CAPS => json!({"daily_limit": 1000, "max_steps": 1000}),
        WORKER_POLICY => json!({"lease_minutes": 5, "max_retries": 3, "stale_minutes": 30}),
        AGENT_ROLES => json!({}),
        _ => return None,
    })
}

/// Accepts a value for a key, or says what is wrong with it and where.
pub fn check(key: &str, value: Item<'_>) -> Result<(), Refusal> {
    match key {
        REACTION_MATRIX => Matrix::read(value).map(drop),
        AUTO_APPROVE => AutoApprove::read(value).map(drop),
        PROPOSAL_CAPS => ProposalCaps::read(value).map(drop),
        WORKER_POLICY => WorkerPolicy::read(value).map(drop),
        AGENT_ROLES => check_roles(value),
        _ => Ok(()),
    }
}

/// A value with the defaults of what it leaves out, for the key whose defaults stay in force then.
pub fn completed(key: &str, value: Value) -> Value {
    let (WORKER_POLICY, Value::Object(given), Some(Value::Object(mut whole))) = (key, &value, default_of(key)) else {
        return value;
    };
    whole.extend(
        given.iter().filter(|(_, member)| !member.is_null()).map(|(key, member)| (key.clone(), member.clone())),
    );
    Value::Object(whole)
}

/// How risky a proposal says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    Low,
    Medium,
    High,
    Critical,
}

impl Risk {
    pub const WORDS: [&'static str; 4] = ["low", "medium", "high", "critical"];

    pub fn name(self) -> &'static str {
        Risk::WORDS[self as usize]
    }

    pub fn read(at: Reader<'_>) -> Result<Risk, Refusal> {
        Ok(match at.word(&Risk::WORDS)? {
            "low" => Risk::Low,
            "medium" => Risk::Medium,
            "high" => Risk::High,
            _ => Risk::Critical,
        })
    }
}

/// Which proposals need no person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AutoApprove {
    pub enabled: bool,
    /// Globs; every step must be of such a kind.
    pub allowed_step_kinds: Vec<String>,
    /// None: whatever the risk.
    pub max_risk: Option<Risk>,
    /// None: from wherever.
    pub sources: Option<Vec<String>>,
}

impl AutoApprove {
    pub fn read(value: Item<'_>) -> Result<AutoApprove, Refusal> {
        let at = Reader::open(AUTO_APPROVE, value)?;
        at.object(&["enabled", "allowed_step_kinds", "max_risk", "sources"])?;
        let sources = at.member("sources").read(|sources| {
            sources.list("sources", 0..=MOST_GLOBS)?.map(|source| source.word(&SOURCES).map(str::to_owned)).collect()
        })?;
        Ok(AutoApprove {
            enabled: at.member("enabled").flag()?.unwrap_or(false),
            allowed_step_kinds: at.member("allowed_step_kinds").names(MOST_GLOBS, LONGEST_GLOB)?.unwrap_or_default(),
            max_risk: at.member("max_risk").read(Risk::read)?,
            sources,
        })
    }
}

/// A function of the user's that is asked about each proposal, and whose rights it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub schema: String,
    pub function: String,
    /// None: those of whoever set the policy.
    pub role: Option<String>,
}

/// How many proposals are let through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProposalCaps {
    pub daily_limit: Option<i64>,
    pub per_source: BTreeMap<String, i64>,
    pub max_steps: Option<i64>,
    pub hook: Option<Hook>,
}

impl ProposalCaps {
    pub fn read(value: Item<'_>) -> Result<ProposalCaps, Refusal> {
        let at = Reader::open(PROPOSAL_CAPS, value)?;
        at.object(&["daily_limit", "per_source", "max_steps", "hook"])?;
        let mut per_source = BTreeMap::new();
        if let Some(limits) = at.member("per_source").object(&SOURCES)? {
            for source in SOURCES {
                if let Some(limit) = limits.member(source).whole(0..=MANY)? {
                    per_source.insert(source.to_owned(), limit);
                }
            }
        }
        Ok(ProposalCaps {
            daily_limit: at.member("daily_limit").whole(0..=MANY)?,
            per_source,
            max_steps: at.member("max_steps").whole(1..=MANY)?,
            hook: at.member("hook").read(Hook::read)?,
        })
    }
}

impl Hook {
    fn read(at: Reader<'_>) -> Result<Hook, Refusal> {
        let (name, role) = if at.is_object() {
            at.object(&["function", "role"])?;
            let function = at.member("function").reader();
            let function = function.ok_or_else(|| at.must_be("an object with the key \"function\""))?;
            (function, at.member("role").name(input::LONGEST_NAME)?.map(str::to_owned))
        } else {
            (at, None)
        };
        // Only plain names are accepted: agentq calls what is stored here, so it must not hold other SQL.
        let plain = |part: &&str| {
            let mut letters = part.chars();
            part.len() < 64
                && letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
                && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$')
        };
        let text = name.name(input::LONGEST_NAME)?;
        match text.split_once('.') {
            Some((schema, function)) if plain(&schema) && plain(&function) => {
                Ok(Hook { schema: schema.to_owned(), function: function.to_owned(), role })
            }
            _ => Err(name.refuse(
                format!("\"{}\" is not the name of a function with its schema", shown(text)),
                "Write it as schema.function, in small letters, without arguments. It is called with (template jsonb, source text).",
            )),
        }
    }
}

/// What holds for the steps of missions that proposals start, where a template does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerPolicy {
    pub lease_minutes: f64,
    pub max_retries: i64,
    /// How long a worker may hold a step without progress.
    pub stale_minutes: f64,
}

impl WorkerPolicy {
    pub fn read(value: Item<'_>) -> Result<WorkerPolicy, Refusal> {
        let at = Reader::open(WORKER_POLICY, value)?;
        at.object(&["lease_minutes", "max_retries", "stale_minutes"])?;
        Ok(WorkerPolicy {
            lease_minutes: at.member("lease_minutes").number(0.02..=1440.0)?.unwrap_or(5.0),
            max_retries: at.member("max_retries").whole(0..=999)?.unwrap_or(3),
            stale_minutes: at.member("stale_minutes").number(0.02..=525_600.0)?.unwrap_or(30.0),
        })
    }
}

fn check_roles(value: Item<'_>) -> Result<(), Refusal> {
    let at = Reader::open(AGENT_ROLES, value)?;
    for (role, about) in at.members()? {
        input::name(about.path(), role, input::LONGEST_NAME)?;
        about.map()?;
        about.member("step_kinds").names(MOST_GLOBS, LONGEST_GLOB)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::document;

    fn refusal(key: &str, value: Value) -> String {
        check(key, document(&value)).expect_err(&value.to_string()).message
    }

    #[test]
    fn every_default_is_acceptable_to_its_own_key() {
        for key in KNOWN {
            assert_eq!(check(key, document(&default_of(key).unwrap())), Ok(()), "{key}");
        }
        assert_eq!(default_of("mine"), None);
        assert_eq!(check("mine", document(&json!("anything"))), Ok(()));
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_with_its_path() {
        for (key, value, message) in [
            (PROPOSAL_CAPS, json!({"daily_limit": -1}), "proposal_caps.daily_limit must be a whole number"),
            (
                PROPOSAL_CAPS,
                json!({"per_source": {"mail": 1}}),
                "proposal_caps.per_source has the unknown key \"mail\"",
            ),
            (PROPOSAL_CAPS, json!({"per_source": {"api": "x"}}), "proposal_caps.per_source.api must be"),
            (PROPOSAL_CAPS, json!({"hook": "gate"}), "proposal_caps.hook: \"gate\" is not the name"),
            (PROPOSAL_CAPS, json!({"hook": "a.b(); drop"}), "proposal_caps.hook:"),
            (PROPOSAL_CAPS, json!({"hook": {"role": "x"}}), "proposal_caps.hook must be"),
            (PROPOSAL_CAPS, json!([]), "proposal_caps must be a JSON object"),
            (AUTO_APPROVE, json!({"enabled": "yes"}), "auto_approve.enabled must be true or false"),
            (AUTO_APPROVE, json!({"allowed_step_kinds": [1]}), "auto_approve.allowed_step_kinds[0] must be"),
            (AUTO_APPROVE, json!({"max_risk": "none"}), "auto_approve.max_risk must be one of"),
            (AUTO_APPROVE, json!({"sources": ["web"]}), "auto_approve.sources[0] must be one of"),
            (WORKER_POLICY, json!({"max_retries": 1.5}), "worker_policy.max_retries must be"),
            (WORKER_POLICY, json!({"lease_minutes": 0}), "worker_policy.lease_minutes must be"),
            (AGENT_ROLES, json!({"sage": 1}), "agent_roles.sage must be a JSON object"),
            (AGENT_ROLES, json!({"sage": {"step_kinds": 3}}), "agent_roles.sage.step_kinds must be"),
        ] {
            let found = refusal(key, value);
            assert!(found.starts_with(message), "{found}");
        }
    }

    #[test]
    fn what_a_worker_policy_leaves_out_has_its_default() {
        let set = |value: Value| completed(WORKER_POLICY, value);
        assert_eq!(set(json!({"max_retries": 1})), json!({"lease_minutes": 5, "max_retries": 1, "stale_minutes": 30}));
        assert_eq!(set(json!({"lease_minutes": null})), default_of(WORKER_POLICY).unwrap());
        // What a cap leaves out has no limit.
        assert_eq!(completed(PROPOSAL_CAPS, json!({"max_steps": 2})), json!({"max_steps": 2}));
    }

    #[test]
    fn a_hook_is_a_name_with_a_schema_and_perhaps_a_role() {
        let read = |value: Value| ProposalCaps::read(document(&json!({"hook": value}))).unwrap().hook.unwrap();
        assert_eq!(read(json!("ops.gate")), Hook { schema: "ops".into(), function: "gate".into(), role: None });
        assert_eq!(read(json!({"function": "ops.gate", "role": "g"})).role.as_deref(), Some("g"));
    }
}
