//! The growth curves: what grows, over which levels.

use super::stock::{Stock, ready};
use crate::calls::Claiming;
use crate::systems::{AGENTQ, TEXTBOOK};

pub const BACKLOG: &str = "ready jobs";
pub const FUTURE: &str = "future jobs";
pub const FINISHED: &str = "finished jobs";
pub const KINDS: &str = "kinds, asking for one";
pub const ANY_KIND: &str = "kinds, asking for any";
pub const PRIORITIES: &str = "priorities";
pub const MANY_PRIORITIES: &str = "priorities of 1M jobs";
pub const PAYLOAD: &str = "payload bytes";
pub const LEASES: &str = "jobs in work";
pub const DEAD: &str = "dead rows under an old snapshot";
pub const CLIENTS: &str = "clients";

/// Ready jobs beside what grows, when it is not they that grow.
const SOME: u32 = 50_000;
const MANY: u32 = 100_000;

/// Something that grows.
pub struct Curve {
    pub name: &'static str,
    pub systems: &'static [&'static str],
    pub levels: Vec<Level>,
    pub claiming: Claiming,
}

pub struct Level {
    /// How much there is of what grows.
    pub size: u32,
    pub stock: Stock,
    pub clients: u32,
}

/// The clients that work while the stock grows.
const WORKERS: u32 = 4;

fn curve(name: &'static str, sizes: &[u32], stock: impl Fn(u32) -> Stock) -> Curve {
    let level = |&size: &u32| Level { size, stock: stock(size), clients: WORKERS };
    Curve { name, systems: &[AGENTQ], levels: sizes.iter().map(level).collect(), claiming: Claiming::OneKind }
}

pub fn quick() -> Vec<Curve> {
    vec![
        Curve { systems: &[AGENTQ, TEXTBOOK], ..curve(BACKLOG, &[1_000, 100_000], ready) },
        curve(FUTURE, &[0, 100_000], future),
    ]
}

pub fn full() -> Vec<Curve> {
    let from_none = [0, 10_000, 100_000, 1_000_000];
    let kinds = [1, 10, 100, 1_000];
    vec![
        Curve { systems: &[AGENTQ, TEXTBOOK], ..curve(BACKLOG, &[1_000, 10_000, 100_000, 1_000_000], ready) },
        curve(FUTURE, &from_none, future),
        curve(FINISHED, &from_none, |finished| Stock { finished, ..ready(SOME) }),
        curve(KINDS, &kinds, of_kinds),
        Curve { claiming: Claiming::AnyKind, ..curve(ANY_KIND, &kinds, of_kinds) },
        curve(PRIORITIES, &[1, 2, 5, 10], |priorities| Stock { priorities, ..ready(MANY) }),
        curve(MANY_PRIORITIES, &[1, 10], |priorities| Stock { priorities, ..ready(1_000_000) }),
        curve(PAYLOAD, &[200, 1_000, 4_000], |bytes| Stock { payload_bytes: bytes as usize, ..ready(SOME) }),
        curve(LEASES, &[0, 1_000, 10_000, 100_000], |leased| Stock { leased, ..ready(SOME) }),
        curve(DEAD, &[0, 10_000_000], |dead| Stock { dead, ..ready(SOME) }),
        Curve {
            systems: &[AGENTQ, TEXTBOOK],
            levels: [1, 2, 4, 8, 16, 32, 64].map(|clients| Level { size: clients, stock: ready(MANY), clients }).into(),
            ..curve(CLIENTS, &[], ready)
        },
    ]
}

fn future(future: u32) -> Stock {
    Stock { future, ..ready(SOME) }
}

fn of_kinds(kinds: u32) -> Stock {
    Stock { kinds, ..ready(MANY) }
}
