//! Removes effects that have been kept as long as the settings say and whose jobs are gone. The sweep remembers where
//! it was; effects that stay are passed once per sweep.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::base::settings::Settings;
use crate::flow::effects::clean;
use pgrx::Uuid;
use std::cell::Cell;

/// Effects looked at in one transaction.
const AT_MOST: i64 = 1_000;

pub static CHORE: Chore = Chore {
    name: "clean_effects",
    activity: c"agentq: clean_effects",
    about: "Removes old effects whose jobs have been removed. What waits for a person stays.",
    every_us: 600_000_000,
    run,
};

thread_local!(static SWEPT_TO: Cell<[u8; 16]> = const { Cell::new([0; 16]) });

fn run() -> Outcome {
    let from = Uuid::from_bytes(SWEPT_TO.get());
    let (removed, last) = clean::sweep(&Settings::current(), from, AT_MOST, clock::now());
    SWEPT_TO.set(last.map_or([0; 16], |id| *id.as_bytes()));
    Outcome { rows: removed, next: if last.is_some() { Next::AtOnce } else { Next::AsUsual } }
}
