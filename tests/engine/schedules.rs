//! Schedules: when they fire, and that no slot is fired twice or lost.

use agentq_tests::engine::{database, engine_cluster, running};
use agentq_tests::process::RaiseAtEnd;
use agentq_tests::{Database, Session, eventually, json};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The slots for which a job was enqueued, oldest first.
fn slots(s: &mut Session) -> Vec<String> {
    s.texts("SELECT scheduled_at FROM agentq_internal.job ORDER BY scheduled_at, job_id")
}

#[test]
fn a_schedule_fires_by_itself_at_its_slots() {
    let db = database();
    let mut s = db.session();
    let set = s.call(
        "fn_schedule_set('s', '@every 1s', '{\"job_kind\": \"x\", \"priority\": 7, \"payload_json\": {\"n\": 1}}')",
    );
    assert_eq!(set["code"], "created");
    eventually("it has fired three times", || s.count("agentq.job_queue") >= 3);
    s.call("fn_schedule_pause('s')");
    let found = slots(&mut s);
    let whole = s.text("SELECT bool_and(scheduled_at = date_trunc('second', scheduled_at)) FROM agentq_internal.job");
    assert_eq!(whole, "t", "{found:?}");
    let mut distinct = found.clone();
    distinct.dedup();
    assert_eq!(found, distinct);
    let job =
        s.text("SELECT concat_ws(' ', job_kind, priority, payload_json, source_ref) FROM agentq_internal.job LIMIT 1");
    assert_eq!(job, "x 7 {\"n\": 1} schedule:s");
    assert_eq!(s.text("SELECT fired FROM agentq.v_schedule"), found.len().to_string());
    // Not at some time, but at its slot: a busy machine delays one or another, never all.
    s.call("fn_schedule_resume('s')");
    let in_time = "agentq_internal.job WHERE created_at < scheduled_at + interval '0.5 s'";
    eventually("it fires in time", || s.count(in_time) > 0);
}

#[test]
fn sessions_that_tick_at_once_fire_each_slot_once() {
    let db = database();
    db.session().call("fn_schedule_set('s', '@every 1s', '{\"job_kind\": \"x\"}', p_missed => 'backfill')");
    let mut s = db.session();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut s = db.session();
                while !over.load(SeqCst) {
                    s.call("fn_engine_tick('run_schedules')");
                    std::thread::sleep(std::time::Duration::from_millis(30));
                }
            });
        }
        let _over = RaiseAtEnd(&over);
        eventually("it has fired four times", || slots(&mut s).len() >= 4);
    });
    s.call("fn_schedule_pause('s')");
    let found = slots(&mut s);
    let mut distinct = found.clone();
    distinct.dedup();
    assert_eq!(found, distinct);
}

#[test]
fn a_crash_neither_loses_nor_doubles_a_slot() {
    let mut cluster = engine_cluster("schedules", &[]);
    let db = running(cluster.database());
    let name = db.name.clone();
    std::mem::forget(db);
    let set = "fn_schedule_set('s', '@every 1s', '{\"job_kind\": \"x\"}', p_missed => 'backfill')";
    cluster.session(&name).call(set);
    for _ in 0..3 {
        let mut s = cluster.session(&name);
        let since = s.count("agentq_internal.job");
        eventually("it fires", || s.count("agentq_internal.job") > since);
        cluster.crash_and_restart();
    }
    let db = running(Database { cluster: &cluster, name });
    let mut s = db.session();
    eventually("it goes on", || s.count("agentq_internal.job WHERE created_at > pg_postmaster_start_time()") > 0);
    s.call("fn_schedule_pause('s')");
    let gaps = s.texts(
        "SELECT scheduled_at FROM (SELECT scheduled_at, scheduled_at - lag(scheduled_at) OVER (ORDER BY scheduled_at) AS step
         FROM agentq_internal.job) j WHERE step <> interval '1 s'",
    );
    assert!(gaps.is_empty(), "{gaps:?} of {:?}", slots(&mut s));
    std::mem::forget(db);
}

/// A schedule of every hour, looked at five and a half hours later.
fn missed(policy: &str) -> (Vec<String>, String) {
    // The engine does not share the clock of this test: it is off here.
    let db = agentq_tests::database();
    let mut s = db.session();
    s.run("SET timezone = 'UTC'");
    s.call(&format!("fn_schedule_set('s', '0 * * * *', '{{\"job_kind\": \"x\"}}', p_missed => '{policy}')"));
    // The hour may change while the test runs: this is the one that counts.
    let hour = format!("'{}'::timestamptz", s.text("SELECT date_trunc('hour', now())"));
    s.run(&format!("UPDATE agentq.schedule SET next_fire_at = {hour} + interval '1 hour'"));
    let to = s.text(&format!("SELECT extract(epoch FROM {hour} + interval '6 hours 30 minutes' - now())"));
    s.run(&format!("SET agentq.clock_offset = {to}"));
    let ticked = s.call("fn_engine_tick('run_schedules')");
    assert_eq!(ticked["ok"], true, "{ticked}");
    let since = |column: &str| format!("SELECT round(extract(epoch FROM {column} - {hour}) / 3600)::text");
    let hours = s.texts(&format!("{} FROM agentq_internal.job ORDER BY scheduled_at", since("scheduled_at")));
    let next = s.text(&format!("{} FROM agentq.schedule", since("next_fire_at")));
    (hours, next)
}

