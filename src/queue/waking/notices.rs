//! What commits have brought and listeners have not been told yet.
//!
//! A NOTIFY takes a lock of the whole server at commit. So a commit only notes here what it brought,
//! and the engine tells the listeners, many commits at a time.

#![allow(unsafe_code, reason = "shared memory")]

use crate::server::my_database;
use crate::shared::{Text, is_preloaded};
use pgrx::prelude::*;
use pgrx::{AssertPGRXSharedMemory, PgLwLock, pg_shmem_init};

/// Kinds of jobs that can wait to be told at once, in the whole server.
const PLACES: usize = 512;
/// The length of a job kind, in bytes.
const LONGEST_KIND: usize = 200;

/// New jobs of one kind in one queue. Without a kind: of several.
#[derive(Clone, Copy)]
pub struct Notice {
    tag: u64,
    database: u32,
    pub queue_id: i32,
    pub jobs: u32,
    kind: Text<LONGEST_KIND>,
}

impl Notice {
    pub fn kind(&self) -> Option<&str> {
        Some(self.kind.as_str()).filter(|kind| !kind.is_empty())
    }
}

const NOTHING: Notice = Notice { tag: 0, database: 0, queue_id: 0, jobs: 0, kind: Text::EMPTY };

#[derive(Clone, Copy)]
struct Pending {
    notices: [Notice; PLACES],
    count: usize,
}

const NONE_PENDING: Pending = Pending { notices: [NOTHING; PLACES], count: 0 };

// SAFETY: the name is agentq's own.
static PENDING: PgLwLock<AssertPGRXSharedMemory<Pending>> = unsafe { PgLwLock::new(c"agentq_notices") };

pub fn init() {
    // SAFETY: the list holds no pointers.
    pg_shmem_init!(PENDING = unsafe { AssertPGRXSharedMemory::new(NONE_PENDING) });
}

/// Notes new jobs. True: this database had nothing to be told before, so the engine must be woken.
pub fn add(tag: u64, queue_id: i32, kind: &str, jobs: usize) -> bool {
    if !is_preloaded() {
        return false;
    }
    let mut pending = PENDING.exclusive();
    let count = pending.count;
    let mut first = true;
    for notice in &mut pending.notices[..count] {
        if notice.database == my_database() {
            if notice.tag == tag {
                notice.jobs = notice.jobs.saturating_add(jobs as u32);
                return false;
            }
            first = false;
        }
    }
    let notice = Notice { tag, database: my_database(), queue_id, jobs: jobs as u32, kind: Text::new(kind) };
    if count < PLACES {
        pending.notices[count] = notice;
        pending.count += 1;
    } else if let Some(other) =
        pending.notices.iter_mut().find(|n| n.database == notice.database && n.queue_id == queue_id)
    {
        // No room: the listeners of the queue are told without a kind.
        other.kind = Text::EMPTY;
        other.tag = 0;
        other.jobs = other.jobs.saturating_add(notice.jobs);
    }
    first
}

/// Takes what the listeners of this database are to be told.
pub fn take() -> Vec<Notice> {
    take_of(my_database())
}

/// Takes what the listeners of a database are to be told, also to forget it when that database is dropped.
pub fn take_of(database: u32) -> Vec<Notice> {
    if !is_preloaded() {
        return Vec::new();
    }
    let mut pending = PENDING.exclusive();
    let mut taken = Vec::new();
    let mut kept = 0;
    for place in 0..pending.count {
        let notice = pending.notices[place];
        if notice.database == database {
            taken.push(notice);
        } else {
            pending.notices[kept] = notice;
            kept += 1;
        }
    }
    pending.count = kept;
    taken
}

/// Whether anything waits to be told in this database.
pub fn any() -> bool {
    let pending = PENDING.share();
    pending.notices[..pending.count].iter().any(|notice| notice.database == my_database())
}
