//! The engine room: a server with its background workers on, and what they do by themselves.

mod chores;
mod crash;
mod handlers;
mod held_up;
mod launcher;
mod memory;
mod notify;
mod prepared;
mod schedules;
mod strangers;
mod tick;
mod timers;
mod waiting;