#[test]
fn missed_slots_are_skipped_run_once_or_backfilled() {
    assert_eq!(missed("skip"), (vec![], "7".to_owned()));
    assert_eq!(missed("once"), (vec!["6".to_owned()], "7".to_owned()));
    let all = ["1", "2", "3", "4", "5", "6"].map(str::to_owned).to_vec();
    assert_eq!(missed("backfill"), (all, "7".to_owned()));
}

#[test]
fn without_overlap_a_slot_is_left_out_while_the_last_job_goes_on() {
    let db = database();
    let mut s = db.session();
    s.call("fn_schedule_set('s', '@every 1s', '{\"job_kind\": \"x\"}', p_overlap => false)");
    eventually("slots are left out", || s.count("agentq.v_schedule WHERE skipped >= 2") == 1);
    assert_eq!(s.count("agentq_internal.job"), 1);
    let job = s.text("SELECT last_job_id FROM agentq.v_schedule");
    s.call("fn_job_claim('w')");
    s.call(&format!("fn_job_ack('{job}', 'w')"));
    eventually("the next one comes", || s.count("agentq_internal.job") > 1);
}

#[test]
fn a_schedule_is_paused_resumed_changed_and_removed() {
    let db = database();
    let mut s = db.session();
    s.call("fn_schedule_set('s', '@every 1s', '{\"job_kind\": \"x\"}')");
    assert_eq!(s.call("fn_schedule_pause('s')")["paused"], true);
    let (before, paused) = (s.count("agentq_internal.job"), s.text("SELECT clock_timestamp()"));
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(s.count("agentq_internal.job"), before);
    let resumed = s.text("SELECT clock_timestamp()");
    assert_eq!(s.call("fn_schedule_resume('s')")["code"], "resumed");
    eventually("it fires again", || s.count("agentq_internal.job") > before);
    let backlog = s.count(&format!("agentq_internal.job WHERE scheduled_at BETWEEN '{paused}' AND '{resumed}'"));
    assert_eq!(backlog, 0, "slots that passed while it was paused were fired");
    let changed = s.call("fn_schedule_set('s', '30 4 1 1 *', '{\"job_kind\": \"y\"}', 'Europe/Berlin', 'skip')");
    assert_eq!((changed["code"].clone(), changed["missed"].clone()), (json!("updated"), json!("skip")));
    let next = s
        .text("SELECT array_length(next_five, 1) || ' ' || (next_five[1] = next_fire_at)::text FROM agentq.v_schedule");
    assert_eq!(next, "5 true");
    assert_eq!(
        s.text("SELECT to_char(next_fire_at AT TIME ZONE 'Europe/Berlin', 'DD.MM. HH24:MI') FROM agentq.v_schedule"),
        "01.01. 04:30"
    );
    assert_eq!(s.call("fn_schedule_remove('s')")["code"], "removed");
    assert_eq!(s.count("agentq.v_schedule"), 0);
}

#[test]
fn daylight_saving_is_seen_in_the_upcoming_times() {
    let db = database();
    let mut s = db.session();
    s.run("SET timezone = 'UTC'");
    let spring =
        s.text("SELECT agentq.fn_schedule_upcoming('30 2 * * *', 'Europe/Berlin', 3, '2027-03-27 00:00:00+00')::text");
    assert_eq!(spring, "{\"2027-03-27 01:30:00+00\",\"2027-03-28 01:00:00+00\",\"2027-03-29 00:30:00+00\"}");
    let autumn =
        s.text("SELECT agentq.fn_schedule_upcoming('30 2 * * *', 'Europe/Berlin', 2, '2027-10-30 12:00:00+00')::text");
    assert_eq!(autumn, "{\"2027-10-31 00:30:00+00\",\"2027-11-01 01:30:00+00\"}");
}

