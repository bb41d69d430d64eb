//! Ids.

use pgrx::Uuid;

/// The low bits of an id, which say nothing about its time.
const RANDOM: u128 = (1 << 62) - 1;

/// A new time-ordered id.
pub fn new_id() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::now_v7().as_bytes())
}

/// New time-ordered ids, one after the other. Made from one, because asking the kernel for chance
/// takes longer than all the rest.
pub fn new_ids() -> impl Iterator<Item = Uuid> {
    let first = uuid::Uuid::now_v7().as_u128();
    (0..).map(move |step| {
        let id = (first & !RANDOM) | (first.wrapping_add(step) & RANDOM);
        Uuid::from_bytes(id.to_be_bytes())
    })
}

/// An id as people write it.
pub struct Text([u8; 36]);

pub fn text(id: Uuid) -> Text {
    let mut text = Text([0; 36]);
    uuid::Uuid::from_bytes(*id.as_bytes()).hyphenated().encode_lower(&mut text.0);
    text
}

impl Text {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn item(&self) -> agentq_core::jsonb::Item<'_> {
        agentq_core::jsonb::Item::Text(&self.0)
    }
}
