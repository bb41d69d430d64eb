//! Where jobs rest, and how they are found there: places, lines of ordering keys, leases, and the marks that say where a
//! scan may begin.

pub mod lease;
pub mod marks;
pub mod order;
pub mod place;
pub mod promote;

pub use lease::{LockedLease, idle, lock_against_rule_change};
pub use place::Place;
