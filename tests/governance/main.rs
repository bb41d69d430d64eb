//! The governance room, over real connections.

#[path = "../queue/helpers.rs"]
#[allow(dead_code, reason = "shared with the tests of other rooms")]
mod helpers;

mod loops;
mod ops_loop;
mod policies;
mod proposals;
mod reactions;
