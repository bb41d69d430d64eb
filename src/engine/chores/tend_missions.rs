//! Ends missions that are late, takes back what stopped ones have left, and removes old ones.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::base::settings::Settings;
use crate::flow::missions::tend;

pub static CHORE: Chore = Chore {
    name: "tend_missions",
    activity: c"agentq: tend_missions",
    about: "Ends missions that have run out of time, takes back jobs of stopped ones, and removes old ones.",
    every_us: 1_000_000,
    run,
};

fn run() -> Outcome {
    let (rows, more) = tend::once(clock::now(), Settings::current().keep_seconds);
    Outcome { rows, next: if more { Next::AtOnce } else { Next::AsUsual } }
}
