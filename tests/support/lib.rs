//! What the tests stand on: private clusters, a database per test, and short ways to ask.

mod cluster;
mod database;

pub use cluster::{Cluster, Options, Stop, as_server_user, children, pg_bin, project_root};
pub use database::{Database, Session, database, shared_cluster};
pub use serde_json::{Value, json};
