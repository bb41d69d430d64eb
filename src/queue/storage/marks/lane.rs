//! The names of lanes, and the numbers by which shared memory knows them.

use crate::server::my_database;
use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Names a lane: jobs of a queue (of one kind, or of any) that are ready or stand in a line, all that wait for their
/// time, all leases, or all ordering keys without a head.
#[derive(Clone, Copy, Hash)]
pub enum LaneName<'a> {
    Kind(i32, &'a str),
    Any(i32),
    /// Jobs of a queue, of one kind or any, that stand in a line.
    InLine(&'a str, i32, Option<&'a str>),
    Waiting,
    Leases,
    /// Ordering keys whose head has finished, and that have no other yet.
    Heads,
}

/// The tags of the lanes of one queue and kind, and of any kind: a session has mostly to do with one of them.
struct Tags {
    database: u32,
    queue_id: i32,
    kind: String,
    of_kind: u64,
    of_any: u64,
}

thread_local!(static TAGS: RefCell<Option<Tags>> = const { RefCell::new(None) });

impl LaneName<'_> {
    /// The number of the lane: never 0.
    pub fn tag(self) -> u64 {
        let database = my_database();
        TAGS.with_borrow_mut(|kept| {
            let here = |tags: &&mut Tags, queue_id: i32| tags.database == database && tags.queue_id == queue_id;
            match (self, kept.as_mut()) {
                (LaneName::Kind(queue_id, kind), Some(tags)) if here(&tags, queue_id) && tags.kind == kind => {
                    tags.of_kind
                }
                (LaneName::Any(queue_id), Some(tags)) if here(&tags, queue_id) => tags.of_any,
                (LaneName::Kind(queue_id, kind), _) => {
                    let (of_kind, of_any) = (self.hashed(), LaneName::Any(queue_id).hashed());
                    *kept = Some(Tags { database, queue_id, kind: kind.to_owned(), of_kind, of_any });
                    of_kind
                }
                _ => self.hashed(),
            }
        })
    }

    fn hashed(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        my_database().hash(&mut hasher);
        self.hash(&mut hasher);
        hasher.finish().max(1)
    }
}