#[test]
fn a_wrong_schedule_is_refused_with_the_reason() {
    let db = database();
    let mut s = db.session();
    for (call, code, message) in [
        ("fn_schedule_set('s', 'often', '{\"job_kind\": \"x\"}')", "22023", "often"),
        ("fn_schedule_set('s', '0 0 30 2 *', '{\"job_kind\": \"x\"}')", "22023", "0 0 30 2 *"),
        ("fn_schedule_set('s', '@daily', '{\"job_kind\": \"x\"}', 'Mars/Olympus')", "22023", "Mars/Olympus"),
        ("fn_schedule_set('s', '@daily', '{\"job_kind\": \"x\"}', p_missed => 'panic')", "22023", "panic"),
        ("fn_schedule_set('s', '@daily', '{}')", "22023", "job_kind"),
        ("fn_schedule_set('s', '@daily', '[]')", "22023", "a job"),
        ("fn_schedule_set('s', '@daily', '{\"job_kind\": \"x\", \"colour\": 1}')", "22023", "colour"),
        (
            "fn_schedule_set('s', '@daily', '{\"job_kind\": \"x\", \"idempotency_key\": \"k\"}')",
            "22023",
            "idempotency_key",
        ),
        ("fn_schedule_set('s', '@daily', '{\"job_kind\": \"x\", \"queue\": \"none\"}')", "22023", "none"),
        (
            "fn_schedule_set('s', '@daily', '{\"job_kind\": \"x\", \"payload_json\": {\"secret\": 1}}')",
            "22023",
            "secret",
        ),
        ("fn_schedule_set(' ', '@daily', '{\"job_kind\": \"x\"}')", "22023", "p_schedule"),
        ("fn_schedule_pause('none')", "P0002", "none"),
        ("fn_schedule_remove('none')", "P0002", "none"),
    ] {
        let failure = s.fails(&format!("SELECT agentq.{call}"));
        assert_eq!(failure.code, code, "{call}: {failure:?}");
        assert!(failure.message.contains(message) && !failure.hint.is_empty(), "{call}: {failure:?}");
    }
    assert_eq!(s.count("agentq.schedule"), 0);
}

#[test]
fn a_schedule_whose_job_is_no_longer_accepted_stops_no_other() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('gone')");
    s.call("fn_schedule_set('bad', '@every 1s', '{\"job_kind\": \"x\", \"queue\": \"gone\"}')");
    s.call("fn_schedule_set('good', '@every 1s', '{\"job_kind\": \"y\"}')");
    s.run("DELETE FROM agentq.queue WHERE queue = 'gone'");
    let before = s.count("agentq_internal.job WHERE job_kind = 'y'");
    eventually("the good one goes on", || s.count("agentq_internal.job WHERE job_kind = 'y'") > before + 1);
    let told = "agentq.event WHERE event_kind = 'schedule.failed' AND subject = 'bad'";
    eventually("the bad one is told of", || s.count(told) > 0);
    assert_eq!(s.count("agentq.v_engine_chore WHERE chore = 'run_schedules' AND failures > 0"), 0);
}

#[test]
fn a_schedule_starts_missions_proposals_and_events() {
    let db = database();
    let mut s = db.session();
    let template = r#"{"title": "t", "steps": [{"name": "a", "kind": "a"}]}"#;
    s.call(&format!(
        r#"fn_schedule_set('m', '@every 1s', '{{"start": "mission", "template": {template}}}', p_overlap => false)"#
    ));
    s.call(&format!(r#"fn_schedule_set('p', '@every 1s', '{{"start": "proposal", "template": {template}}}')"#));
    s.call(r#"fn_schedule_set('e', '@every 1s', '{"start": "event", "kind": "tick", "subject": "s", "payload": {"n": 1}}')"#);
    let skipped = "agentq.v_schedule WHERE schedule = 'm' AND skipped >= 2";
    eventually("slots are left out while the mission goes on", || s.count(skipped) == 1);
    let missions = "agentq.v_mission WHERE source = 'schedule:m'";
    assert_eq!(s.count(missions), 1);
    let mission = s.text("SELECT last_job_id FROM agentq.v_schedule WHERE schedule = 'm'");
    s.call(&format!("fn_mission_cancel('{mission}')"));
    eventually("the next one starts", || s.count(missions) > 1);
    eventually("events are emitted", || s.count("agentq.event WHERE event_kind = 'tick' AND subject = 's'") >= 2);
    eventually("proposals are made", || s.count("agentq.v_proposal") >= 2);
    let twice = "(SELECT count(*) FROM agentq.v_proposal GROUP BY dedupe_key HAVING count(*) > 1) d";
    assert_eq!(s.count(twice), 0);
}

#[test]
fn what_a_schedule_cannot_start_is_refused_when_it_is_set() {
    let db = database();
    let mut s = db.session();
    for (what, message) in [
        (r#"{"start": "rocket"}"#, "cannot start \"rocket\""),
        (r#"{"start": "mission"}"#, "template"),
        (r#"{"start": "mission", "template": {"steps": []}}"#, "step"),
        (r#"{"start": "proposal", "template": {"steps": []}}"#, "step"),
        (r#"{"start": "event", "kind": "k"}"#, "subject"),
        (r#"{"start": "event", "kind": "k", "subject": "s", "job_kind": "x"}"#, "job_kind"),
    ] {
        let failure = s.fails(&format!("SELECT agentq.fn_schedule_set('s', '@every 1s', '{what}')"));
        assert_eq!(failure.code, "22023", "{what}: {failure:?}");
        assert!(failure.message.contains(message) && !failure.hint.is_empty(), "{what}: {failure:?}");
    }
    assert_eq!(s.count("agentq.schedule"), 0);
}
