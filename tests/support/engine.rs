//! A cluster with the engine at work, and short ways to ask about it.

use crate::cluster::{Cluster, Options};
use crate::database::{Database, Session};
use crate::patience::{eventually, eventually_or};
use std::sync::OnceLock;

/// A server with the engine on, and these settings beside.
pub fn engine_cluster(name: &str, settings: &[&str]) -> Cluster {
    let settings = settings.iter().map(|line| (*line).to_owned()).collect();
    let cluster = Cluster::start(name, &Options { engine: true, settings, ..Options::default() });
    cluster.make_template();
    cluster
}

/// The cluster that most tests of the engine share.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| engine_cluster("engine", &["max_worker_processes = 200", "agentq.sql_workers = 2"]))
}

/// A new database whose engine runs.
pub fn database() -> Database<'static> {
    running(shared().database())
}

/// Returns the database once its engine runs.
pub fn running(db: Database<'_>) -> Database<'_> {
    // The first call in a database tells the launcher of it.
    db.session().call("fn_config_get('queue.worker.enabled')");
    eventually_or(
        "the engine runs",
        || mode(&db) == "running",
        || {
            let log = db.cluster.log();
            let last: Vec<&str> = log.lines().rev().take(30).collect();
            format!("{:?}\n{last:#?}", db.session().texts("SELECT v::text FROM agentq.v_engine_status v"))
        },
    );
    db
}

pub fn mode(db: &Database<'_>) -> String {
    db.session().text("SELECT mode FROM agentq.v_engine_status")
}

pub fn worker_pid(s: &mut Session) -> String {
    s.text("SELECT worker_pid FROM agentq.v_engine_status")
}

/// Waits until the engine has gone through all that it does once more: what was to be told or done before is.
#[track_caller]
pub fn after_a_turn(s: &mut Session) {
    hurry(s, "reap_leases");
    let before = runs(s, "reap_leases");
    eventually("the engine has had a turn", || runs(s, "reap_leases") > before + 1);
}

/// How often the engine has run a chore.
#[track_caller]
pub fn runs(s: &mut Session, chore: &str) -> i64 {
    let sql = format!("SELECT coalesce(max(runs), 0) FROM agentq.v_engine_chore WHERE chore = '{chore}'");
    s.text(&sql).parse().expect("a number")
}

/// Lets the engine run a chore at once, and every tenth of a second from now on.
pub fn hurry(s: &mut Session, chore: &str) {
    s.call(&format!("fn_engine_chore_set('{chore}', p_every_seconds => 0.1)"));
}
