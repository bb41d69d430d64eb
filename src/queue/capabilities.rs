//! Capabilities: what workers announce, and what jobs require.

use agentq_core::reader::Reader;
use agentq_core::{Refusal, bounds, line};

/// Capabilities that a worker may announce, or a job require.
const MOST_CAPABILITIES: usize = bounds::CAPABILITIES;

/// Reads a list of capabilities: sorted, each once.
pub fn capabilities(at: Reader<'_>) -> Result<Vec<String>, Refusal> {
    let at = at.hint("Give a list of names without commas and |, as in [\"gpu\", \"browser\"].");
    let mut names = Vec::new();
    for name in at.list("names", 0..=MOST_CAPABILITIES)? {
        let text = name.name(line::LONGEST_NEEDS)?;
        if text.contains([',', '|']) {
            return Err(name.must_be("a name without commas and |"));
        }
        names.push(text.to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Reads the capabilities that a job requires.
pub fn required_capabilities(at: Reader<'_>) -> Result<Vec<String>, Refusal> {
    let names = capabilities(at.clone())?;
    if names.join(",").len() > line::LONGEST_NEEDS {
        return Err(at.refuse(
            format!("the capabilities that a job requires are longer than {} bytes", line::LONGEST_NEEDS),
            "Give the combination a name of its own, and announce that.",
        ));
    }
    Ok(names)
}
