//! The launcher: which databases have an engine, and how it comes and goes.

use agentq_tests::engine::{database, engine_cluster, mode, running, shared, worker_pid};
use agentq_tests::process::RaiseAtEnd;
use agentq_tests::programs::plain_database;
use agentq_tests::{Cluster, Database, Options, eventually, sooner_than, timed};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

#[test]
fn create_extension_tells_the_launcher() {
    sooner_than(Duration::from_secs(20), "it was told, and did not just look, which it does once a minute", || {
        let db = plain_database(shared());
        let mut s = db.session();
        s.run("CREATE EXTENSION agentq");
        let running =
            || eventually("the engine runs", || s.text("SELECT mode FROM agentq.v_engine_status") == "running");
        let ((), took) = timed(running);
        eventually("chores run", || s.count("agentq.v_engine_chore WHERE coalesce(runs, 0) = 0") == 0);
        took
    });
}

#[test]
fn a_copy_of_a_database_gets_its_engine_with_the_first_call() {
    let db = shared().database();
    db.session().enqueue("x");
    eventually("the engine runs", || mode(&db) == "running");
}

#[test]
fn two_databases_have_an_engine_each() {
    let (one, two) = (database(), database());
    let pids = [&one, &two].map(|db| worker_pid(&mut db.session()));
    assert_ne!(pids[0], pids[1]);
    for db in [&one, &two] {
        let mut s = db.session();
        let job = s.enqueue("x");
        s.call("fn_job_claim('gone', p_lease_seconds => 1)");
        eventually("its lease is reaped", || s.state(&job) == "queued");
    }
}

#[test]
fn a_database_with_an_engine_can_be_copied_renamed_and_dropped() {
    let db = database();
    db.session().enqueue("kept");
    let mut admin = shared().session("postgres");
    admin.run(&format!("CREATE DATABASE copy_of_it TEMPLATE {}", db.name));
    let copy = running(Database { cluster: shared(), name: "copy_of_it".to_owned() });
    assert_eq!(copy.session().count("agentq.job_queue"), 1);
    admin.run("ALTER DATABASE copy_of_it RENAME TO renamed");
    let renamed = running(Database { cluster: shared(), name: "renamed".to_owned() });
    admin.run("DROP DATABASE renamed");
    eventually("the engine of the first is back", || mode(&db) == "running");
    std::mem::forget((copy, renamed));
}

#[test]
fn a_database_that_could_not_be_dropped_gets_its_engine_back() {
    let db = database();
    let _user = db.session();
    let failure = shared().session("postgres").fails(&format!("DROP DATABASE {}", db.name));
    assert_eq!(failure.code, "55006", "{failure:?}");
    eventually("the engine is back", || mode(&db) == "running");
}

#[test]
fn the_engine_goes_with_the_extension_and_comes_back_with_it_under_load() {
    let db = database();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut s = db.session();
                while !stop.load(SeqCst) {
                    // Without the extension these fail, and that is all.
                    s.0.simple_query("SELECT agentq.fn_job_enqueue('x')").ok();
                    s.0.simple_query(&format!("SELECT agentq.fn_job_claim('w{worker}', p_wait => '0.05 s')")).ok();
                }
            });
        }
        let _stop = RaiseAtEnd(&stop);
        let mut s = db.session();
        for _ in 0..4 {
            let before = worker_pid(&mut s);
            // Sessions at work go before the drop, and those that come find nothing any more.
            s.run("DROP EXTENSION agentq CASCADE");
            eventually("the worker ends", || s.count(&format!("pg_stat_activity WHERE pid = {before}")) == 0);
            s.run("CREATE EXTENSION agentq");
            eventually("the engine runs", || s.text("SELECT mode FROM agentq.v_engine_status") == "running");
        }
    });
    let mut s = db.session();
    let job = s.enqueue("after");
    assert_eq!(s.call("fn_job_claim('w', 'after', p_wait => '5 s')")["job_id"], job.as_str());
    db.assert_sound();
    assert!(!shared().log().contains("deadlock detected"), "somebody was ended for a drop");
}

#[test]
fn a_worker_that_is_ended_is_started_again() {
    let db = database();
    let mut s = db.session();
    let before = worker_pid(&mut s);
    s.run(&format!("SELECT pg_terminate_backend({before})"));
    eventually("it ends", || s.count(&format!("pg_stat_activity WHERE pid = {before}")) == 0);
    eventually("another runs", || s.count("agentq.v_engine_status WHERE mode = 'running' AND restarts > 0") == 1);
    assert_ne!(worker_pid(&mut s), before);
}

