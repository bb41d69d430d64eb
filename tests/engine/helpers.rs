//! A cluster with the engine at work, and short ways to wait for it.

use agentq_tests::{Cluster, Database, Options, Session, Value};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A server with the engine on, and these settings beside.
pub fn engine_cluster(name: &str, settings: &[&str]) -> Cluster {
    let settings = settings.iter().map(|line| (*line).to_owned()).collect();
    let cluster = Cluster::start(name, &Options { engine: true, settings, ..Options::default() });
    cluster.make_template();
    cluster
}

/// The cluster that most of these tests share.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| engine_cluster("engine", &["max_worker_processes = 200", "agentq.sql_workers = 2"]))
}

/// A new database whose engine runs.
pub fn database() -> Database<'static> {
    running(shared().database())
}

/// The same database, when its engine runs.
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

#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    eventually_or(what, holds, String::new);
}

/// Waits until something holds, and if it never does, fails with more to go on.
#[track_caller]
fn eventually_or(what: &str, mut holds: impl FnMut() -> bool, more: impl Fn() -> String) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "this never happened: {what} {}", more());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets the engine run a chore at once, and every tenth of a second from now on.
pub fn hurry(s: &mut Session, chore: &str) {
    s.call(&format!("fn_engine_chore_set('{chore}', p_every_seconds => 0.1)"));
}

#[track_caller]
pub fn id(answer: &Value) -> String {
    answer["job_id"].as_str().unwrap_or_else(|| panic!("no job_id in {answer}")).to_owned()
}

/// Raised when dropped, also by a failed test, so that threads which watch it come to an end.
pub struct Stop<'a>(pub &'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}
