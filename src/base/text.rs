//! Texts that callers hand in and that are kept.

use agentq_core::bounds;

/// The beginning of a text, as much of it as is kept.
pub fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(bounds::KEPT)]
}
