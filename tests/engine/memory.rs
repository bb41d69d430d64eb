//! Memory stays flat, however long the engine runs.

use agentq_tests::engine::{database, worker_pid};
use agentq_tests::eventually;
use agentq_tests::process::{height_of_kb, memory_kb};
use agentq_tests::{Database, Session};

#[test]
fn thousands_of_ticks_take_no_more_memory_than_hundreds() {
    let db = database();
    let mut s = db.session();
    let used = |s: &mut Session| -> i64 {
        s.text("SELECT sum(used_bytes)::bigint FROM pg_backend_memory_contexts").parse().expect("a number")
    };
    let ticks = "DO $$ BEGIN FOR i IN 1..250 LOOP PERFORM agentq.fn_engine_tick(); END LOOP; END $$";
    s.run(ticks);
    s.run(ticks);
    let before = used(&mut s);
    for _ in 0..6 {
        s.run(ticks);
    }
    let after = used(&mut s);
    assert!(after <= before + 300_000, "from {before} to {after} bytes");
}

#[test]
fn the_worker_does_not_grow() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_engine_chore_set(chore, p_every_seconds => 0.1) FROM agentq.engine_chore");
    let runs = |s: &mut Session| -> i64 {
        s.text("SELECT coalesce(sum(runs), 0)::bigint FROM agentq_internal.fn_engine_live()").parse().expect("a number")
    };
    eventually("it is warm", || (200..1_000_000).contains(&runs(&mut s)));
    let pid = worker_pid(&mut s);
    let (before, seen) = (memory_kb(&pid), runs(&mut s));
    eventually("a thousand runs more", || runs(&mut s) > seen + 1000);
    let after = memory_kb(&pid);
    assert!(after <= before + 1_000, "from {before} to {after} kB");
}

/// What a chore may take at its height, however much there is to read, in kB.
const HEIGHT_KB: i64 = 80_000;
/// As large as a payload may be.
const LARGE: &str = "jsonb_build_object('a', repeat('x', 250000))";

/// Lets a session that has met nothing large before do something, and looks how much memory that takes at its height.
#[track_caller]
fn assert_low(db: &Database<'_>, work: &str) {
    let mut s = db.session();
    s.run("SELECT agentq.fn_engine_tick('tend_limits')");
    let kb = height_of_kb(&mut s, |s| s.run(work));
    assert!(kb < HEIGHT_KB, "{kb} kB: {work}");
}

/// Makes so many large things, and then twice as many, and has all of them dealt with: it takes no more memory for many than for
/// few.
#[track_caller]
fn assert_flat(s: &mut Session, db: &Database<'_>, few: usize, make: impl Fn(usize) -> String, work: &str) {
    for count in [few, 2 * few] {
        s.run(&make(count));
        assert_low(db, work);
    }
}

/// Runs chores until they have nothing more to do.
fn ticks(chores: &[&str]) -> String {
    let each: String =
        chores.iter().map(|chore| format!("PERFORM agentq.fn_engine_tick('{chore}'); COMMIT; ")).collect();
    format!("DO $$ BEGIN FOR i IN 1..30 LOOP {each} END LOOP; END $$")
}

fn events(count: usize) -> String {
    format!("SELECT count(agentq.fn_event_emit('large', 'me', {LARGE})) FROM generate_series(1, {count})")
}

#[test]
fn events_are_sealed_and_verified_with_as_much_memory_for_many_as_for_few() {
    let db = agentq_tests::database();
    let mut s = db.session();
    assert_flat(&mut s, &db, 500, events, &ticks(&["seal_events"]));
    assert_eq!(s.count("agentq.event_log l JOIN agentq.event e USING (event_id) WHERE e.event_kind = 'large'"), 1_500);
    assert_low(&db, "SELECT agentq.fn_event_verify()");
    assert_eq!(s.call("fn_event_verify()")["code"], "sound");
}

#[test]
fn reactions_and_proposals_take_as_much_memory_for_many_events_as_for_few() {
    let db = agentq_tests::database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_config_set('governance.event_batch', '10000'), agentq.fn_config_set('governance.reaction_batch', '10000')");
    let template = r#"{"steps": [{"kind": "a", "params": {"x": {"$event": "$.a"}}}]}"#;
    s.call(&format!(
        "fn_policy_set('reaction_matrix', '[{{\"id\": \"a\", \"type\": \"large\", \"template\": {template}}}]')"
    ));
    assert_flat(&mut s, &db, 200, events, &ticks(&["seal_events", "react"]));
    let reactions = |s: &mut Session| {
        s.texts(
            "SELECT status || ' ' || count(*) || ' ' || coalesce(min(reason), '') FROM agentq.reaction GROUP BY status",
        )
    };
    assert_eq!(reactions(&mut s), ["queued 600 "]);
    assert_low(&db, &ticks(&["propose"]));
    assert_eq!(s.count("agentq.reaction WHERE status = 'done'"), 600, "{:?}", reactions(&mut s));
}

#[test]
fn schedules_fire_and_letters_are_redriven_with_as_much_memory_for_many_as_for_few() {
    let db = agentq_tests::database();
    let mut s = db.session();
    s.shift_clock(-120);
    let schedules = |count| {
        format!(
            "SELECT count(agentq.fn_schedule_set('s' || n, '@every 1m', jsonb_build_object('job_kind', 'k', 'payload_json', {LARGE})))
             FROM generate_series(1, {count}) n"
        )
    };
    assert_flat(&mut s, &db, 300, schedules, &ticks(&["run_schedules"]));
    assert_eq!(s.count("agentq.schedule WHERE fired > 0"), 600);
    let letters = |count| {
        format!(
            "SELECT count(agentq.fn_job_move_to_dead_letter((agentq.fn_job_enqueue('l', p_payload_json => {LARGE})->>'job_id')::uuid, 'x'))
             FROM generate_series(1, {count})"
        )
    };
    let redrive = "DO $$ DECLARE more boolean := true; BEGIN
        WHILE more LOOP more := (agentq.fn_dead_letter_redrive(p_filter => '{}', p_options => '{\"limit\": 10000}')->>'more')::boolean; COMMIT; END LOOP; END $$";
    assert_flat(&mut s, &db, 300, letters, redrive);
    assert_eq!(s.count("agentq.job_dead_letter WHERE redriven_as IS NULL"), 0);
}