#[test]
fn a_worker_in_the_middle_of_a_chore_ends_at_once() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    sooner_than(Duration::from_secs(2), "it ends at once, and not when it has waited for five seconds", || {
        let before = worker_pid(&mut s);
        // The chore waits for this lock, inside its statement.
        other.run("BEGIN; LOCK TABLE agentq_internal.job_lease IN ACCESS EXCLUSIVE MODE");
        eventually("a chore waits", || {
            s.count(&format!("pg_stat_activity WHERE pid = {before} AND wait_event_type = 'Lock'")) == 1
        });
        let ((), took) = timed(|| {
            s.run(&format!("SELECT pg_terminate_backend({before})"));
            eventually("it ends", || s.count(&format!("pg_stat_activity WHERE pid = {before}")) == 0);
        });
        other.run("ROLLBACK");
        eventually("the engine is back", || mode(&db) == "running");
        took
    });
}

#[test]
fn a_launcher_that_is_ended_is_started_again_and_takes_over() {
    let cluster = engine_cluster("launcher", &[]);
    let db = running(cluster.database());
    let mut s = db.session();
    let launcher = s.text("SELECT launcher_pid FROM agentq.v_engine_status");
    let worker = worker_pid(&mut s);
    s.run(&format!("SELECT pg_terminate_backend({launcher})"));
    eventually("another launcher has another worker", || {
        s.count(&format!(
            "agentq.v_engine_status WHERE launcher_pid <> {launcher} AND worker_pid <> {worker} AND mode = 'running'"
        )) == 1
    });
    assert_eq!(s.count("pg_stat_activity WHERE backend_type = 'agentq worker' AND datname = current_database()"), 1);
}

#[test]
fn without_a_free_slot_the_trouble_is_shown_and_the_start_retried() {
    // For the launcher of logical replication, ours, the template's engine and that of the first database.
    let cluster = engine_cluster("slots", &["max_worker_processes = 4"]);
    let first = running(cluster.database());
    let second = cluster.database();
    second.session().enqueue("x");
    eventually("the trouble is shown", || {
        second
            .session()
            .count("agentq.v_engine_status WHERE trouble LIKE '%max_worker_processes%' AND retry_at IS NOT NULL")
            == 1
    });
    eventually("the log tells of it", || cluster.log().contains("raise max_worker_processes"));
    assert_ne!(mode(&second), "running");
    drop(first);
    eventually("its turn comes", || mode(&second) == "running");
    assert_eq!(second.session().count("agentq.v_engine_status WHERE trouble IS NULL"), 1);
}

#[test]
fn a_reload_switches_the_engine_off_and_on() {
    let cluster = engine_cluster("reload", &[]);
    let db = running(cluster.database());
    let mut s = db.session();
    s.run("ALTER SYSTEM SET agentq.engine = off");
    s.run("SELECT pg_reload_conf()");
    eventually("it stops", || s.count("agentq.v_engine_status WHERE mode = 'off' AND worker_pid IS NULL") == 1);
    s.run("ALTER SYSTEM SET agentq.engine = on");
    s.run("SELECT pg_reload_conf()");
    eventually("it starts", || mode(&db) == "running");
}

#[test]
fn the_engine_of_a_schema_that_it_does_not_serve_waits_for_the_update() {
    let db = plain_database(shared());
    let mut s = db.session();
    s.run("CREATE EXTENSION agentq");
    eventually("it runs", || mode(&db) == "running");
    let ours = s.text("SELECT extversion FROM pg_extension WHERE extname = 'agentq'");
    s.run("UPDATE pg_extension SET extversion = '0.8.0' WHERE extname = 'agentq'");
    eventually("the trouble is shown", || s.count("agentq.v_engine_status WHERE trouble LIKE '%0.8.0%'") == 1);
    s.run(&format!("UPDATE pg_extension SET extversion = '{ours}' WHERE extname = 'agentq'"));
    eventually("it goes on", || s.count("agentq.v_engine_status WHERE mode = 'running' AND trouble IS NULL") == 1);
    eventually("chores run", || s.count("agentq.v_engine_chore WHERE coalesce(runs, 0) = 0") == 0);
}

