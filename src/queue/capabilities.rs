//! Capabilities: what workers announce, and what jobs require.

use agentq_core::{Refusal, input, line};
use serde_json::Value;

/// Capabilities that a worker may announce, at most.
const MOST_CAPABILITIES: usize = 1_000;

/// Reads a list of capabilities: sorted, each once.
pub fn capabilities(what: &str, value: &Value) -> Result<Vec<String>, Refusal> {
    let wrong = || {
        Refusal::new(
            format!(
                "{what} must be a list of names without commas and |, not {}",
                agentq_core::error::shown(&value.to_string())
            ),
            format!("For example: {{\"{what}\": [\"gpu\", \"browser\"]}}."),
        )
    };
    let mut names: Vec<String> = serde_json::from_value(value.clone()).map_err(|_| wrong())?;
    names.sort();
    names.dedup();
    if names.len() > MOST_CAPABILITIES {
        return Err(Refusal::new(
            format!("{what} has {} names, more than the {MOST_CAPABILITIES} allowed", names.len()),
            "Give a combination of capabilities a name of its own.",
        ));
    }
    for name in &names {
        input::name("a capability", name, line::LONGEST_NEEDS)?;
        if name.contains([',', '|']) {
            return Err(wrong());
        }
    }
    if what == "requires" && names.join(",").len() > line::LONGEST_NEEDS {
        return Err(Refusal::new(
            format!("the capabilities that a job requires are longer than {} bytes", line::LONGEST_NEEDS),
            "Give the combination a name of its own, and announce that.",
        ));
    }
    Ok(names)
}
