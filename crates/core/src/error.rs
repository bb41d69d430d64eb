//! What a person reads when an argument is not acceptable.

/// A refused input: what was wrong, with which value, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub hint: String,
}

impl Refusal {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// Shortens a value for a message, so that an error never carries a megabyte of input.
pub fn shown(value: &str) -> String {
    const LONGEST: usize = 60;
    if value.chars().count() <= LONGEST {
        value.to_owned()
    } else {
        let head: String = value.chars().take(LONGEST).collect();
        format!("{head}… ({} bytes)", value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_shortened_and_says_its_size() {
        let text = shown(&"x".repeat(5000));
        assert!(text.len() < 100);
        assert!(text.ends_with("(5000 bytes)"));
        assert_eq!(shown("short"), "short");
    }
}