#[test]
fn a_standby_has_no_engine_until_it_is_promoted() {
    let mut primary = engine_cluster("primary", &["hot_standby = on"]);
    let db = running(primary.database());
    let job = db.session().enqueue("x");
    let standby = Cluster::standby_of(&primary, "promoted");
    let there = Database { cluster: &standby, name: db.name.clone() };
    eventually("the standby has the job", || there.session().count("agentq.job_queue") == 1);
    assert_eq!(mode(&there), "standby");
    assert_eq!(there.session().count("pg_stat_activity WHERE backend_type LIKE 'agentq%'"), 0);
    std::mem::forget(db);
    primary.stop();
    standby.promote();
    let there = running(there);
    let mut s = there.session();
    s.call("fn_job_claim('gone', p_lease_seconds => 1)");
    eventually("the new primary's engine reaps", || s.state(&job) == "queued");
    std::mem::forget(there);
}

#[test]
fn without_the_preload_there_is_no_engine_and_the_view_says_so() {
    let cluster = Cluster::start("manual", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    assert_eq!(s.count("agentq.v_engine_status WHERE mode = 'manual' AND launcher_pid IS NULL"), 1);
    let job = s.enqueue("x");
    s.call("fn_job_claim('gone', p_lease_seconds => 1)");
    eventually("a tick by hand reaps", || {
        let ticked = s.call("fn_engine_tick('reap_leases')");
        assert_eq!(ticked["ok"], true, "{ticked}");
        ticked["chores"][0]["rows"] == 1
    });
    assert_eq!(s.state(&job), "queued");
    assert_eq!(s.count("agentq.v_engine_chore WHERE chore = 'reap_leases' AND runs > 0 AND last_rows = 1"), 1);
}

/// An autovacuum goes for hours where it is told to take its time: it is sent away, as by any other command that needs the table.
#[test]
fn a_drop_of_the_extension_sends_an_autovacuum_away() {
    let slow = [
        "autovacuum_naptime = 10",
        "autovacuum_max_workers = 1",
        "autovacuum_vacuum_cost_delay = 100",
        "autovacuum_vacuum_cost_limit = 1",
    ];
    let cluster = engine_cluster("vacuumed", &slow);
    let db = running(cluster.database());
    let mut s = db.session();
    let enqueue = "SELECT agentq.fn_job_enqueue_batch(jsonb_agg(jsonb_build_object('job_kind', 'x'))) FROM generate_series(1, 10000)";
    s.run(enqueue);
    s.run("ALTER TABLE agentq_internal.job SET (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)");
    s.run("UPDATE agentq_internal.job SET actor = 'somebody'");
    let at_work = "pg_stat_progress_vacuum WHERE relid = 'agentq_internal.job'::regclass";
    eventually("an autovacuum is at work", || s.count(at_work) == 1);
    s.run("DROP EXTENSION agentq");
    assert_eq!(s.count("pg_extension WHERE extname = 'agentq'"), 0);
    assert!(cluster.log().contains("canceling autovacuum task"), "it was at work to the end");
}

#[test]
fn a_stranger_who_tries_to_drop_a_database_disturbs_nobody() {
    let db = database();
    let before = worker_pid(&mut db.session());
    let mut stranger = db.session_of(&format!("stranger to {}", db.name));
    for command in ["DROP DATABASE", "CREATE DATABASE theirs TEMPLATE"] {
        let failure = stranger.fails(&format!("{command} {}", db.name));
        assert_eq!(failure.code, "42501", "{failure:?}");
    }
    assert_eq!(worker_pid(&mut db.session()), before);
}

#[test]
fn a_drop_of_the_extension_sends_the_engine_away_first() {
    let db = database();
    let (mut s, mut holder) = (db.session(), db.session());
    let worker = worker_pid(&mut s);
    // A chore waits in the middle of its work, with other tables of agentq locked.
    holder.run("BEGIN; LOCK TABLE agentq_internal.job_deadline IN ACCESS EXCLUSIVE MODE");
    eventually("a chore waits", || {
        s.count(&format!("pg_stat_activity WHERE pid = {worker} AND wait_event_type = 'Lock'")) == 1
    });
    let mut dropper = db.session();
    let drop = std::thread::spawn(move || dropper.run("DROP EXTENSION agentq"));
    eventually("the worker has left", || s.count(&format!("pg_stat_activity WHERE pid = {worker}")) == 0);
    holder.run("ROLLBACK");
    drop.join().expect("the drop meets nobody");
    assert_eq!(s.count("pg_extension WHERE extname = 'agentq'"), 0);
    s.run("CREATE EXTENSION agentq");
    eventually("the engine is back", || mode(&db) == "running");
}

#[test]
fn a_stranger_who_tries_to_drop_the_extension_disturbs_nobody() {
    let db = database();
    let before = worker_pid(&mut db.session());
    let mut stranger = db.session_of(&format!("stranger to {}", db.name));
    for command in ["DROP EXTENSION agentq", "ALTER EXTENSION agentq UPDATE"] {
        let failure = stranger.fails(command);
        assert_eq!(failure.code, "42501", "{failure:?}");
    }
    assert_eq!(worker_pid(&mut db.session()), before);
}

#[test]
fn after_a_restart_the_engines_of_all_databases_start_one_after_the_other_without_a_pause() {
    let mut cluster = engine_cluster("restarted", &["max_worker_processes = 30", "log_min_messages = debug1"]);
    let names: Vec<String> = (0..8).map(|number| format!("many_{number}")).collect();
    for name in &names {
        cluster.session("postgres").run(&format!("CREATE DATABASE {name}"));
        cluster.session(name).run("CREATE EXTENSION agentq");
    }
    cluster.stop();
    let turns =
        |cluster: &Cluster, why: &str| cluster.log().matches(&format!("the launcher takes a turn: {why}")).count();
    let before = turns(&cluster, "its time has come");
    cluster.start_again();
    for name in &names {
        let mut s = cluster.session(name);
        eventually("its engine runs", || s.text("SELECT mode FROM agentq.v_engine_status") == "running");
    }
    // Each that has started wakes the launcher for the next two: it never waits for its time to come.
    assert!(turns(&cluster, "it was woken") >= names.len() / 2);
    assert_eq!(turns(&cluster, "its time has come") - before, 0);
}

#[test]
fn more_databases_than_workers_take_turns() {
    // One of them is the launcher's, and one the server's own.
    let cluster = engine_cluster("crowded", &["max_worker_processes = 4"]);
    let names: Vec<String> = (0..4).map(|number| format!("crowd_{number}")).collect();
    for name in &names {
        cluster.session("postgres").run(&format!("CREATE DATABASE {name}"));
        let mut s = cluster.session(name);
        s.run("CREATE EXTENSION agentq");
        s.call("fn_schedule_set('tick', '@every 1s', '{\"job_kind\": \"tick\"}')");
    }
    for turn in 1..3 {
        for name in &names {
            let mut s = cluster.session(name);
            let before = s.count("agentq_internal.job");
            eventually(&format!("{name} has its turn {turn}"), || s.count("agentq_internal.job") > before);
        }
    }
}

/// Each of a hundred databases has its engine in turn, whoever has waited longest first, although there is room for a few dozen.
#[test]
fn a_hundred_databases_have_their_engine_in_turn_and_none_starves() {
    let mut cluster = engine_cluster("hundred", &["max_worker_processes = 30"]);
    cluster
        .session("agentq_template")
        .call("fn_schedule_set('tick', '@every 1s', '{\"job_kind\": \"tick\"}', p_missed => 'skip')");
    let mut admin = cluster.session("postgres");
    let mut names: Vec<String> = (0..100).map(|number| format!("one_of_{number}")).collect();
    for name in &names {
        admin.run(&format!("CREATE DATABASE {name} TEMPLATE agentq_template STRATEGY = FILE_COPY"));
    }
    drop(admin);
    cluster.stop();
    cluster.start_again();
    let restarted = Instant::now();
    // This calls nothing of agentq's, which would tell the launcher that somebody is there.
    let ticks = |name: &str| cluster.session(name).count("agentq_internal.job");
    let all = names.clone();
    eventually("each has had its turn", || {
        names.retain(|name| ticks(name) == 0);
        names.is_empty()
    });
    // Nobody kept its engine while others waited.
    let (passed, most) = (restarted.elapsed().as_secs() as i64, all.iter().map(|name| ticks(name)).max().unwrap_or(0));
    assert!(most <= passed / 2 + 8, "one database had {most} ticks in {passed} s");
}
