//! The governance room, over real connections.

mod loops;
mod ops_loop;
mod policies;
mod proposals;
mod reactions;
mod traces;
