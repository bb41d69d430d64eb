//! What a person reads when an argument is not acceptable.

/// A refused input: what was wrong, with which value, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub hint: String,
}

impl Refusal {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: clipped(message.into()), hint: clipped(hint.into()) }
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

/// A text for people, cut where nobody would read on: whatever value got into it whole, it stays short.
pub fn clipped(text: String) -> String {
    const LONGEST: usize = 3_000;
    if text.len() <= LONGEST {
        return text;
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… ({} bytes)", &text[..end], text.len())
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

    #[test]
    fn a_refusal_is_short_whatever_got_into_it() {
        let refusal = Refusal::new("é".repeat(100_000), "x".repeat(100_000));
        assert!(refusal.message.len() < 3_100 && refusal.hint.len() < 3_100);
        assert!(refusal.message.ends_with("é… (200000 bytes)"));
        assert_eq!(Refusal::new("a", "b"), Refusal { message: "a".to_owned(), hint: "b".to_owned() });
    }
}
