//! Texts that callers hand in and that are kept.

/// Errors, reasons and notes are kept up to this length, so that nobody fills the disk with stack traces.
const LONGEST_KEPT: usize = 65_536;

/// The beginning of a text, as much of it as is kept.
pub fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_KEPT)]
}
