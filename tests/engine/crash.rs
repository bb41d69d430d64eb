//! kill -9 under load: of the engine's worker, of a claiming session, of the whole server.

use agentq_tests::engine::{engine_cluster, running, worker_pid};
use agentq_tests::process::RaiseAtEnd;
use agentq_tests::{Cluster, Database, eventually};
use postgres::{Client, NoTls};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Producers and workers that go on through lost connections, and what was confirmed to them.
struct Load<'a> {
    url: String,
    stop: &'a AtomicBool,
    enqueued: Mutex<HashSet<String>>,
    acked: Mutex<Vec<String>>,
}

impl Load<'_> {
    fn connect(&self) -> Option<Client> {
        while !self.stop.load(SeqCst) {
            if let Ok(client) = Client::connect(&self.url, NoTls) {
                return Some(client);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }

    /// How many enqueues and how many acks were confirmed.
    fn confirmed(&self) -> (usize, usize) {
        (self.enqueued.lock().expect("unpoisoned").len(), self.acked.lock().expect("unpoisoned").len())
    }

    /// Waits until there was a good deal more work.
    fn goes_on(&self) {
        let (enqueued, acked) = self.confirmed();
        eventually("there is work", || {
            let now = self.confirmed();
            now.0 > enqueued + 200 && now.1 > acked + 100
        });
    }

    fn produce(&self) {
        while let Some(mut client) = self.connect() {
            while !self.stop.load(SeqCst) {
                let Ok(row) = client.query_one("SELECT agentq.fn_job_enqueue('x')->>'job_id'", &[]) else { break };
                self.enqueued.lock().expect("unpoisoned").insert(row.get(0));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    fn work(&self, name: &str) {
        while let Some(mut client) = self.connect() {
            while !self.stop.load(SeqCst) {
                let claim = format!(
                    "SELECT c->>'job_id', c->>'lease_token' FROM agentq.fn_job_claim('{name}', 'x', 2, p_wait => '0.5 s') c"
                );
                let Ok(row) = client.query_one(&claim, &[]) else { break };
                let (Some(job), Some(token)) = (row.get::<_, Option<String>>(0), row.get::<_, Option<String>>(1))
                else {
                    continue;
                };
                let ack = format!("SELECT agentq.fn_job_ack('{job}', '{name}', p_lease_token => '{token}')->>'code'");
                let Ok(row) = client.query_one(&ack, &[]) else { break };
                if row.get::<_, String>(0) == "succeeded" {
                    self.acked.lock().expect("unpoisoned").push(job);
                }
            }
        }
    }
}

/// Runs load while `disturb` does its worst, then checks that nothing was lost or done twice.
fn survives(cluster: &mut Cluster, database: &str, disturb: impl FnOnce(&mut Cluster)) {
    let stop = AtomicBool::new(false);
    let load = Load { url: cluster.url(database), stop: &stop, enqueued: Mutex::default(), acked: Mutex::default() };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| load.produce());
        }
        for name in ["w1", "w2", "w3"] {
            let load = &load;
            scope.spawn(move || load.work(name));
        }
        let _stop = RaiseAtEnd(&stop);
        load.goes_on();
        disturb(cluster);
        load.goes_on();
    });
    let db = running(Database { cluster, name: database.to_owned() });
    let mut s = db.session();
    let (enqueued, acked) = (load.enqueued.into_inner().expect("fine"), load.acked.into_inner().expect("fine"));
    let there: HashSet<String> = s.texts("SELECT job_id FROM agentq_internal.job").into_iter().collect();
    assert!(enqueued.is_subset(&there), "confirmed jobs are lost");
    let done: HashSet<String> =
        s.texts("SELECT job_id FROM agentq.job_queue WHERE state = 'succeeded'").into_iter().collect();
    assert!(acked.iter().all(|job| done.contains(job)), "confirmed acks are lost");
    assert_eq!(acked.iter().collect::<HashSet<_>>().len(), acked.len(), "a job was acked twice");
    // What was held when its worker died comes back by itself, without a claim.
    eventually("the engine recovers every lease", || s.count("agentq_internal.job_lease") == 0);
    db.assert_sound();
    std::mem::forget(db);
}

fn kill_9(pid: &str) {
    assert!(std::process::Command::new("kill").args(["-9", pid]).status().expect("kill").success());
}

#[test]
fn kill_9_of_the_engines_worker_loses_nothing() {
    let mut cluster = engine_cluster("kill-worker", &[]);
    let db = named(&cluster);
    survives(&mut cluster, &db.clone(), |cluster| kill_9(&worker_pid(&mut cluster.session(&db))));
}

#[test]
fn kill_9_of_a_claiming_session_loses_nothing() {
    let mut cluster = engine_cluster("kill-session", &[]);
    let db = named(&cluster);
    survives(&mut cluster, &db.clone(), |cluster| {
        let mut s = cluster.session(&db);
        let claiming = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%fn_job_claim%' AND pid <> pg_backend_pid()";
        let mut found = None;
        eventually("somebody claims", || {
            found = s.texts(claiming).into_iter().next();
            found.is_some()
        });
        kill_9(&found.expect("a session"));
    });
}

#[test]
fn kill_9_of_the_whole_server_loses_nothing() {
    let mut cluster = engine_cluster("kill-server", &[]);
    let db = named(&cluster);
    survives(&mut cluster, &db, Cluster::crash_and_restart);
}

/// The name of a new database whose engine runs.
fn named(cluster: &Cluster) -> String {
    let db = running(cluster.database());
    let name = db.name.clone();
    std::mem::forget(db);
    name
}
