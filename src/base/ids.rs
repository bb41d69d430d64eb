//! Ids: new ones, those that callers hand in, and what an id says of its time and its node.

use super::clock::{self, Micros};
use agentq_core::id::{self, LAST_NODE, Maker};
use pgrx::prelude::*;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, Uuid};
use std::cell::Cell;
use std::time::SystemTime;

/// The number of this server among those that share work.
static NODE: GucSetting<i32> = GucSetting::<i32>::new(0);

thread_local!(static MAKER: Cell<Maker> = Cell::new(Maker::default()));

pub fn init() {
    GucRegistry::define_int_guc(
        c"agentq.node",
        c"The number of this server among those that share work: the low 10 bits of every id that it makes.",
        c"Ids are for ever: choose it before the first job, a different one for each server; a server and its standbys have one. agentq.fn_node_of(id) reads it.",
        &NODE,
        0,
        i32::from(LAST_NODE),
        GucContext::Sighup,
        GucFlags::default(),
    );
}

/// A new time-ordered id. It can be guessed: what is to be kept secret is a token.
pub fn new_id() -> Uuid {
    let mut maker = MAKER.get();
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let id = maker.next(since_1970.as_millis() as u64, NODE.get() as u16, || uuid::Uuid::new_v4().as_u64_pair().1 << 2);
    MAKER.set(maker);
    Uuid::from_bytes(id)
}

/// New time-ordered ids, one after the other.
pub fn new_ids() -> impl Iterator<Item = Uuid> {
    std::iter::repeat_with(new_id)
}

/// Something that nobody can guess.
pub fn new_token() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}

/// A number from 0 to 1.
pub fn chance() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

#[pg_extern(immutable, parallel_safe, strict)]
fn fn_node_of(p_id: Uuid) -> Option<i32> {
    id::node_of(*p_id.as_bytes()).map(i32::from)
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
