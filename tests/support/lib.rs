//! What the tests stand on: private clusters, a database per test, and short ways to ask.

mod answers;
mod cluster;
mod database;
pub mod dice;
mod ear;
pub mod engine;
mod jobs;
pub mod net;
mod next_version;
mod patience;
pub mod process;
pub mod programs;
mod writes;

pub use answers::{expect, id, text, token};
pub use cluster::{
    Cluster, Options, Stop, as_server_user, children, free_port, major, old_pg_bin, pg_bin, project_root,
};
pub use database::{Database, Failure, Session, database, shared_cluster};
pub use ear::heard;
pub use jobs::{attempts, claimed, drain, enqueue_all, is_told, waiting_claim};
pub use next_version::{CURRENT, extension_folder, next_version, previous_version};
pub use patience::{
    PATIENCE, eventually, eventually_or, sooner_than, timed, until_lock_waits, until_someone_waits, until_waiting,
};
pub use serde_json::{Value, json};
pub use writes::{assert_unwritten, everything, refusal, refuse, refused};
