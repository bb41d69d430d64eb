//! Ids: new ones, those that callers hand in, and what an id says of its time.

use super::clock::{self, Micros};
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

const UNIX_TO_SERVER_EPOCH_MS: i64 = 946_684_800_000;

/// An id in its usual form, which the server reads too.
pub fn parse_id(text: &str) -> Option<Uuid> {
    let id = uuid::Uuid::try_parse(text).ok().filter(|_| text.len() == 36)?;
    Some(Uuid::from_bytes(*id.as_bytes()))
}

/// No job that finished before this moment has a larger id, since ids carry the time at which their
/// job was made: there a purge may stop. A session with a moved clock reads to the end.
pub fn youngest_id(at: Micros) -> Uuid {
    let mut id = [0xff; 16];
    if !clock::is_shifted() {
        let ms = (at / 1000 + UNIX_TO_SERVER_EPOCH_MS).max(0) as u64;
        id[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
    }
    Uuid::from_bytes(id)
}

/// When an id was made, in microseconds of the server's.
pub fn made_at(id: Uuid) -> Micros {
    let mut ms = [0; 8];
    ms[2..].copy_from_slice(&id.as_bytes()[..6]);
    (i64::from_be_bytes(ms) - UNIX_TO_SERVER_EPOCH_MS) * 1_000
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
