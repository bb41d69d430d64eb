//! The network is cut under load, and heals. What is sent across a cut is dropped without a word, as by a router that has died.

use crate::load::{DATABASE, Load};
use crate::pair::Pair;
use agentq_tests::net::{Net, Node};
use agentq_tests::{Session, Stop, eventually};
use std::io::Write;
use std::time::{Duration, Instant};

/// A network with a synchronous pair, and a load that is at a node of its own.
struct Scene<'n> {
    net: &'n Net,
    clients: &'n Node,
    one: &'n Node,
    two: &'n Node,
    load: Load,
    pair: Pair,
}

/// Runs a test at the node of the clients. Where there can be no network it says so, and leaves the test out.
fn with_a_network(name: &str, test: impl FnOnce(Scene<'_>) + Send) {
    let net = match Net::new(3) {
        Ok(net) => net,
        Err(why) => {
            // Not by println!, of which nobody sees anything when a test passes.
            writeln!(std::io::stderr(), "LEFT OUT: cuts of the network ({name}): {why}").ok();
            return;
        }
    };
    let [clients, one, two] = [0, 1, 2].map(|n| net.node(n));
    clients.within(|| {
        let pair = Pair::at(name, [one, two]);
        pair.make_synchronous();
        let load = Load::prepare(name, &pair);
        test(Scene { net: &net, clients, one, two, load, pair });
    });
}

impl Scene<'_> {
    /// Waits for the next acks, and says how long that took.
    #[track_caller]
    fn goes_on(&mut self, since: Instant, what: &str) {
        self.load.work(1);
        println!("the next ack was confirmed {:.2} s after {what}", since.elapsed().as_secs_f64());
        self.load.work(100);
    }

    /// Nothing is lost or held twice, and the rest can be done.
    #[track_caller]
    fn assert_whole(&mut self) {
        self.load.assert_nothing_lost(&self.pair);
        assert_eq!(self.load.drain(&self.pair), [], "nothing is left when all is done");
        self.load.assert_nothing_lost(&self.pair);
        let events = self.pair.primary.session(DATABASE).call("fn_event_verify()");
        assert_eq!(events["ok"], true, "the chain of events is whole: {events}");
    }
}

/// How many commits wait for a standby.
fn commits_that_wait(admin: &mut Session) -> i64 {
    admin.count("pg_stat_activity WHERE wait_event = 'SyncRep'")
}

#[test]
fn what_workers_behind_a_cut_hold_comes_back_and_they_go_on_when_it_heals() {
    with_a_network("cut-clients", |mut scene| {
        let mut fleet = scene.load.start(&scene.pair);
        scene.load.work(100);
        let mut admin = scene.pair.primary.session(DATABASE);
        let began = admin.text("SELECT clock_timestamp()");
        scene.net.cut(scene.clients, scene.one);
        let cut = Instant::now();
        // Among them some in the middle of a transaction, with a lease locked: those the server has to end.
        let behind = "pg_stat_activity WHERE application_name LIKE 'torture %'";
        eventually("the server ends their sessions", || admin.count(behind) == 0);
        let ended = cut.elapsed();
        eventually("the engine recovers their leases", || admin.count("agentq_internal.job_lease") == 0);
        let recovered =
            admin.count(&format!("agentq.job_attempt WHERE outcome = 'lease_expired' AND ended_at > '{began}'"));
        println!(
            "behind the cut: sessions ended after {:.2} s, {recovered} leases recovered, the last after {:.2} s",
            ended.as_secs_f64(),
            cut.elapsed().as_secs_f64()
        );
        scene.net.heal(scene.clients, scene.one);
        scene.goes_on(Instant::now(), "the cut between clients and primary healed");
        fleet.stop();
        scene.assert_whole();
    });
}

#[test]
fn while_the_synchronous_standby_is_cut_off_nothing_is_confirmed_and_nothing_lost() {
    with_a_network("cut-standby", |mut scene| {
        let mut fleet = scene.load.start(&scene.pair);
        scene.load.work(100);
        let mut admin = scene.pair.primary.session(DATABASE);
        scene.net.cut(scene.one, scene.two);
        eventually("commits wait", || commits_that_wait(&mut admin) >= 3);
        eventually("the primary gives its standby up", || admin.count("pg_stat_replication") == 0);
        // What was confirmed just before may still be on its way into the ledgers.
        std::thread::sleep(Duration::from_millis(500));
        let acks = scene.load.acks();
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(scene.load.acks(), acks, "nothing is confirmed that the standby does not have");
        assert!(commits_that_wait(&mut admin) >= 3);
        scene.net.heal(scene.one, scene.two);
        scene.goes_on(Instant::now(), "the cut between primary and standby healed");
        // All that was confirmed is on the other, too.
        drop(admin);
        scene.load.fail_over(&mut scene.pair);
        scene.load.work(100);
        fleet.stop();
        scene.assert_whole();
    });
}

#[test]
fn a_primary_that_is_cut_off_from_all_confirms_nothing_and_follows_the_new_one() {
    with_a_network("cut-primary", |mut scene| {
        let mut fleet = scene.load.start(&scene.pair);
        scene.load.work(100);
        let cuts = [(scene.clients, scene.one), (scene.one, scene.two)];
        cuts.iter().for_each(|(from, to)| scene.net.cut(from, to));
        let cut = Instant::now();
        scene.pair.standby.promote();
        std::mem::swap(&mut scene.pair.primary, &mut scene.pair.standby);
        println!("promoted {:.2} s after the cut", cut.elapsed().as_secs_f64());
        scene.goes_on(cut, "the cut, by the new primary");

        // The old one comes back, and does not know that it is not the primary any more.
        cuts.iter().for_each(|(from, to)| scene.net.heal(from, to));
        let old = &scene.pair.standby;
        let mut admin = old.session(DATABASE);
        assert_eq!(admin.text("SELECT pg_is_in_recovery()"), "f");
        let mut s = old.session(DATABASE);
        let asked =
            std::thread::spawn(move || s.0.query_one("SELECT agentq.fn_job_enqueue('nobody confirms this')", &[]));
        eventually("the enqueue waits", || {
            admin.count("pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%nobody confirms%'") == 1
        });
        scene.load.work(100);
        assert!(!asked.is_finished(), "nobody has confirmed it");
        drop(admin);
        scene.pair.standby.end(Stop::KillAll);
        assert!(asked.join().expect("it ends").is_err(), "nor does anybody");

        scene.pair.rejoin();
        scene.pair.make_synchronous();
        scene.load.work(100);
        fleet.stop();
        let unconfirmed = "agentq.job_queue WHERE job_kind = 'nobody confirms this'";
        assert_eq!(scene.pair.primary.session(DATABASE).count(unconfirmed), 0);
        scene.assert_whole();
    });
}
