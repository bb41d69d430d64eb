//! Behind a pooler in transaction mode, where every statement may meet another session.

#![allow(unsafe_code, reason = "tying the pooler's life to the tests'")]

use agentq_tests::{Database, Session, Value, as_server_user, database, eventually_or, free_port, id};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A pgbouncer with two connections to one database. Gone when dropped.
struct Pooler {
    port: u16,
    folder: PathBuf,
    process: Child,
}

impl Pooler {
    fn start(db: &Database<'_>) -> Pooler {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"]
            .into_iter()
            .find(|path| Path::new(path).exists())
            .expect(
                "pgbouncer is not installed: install the Debian package pgbouncer, or run scripts/bootstrap --test",
            );
        let port = free_port();
        let folder = db.cluster.data.with_file_name(format!("pooler-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the pooler");
        let settings = folder.join("pgbouncer.ini");
        let text = format!(
            "[databases]\n{name} = host=127.0.0.1 port={server} user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 50\n",
            name = db.name,
            server = db.cluster.port,
        );
        std::fs::write(&settings, text).expect("the settings can be written");
        let log = std::fs::File::create(folder.join("log")).expect("a log file");
        let mut command = as_server_user(program);
        command.arg(&settings).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // SAFETY: prctl is async-signal-safe and touches only the child.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let process = command.spawn().expect("pgbouncer starts");
        let pooler = Pooler { port, folder, process };
        let log = || std::fs::read_to_string(pooler.folder.join("log")).unwrap_or_default();
        eventually_or("pgbouncer comes up", || pooler.connect(&db.name).is_ok(), log);
        pooler
    }

    fn connect(&self, database: &str) -> Result<postgres::Client, postgres::Error> {
        let url = format!("host=127.0.0.1 port={} user=postgres dbname={database}", self.port);
        postgres::Client::connect(&url, postgres::NoTls)
    }

    fn session(&self, db: &Database<'_>) -> Session {
        Session(self.connect(&db.name).expect("the pooler accepts"))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// The answer of a call in the simple protocol: a prepared statement would be lost on the way.
#[track_caller]
fn call(s: &mut Session, call: &str) -> Value {
    serde_json::from_str(&s.text(&format!("SELECT agentq.{call}"))).expect("an answer is JSON")
}

const CLIENTS: usize = 8;
const JOBS_EACH: usize = 25;

/// What one client does: enqueues its share, then works until nothing is left. Returns what it did, and on which
/// connections of the server.
fn work(s: &mut Session, me: &str) -> (Vec<String>, BTreeSet<String>) {
    let mut servers = BTreeSet::new();
    for number in 0..JOBS_EACH {
        let made = call(s, &format!("fn_job_enqueue('pooled', '{me}-{number}', p_priority => {})", number % 3));
        assert_eq!(made["code"], "enqueued");
    }
    let mut done = Vec::new();
    loop {
        let claimed = call(s, &format!("fn_job_claim('{me}', 'pooled')"));
        if claimed["code"] == "empty" {
            return (done, servers);
        }
        servers.insert(s.text("SELECT pg_backend_pid()"));
        let job = id(&claimed);
        let token = claimed["lease_token"].as_str().expect("a token").to_owned();
        let beat = call(s, &format!("fn_job_heartbeat('{job}', '{me}', 60, p_lease_token => '{token}')"));
        assert_eq!(beat["code"], "extended", "{beat}");
        let acked = call(s, &format!("fn_job_ack('{job}', '{me}', p_lease_token => '{token}')"));
        assert_eq!(acked["code"], "succeeded", "{acked}");
        done.push(job);
    }
}

#[test]
fn eight_clients_on_two_connections_do_every_job_once() {
    let db = database();
    let pooler = Pooler::start(&db);
    let worked: Vec<(Vec<String>, BTreeSet<String>)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut s = pooler.session(&db);
                scope.spawn(move || work(&mut s, &format!("client-{number}")))
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client finishes")).collect()
    });
    let done: Vec<&String> = worked.iter().flat_map(|(done, _)| done).collect();
    assert_eq!(done.len(), CLIENTS * JOBS_EACH, "every job was done");
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), done.len(), "and none twice");
    let mut s = db.session();
    assert_eq!(s.count("agentq.job_queue WHERE state = 'succeeded' AND attempts = 0"), done.len() as i64);
    assert_eq!(s.count("agentq.job_attempt WHERE outcome = 'succeeded'"), done.len() as i64);
    let servers: BTreeSet<&String> = worked.iter().flat_map(|(_, servers)| servers).collect();
    assert!((1..=2).contains(&servers.len()), "the clients shared these connections: {servers:?}");
    db.assert_sound();
}

#[test]
fn a_setting_changed_through_one_connection_holds_on_the_other() {
    let db = database();
    let pooler = Pooler::start(&db);
    let (mut one, mut two) = (pooler.session(&db), pooler.session(&db));
    for seconds in [300, 60, 61] {
        if seconds != 300 {
            call(&mut one, &format!("fn_config_set('queue.lease.duration_sec', '{seconds}')"));
        }
        // A transaction keeps its connection, so that the two read through different ones.
        for s in [&mut one, &mut two] {
            s.run("BEGIN");
            assert_eq!(call(s, "fn_config_get('queue.lease.duration_sec')"), seconds);
        }
        let backend = "SELECT pg_backend_pid()";
        assert_ne!(one.text(backend), two.text(backend));
        for s in [&mut one, &mut two] {
            s.run("COMMIT");
        }
    }
}

#[test]
fn a_transaction_over_several_calls_commits_or_goes_as_a_whole() {
    let db = database();
    let pooler = Pooler::start(&db);
    let mut s = pooler.session(&db);
    s.run("BEGIN");
    let job = id(&call(&mut s, "fn_job_enqueue('a')"));
    assert_eq!(id(&call(&mut s, "fn_job_claim('w')")), job);
    s.run("ROLLBACK");
    assert_eq!(call(&mut s, "fn_job_claim('w')")["code"], "empty", "nothing of it is left");
    s.run("BEGIN");
    let job = id(&call(&mut s, "fn_job_enqueue('a')"));
    s.run("COMMIT");
    assert_eq!(id(&call(&mut s, "fn_job_claim('w')")), job);
    db.assert_sound();
}
