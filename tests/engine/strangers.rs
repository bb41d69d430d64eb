//! Nobody waits for a stranger: with every kind of row held in somebody's open transaction, every other path goes on.

use agentq_tests::engine::{database, engine_cluster, running, worker_pid};
use agentq_tests::{Database, Session, Value, claimed, eventually, expect, id, json, text};

/// Answers events `ask`, by itself, with a mission of one step.
fn set_up_reactions(s: &mut Session) {
    let policy = |s: &mut Session, key: &str, value: Value| {
        s.run(&format!("SELECT agentq.fn_policy_set('{key}', '{value}')"));
    };
    let template = json!({"title": "answer", "risk_level": "low", "steps": [{"name": "a", "kind": "answer", "params": {"number": {"$event": "$.number"}}}]});
    policy(
        s,
        "reaction_matrix",
        json!([{"id": "answer", "type": "ask", "dedupe": "{$.number}", "template": template}]),
    );
    // A cap counts: who proposes under one waits for the others.
    policy(s, "proposal_caps", json!({}));
    policy(s, "auto_approve", json!({"enabled": true, "allowed_step_kinds": ["*"], "sources": ["reaction"]}));
}

fn ask(s: &mut Session, number: i32) {
    s.run(&format!("SELECT agentq.fn_event_emit('ask', 'ask-{number}', '{{\"number\": {number}}}')"));
}

fn enqueue(s: &mut Session, kind: &str, options: &Value, more: &str) -> String {
    id(&s.call(&format!("fn_job_enqueue('{kind}', p_options => '{options}'{more})")))
}

/// A session with an open transaction in which it has made these calls.
fn holding(db: &Database<'_>, calls: &[String]) -> Session {
    let mut s = db.session();
    s.run("SET lock_timeout = '20s'; BEGIN");
    for call in calls {
        let answer = s.call(call);
        assert_ne!(answer["ok"], json!(false), "{call}: {answer}");
    }
    s
}

fn mission(s: &mut Session, template: &Value, options: &Value) -> String {
    text(&s.call(&format!("fn_mission_start('{template}', '{options}')")), "mission_id").to_owned()
}

/// What a stranger will hold: a job in every place, each of which the engine will want to move; missions that it will
/// want to end; schedules that fire; a job that waits for a signal; an executor that falls silent.
struct Held {
    jobs: Vec<String>,
    heads: Vec<String>,
    behind: String,
    leased: String,
    missions: Vec<String>,
    stepping: Value,
    proposal: String,
    letter: String,
    /// A job with a cost, and the effect that it has planned; and one that has done its own.
    trip: (String, String),
    made: String,
}

fn make_held(s: &mut Session) -> Held {
    let soon = |s: &mut Session, what: &str| {
        let at = s.text("SELECT agentq.fn_clock_now() + interval '3 s'");
        let options = json!({what: at});
        enqueue(s, "held", &options, "")
    };
    // Two that miss a deadline, one that falls due, and one with a key.
    let mut jobs = vec![soon(s, "start_by"), soon(s, "finish_by")];
    jobs.push(id(&s.call("fn_job_enqueue('held', p_scheduled_at => agentq.fn_clock_now() + interval '3 s')")));
    jobs.push(id(&s.call("fn_job_enqueue('held', 'held-key')")));
    // The heads of ordering keys whose next one is held, or comes from somebody who has not committed.
    let heads: Vec<String> = ["held-a", "held-b"]
        .iter()
        .map(|key| enqueue(s, "held.head", &json!({"ordering_key": key}), ", p_max_attempts => 1"))
        .collect();
    let behind = enqueue(s, "held", &json!({"ordering_key": "held-b"}), "");
    for _ in &heads {
        expect(s, "claimed", "fn_job_claim('gone', 'held.head', 3)");
    }
    let leased = s.enqueue("held.lease");
    expect(s, "claimed", "fn_job_claim('gone', 'held.lease', 3)");
    // Missions: one that is late, one that sleeps, one whose only attempt is with somebody who has gone.
    let late = json!({"title": "late", "timeout_seconds": 3, "steps": [{"name": "a", "kind": "held.never"}]});
    let sleeps = json!({"title": "sleeps", "steps": [{"name": "a", "sleep": {"seconds": 3}}]});
    let lost = json!({"title": "lost", "steps": [{"name": "a", "kind": "held.lost", "retry": {"max_attempts": 1}}]});
    let stepping = json!({"title": "steps", "steps": [{"name": "a", "kind": "held.step"}]});
    let missions = [&late, &sleeps, &lost, &stepping].map(|template| mission(s, template, &json!({}))).to_vec();
    expect(s, "claimed", "fn_job_claim('gone', 'held.lost', 3)");
    let stepping = expect(s, "claimed", "fn_job_claim('gone', 'held.step', 3)");
    // Schedules: of a job with an ordering key that somebody is about to begin, and one that somebody is changing.
    for (name, key) in [("held-keyed", "held-c"), ("held-changed", "held-d")] {
        let job = json!({"job_kind": "held.scheduled", "ordering_key": key});
        s.call(&format!("fn_schedule_set('{name}', '@every 1s', '{job}', p_missed => 'backfill')"));
    }
    s.call("fn_queue_heartbeat_tick('held', 'Agent')");
    s.call("fn_config_set('queue.heartbeat.stale_threshold_seconds', '1')");
    let pending = json!({"title": "wait for me", "risk_level": "high", "steps": [{"name": "a", "kind": "x"}]});
    let proposal = text(&s.call(&format!("fn_proposal_create('held', 'api', '{pending}')")), "proposal_id").to_owned();
    let dead = id(&s.call("fn_job_enqueue('held.dead', p_max_attempts => 1)"));
    expect(s, "claimed", "fn_job_claim('gone', 'held.dead', 60)");
    let letter = s.call(&format!("fn_job_fail_or_retry('{dead}', 'gone', 'no')"));
    let letter = text(&letter, "dead_letter_id").to_owned();
    s.call("fn_budget_set('held:*', 'usd', 'day', '{\"amount\": 100}')");
    let trip = json!({"limit_keys": ["held:1"], "cost": {"usd": 1}});
    let manifest = json!({
        "operations": {"book": {"produces": ["hotel.book"], "requires_compensation": true, "job_kind": "held.trip"}},
        "compensations": {"unbook": {"of": "book", "produces": ["hotel.cancel"], "counter_effects": true, "job_kind": "held.undo"}},
        "inverse_of": {"hotel.book": "hotel.cancel"}, "idempotent": {"hotel.cancel": true}});
    s.call(&format!("fn_effect_manifest_set('{manifest}')"));
    let mut on_trip = || {
        enqueue(s, "held.trip", &trip, "");
        let job = expect(s, "claimed", "fn_job_claim('gone', 'held.trip', 600)");
        let planned = expect(
            s,
            "planned",
            &format!("fn_effect_plan('{}', 'gone', '[{{\"effect_type\": \"hotel.book\"}}]')", id(&job)),
        );
        (id(&job), text(&planned["effects"][0], "effect_id").to_owned())
    };
    let (trip, (made, done)) = (on_trip(), on_trip());
    expect(s, "run", &format!("fn_effect_begin('{done}', 'gone')"));
    expect(s, "succeeded", &format!("fn_effect_finish('{done}', 'gone')"));
    expect(s, "succeeded", &format!("fn_job_ack('{made}', 'gone')"));
    Held { jobs, heads, behind, leased, missions, stepping, proposal, letter, trip, made }
}

/// The calls of strangers, each in a transaction of its own that stays open.
fn hold(db: &Database<'_>, held: &Held) -> Vec<Session> {
    let enqueue = |key: &str| format!("fn_job_enqueue('held', p_options => '{{\"ordering_key\": \"{key}\"}}')");
    let step = format!(
        "fn_step_begin('{}', 'gone', 'one', p_lease_token => '{}')",
        text(&held.stepping, "job_id"),
        text(&held.stepping, "lease_token")
    );
    let throttled = json!({"unique": {"mode": "throttle", "seconds": 3}, "start_by": "2100-01-01T00:00:00Z"});
    let list = json!({"title": "t", "steps": [{"name": "a", "kind": "held.new", "for_each": "$.input.list"}, {"name": "b", "kind": "held.new", "depends_on": ["a"]}]});
    let policy = json!({"enabled": true, "allowed_step_kinds": ["*"], "sources": ["reaction", "api"]});
    let pattern =
        json!([{"id": "held", "type": "held", "template": {"title": "t", "steps": [{"name": "a", "kind": "x"}]}}]);
    let replace = "fn_job_enqueue('held', 'held-key', p_options => '{\"unique\": {\"mode\": \"replace\"}}')";
    let groups: Vec<Vec<String>> = vec![
        // Behind a head that ends, the first of a key, a key of its own, one that is replaced.
        vec![enqueue("held-a"), enqueue("held-c")],
        vec!["fn_job_enqueue('held', 'held-new-key')".to_owned(), replace.to_owned()],
        held.jobs[..3].iter().map(|job| format!("fn_job_change('{job}', '{{\"priority\": 3}}')")).collect(),
        vec![format!("fn_job_cancel('{}')", held.behind)],
        vec![format!("fn_job_heartbeat('{}', 'gone', 60)", held.leased)],
        held.missions[..3].iter().map(|mission| format!("fn_mission_pause('{mission}')")).collect(),
        vec![step],
        vec!["fn_schedule_pause('held-changed')".to_owned(), "fn_queue_heartbeat_tick('held', 'Agent')".to_owned()],
        vec!["fn_queue_set('held-queue')".to_owned(), "fn_config_set('queue.retry.backoff_base_sec', '7')".to_owned()],
        vec!["fn_signal_send('held', 'k')".to_owned()],
        vec![format!("fn_proposal_approve('{}')", held.proposal)],
        vec!["fn_proposal_create('held-2', 'api', '{\"title\": \"t\", \"steps\": [{\"name\": \"a\", \"kind\": \"x\"}]}')".to_owned()],
        vec![format!("fn_dead_letter_triage('{}', 'escalated', 'wait')", held.letter)],
        vec!["fn_event_emit('held', 'held', '{}', '{\"dedupe_key\": \"held\"}')".to_owned()],
        // Work: an action, a checkpoint, a cost, an effect, what is to be undone.
        vec!["fn_action_begin('held', 'held')".to_owned()],
        vec![
            format!("fn_job_heartbeat('{}', 'gone', 600, p_checkpoint => '{{\"page\": 1}}')", held.trip.0),
            format!("fn_job_usage('{}', 'gone', '{{\"usd\": 0.5}}')", held.trip.0),
            format!("fn_effect_begin('{}', 'gone')", held.trip.1),
        ],
        vec![format!("fn_effect_compensate('{}')", held.made)],
        vec![format!("fn_job_enqueue('held', 'held-throttled', p_options => '{throttled}')")],
        vec![format!("fn_mission_start('{list}', '{{\"input\": {{\"list\": [1, 2]}}}}')")],
        // What operators set.
        vec!["fn_retry_policy_set('kind', 'held', '{}')".to_owned(), "fn_error_class_set('held', true)".to_owned()],
        vec!["fn_handler_register('held.handled', 'SELECT 1')".to_owned()],
        vec![format!("fn_policy_set('auto_approve', '{policy}')"), format!("fn_policy_set('reaction_matrix', '{pattern}')")],
        vec!["fn_engine_chore_set('expire', p_every_seconds => 7)".to_owned(), "fn_engine_chore_set('reap_leases', p_every_seconds => 1)".to_owned()],
        vec!["fn_effect_operation_set('held', '{\"produces\": [\"held.done\"]}')".to_owned()],
        vec![
            "fn_access_grant('pg_monitor', 'reader')".to_owned(),
            "fn_token_issue('api', '{\"role\": \"pg_monitor\"}')".to_owned(),
        ],
    ];
    groups.iter().map(|calls| holding(db, calls)).collect()
}

/// Tables in which no caller keeps a row: limits and budgets, whose change the server ends (see below), what the script of the
/// extension writes, and what the engine alone writes.
const NOBODY_HOLDS: [&str; 19] = [
    "access_rule",
    "budget",
    "budget_use",
    "effect_drift",
    "engine_chore_run",
    "event_chain",
    "event_cursor",
    "event_log",
    "event_origin",
    "event_seal",
    "job_end_due",
    "job_order_due",
    "limit_gauge",
    "limit_rule",
    "metric",
    "mission_end_due",
    "proposal_count",
    "reaction",
    "reaction_pattern",
];

/// The tables of which no stranger has a row.
fn not_held(s: &mut Session, strangers: &mut [Session]) -> Vec<String> {
    let pids: Vec<String> = strangers.iter_mut().map(|stranger| stranger.text("SELECT pg_backend_pid()")).collect();
    s.texts(&format!(
        "SELECT c.relname FROM pg_class c
         WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
           AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.relation = c.oid AND l.pid IN ({}) AND l.mode IN ('RowShareLock', 'RowExclusiveLock'))
         ORDER BY c.relname",
        pids.join(", ")
    ))
}

/// What others do meanwhile, all of it.
fn others_go_on(s: &mut Session) {
    s.run("SET lock_timeout = '20s'");
    // Claims, acks, lease recovery and deadlines.
    for round in 0..3 {
        let job = s.enqueue("free");
        let claim = expect(s, "claimed", "fn_job_claim('bob', 'free', 60)");
        assert_eq!(id(&claim), job, "{round}");
        expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    }
    let lost = s.enqueue("free.lost");
    expect(s, "claimed", "fn_job_claim('gone', 'free.lost', 1)");
    let at = s.text("SELECT agentq.fn_clock_now() + interval '1 s'");
    let late = enqueue(s, "free.late", &json!({"start_by": at}), "");
    let due = id(&s.call("fn_job_enqueue('free.due', p_scheduled_at => agentq.fn_clock_now() + interval '1 s')"));
    eventually("the lease is recovered", || s.state(&lost) == "queued");
    eventually("the deadline ends its job", || s.state(&late) == "dead_letter");
    let claim = expect(s, "claimed", "fn_job_claim('bob', 'free.due', 60, p_wait => '60 s')");
    assert_eq!(id(&claim), due);
    // Ordering keys.
    let keyed = json!({"ordering_key": "free"});
    let line: Vec<String> = (0..3).map(|_| enqueue(s, "free.keyed", &keyed, "")).collect();
    for job in &line {
        let claim = expect(s, "claimed", "fn_job_claim('bob', 'free.keyed', 60, p_wait => '60 s')");
        assert_eq!(id(&claim), *job);
        expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    }
    // Schedules, missions with a sleep and a time-out, signals.
    s.call("fn_schedule_set('free', '@every 1s', '{\"job_kind\": \"free.scheduled\"}')");
    eventually("the schedule fires", || s.count("agentq.job_queue WHERE job_kind = 'free.scheduled'") > 1);
    let steps = json!({"title": "free", "steps": [{"name": "a", "kind": "free.a"}, {"name": "b", "sleep": {"seconds": 1}, "depends_on": ["a"]}]});
    let late = json!({"title": "late", "timeout_seconds": 1, "steps": [{"name": "a", "kind": "free.never"}]});
    let [free, late] = [&steps, &late].map(|template| mission(s, template, &json!({})));
    let job = id(&expect(s, "claimed", "fn_job_claim('bob', 'free.a', 60)"));
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    let status = |s: &mut Session, mission: &str| {
        s.text(&format!("SELECT status FROM agentq.mission WHERE mission_id = '{mission}'"))
    };
    eventually("the mission ends", || status(s, &free) == "succeeded");
    eventually("the late one ends", || status(s, &late) == "failed");
    // Events have their place, and are answered.
    ask(s, 2);
    eventually("the event is answered", || s.count("agentq.job_queue WHERE job_kind = 'answer'") == 1);
    assert_eq!(s.count("agentq.event e WHERE NOT EXISTS (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id) AND e.event_kind = 'ask'"), 0);
}

#[test]
fn with_every_kind_of_row_held_every_other_path_goes_on() {
    let db = database();
    let mut s = db.session();
    set_up_reactions(&mut s);
    let held = make_held(&mut s);
    let mut strangers = hold(&db, &held);
    assert_eq!(not_held(&mut s, &mut strangers), NOBODY_HOLDS);
    // Now let all of that fall due, and try.
    s.run("SELECT pg_sleep(3.5)");
    others_go_on(&mut s);
    // The engine looks at all of it again and again, and is not at a stand for most of the time.
    let worker = worker_pid(&mut s);
    let waits = format!("pg_stat_activity WHERE pid = {worker} AND wait_event_type = 'Lock'");
    let mut waited = 0;
    for _ in 0..60 {
        waited += s.count(&waits);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(waited < 45, "the engine waited for locks {waited} times out of 60");
    let failed = s.texts("SELECT chore || ': ' || last_error FROM agentq.v_engine_chore WHERE failures > 0");
    assert_eq!(failed, [] as [&str; 0]);
    // What was held is as it was, and goes on when it is let go.
    assert_eq!(s.count("agentq_internal.job WHERE job_kind = 'held.scheduled' AND ordering_key = 'held-c'"), 0);
    for stranger in &mut strangers {
        stranger.run("COMMIT");
    }
    for head in &held.heads {
        eventually("the head has ended", || s.state(head) == "dead_letter");
    }
    eventually("the schedule fires, every slot of it", || {
        s.count("agentq_internal.job WHERE job_kind = 'held.scheduled' AND ordering_key = 'held-c'") > 3
    });
    s.call("fn_schedule_pause('held-keyed')");
    s.call("fn_schedule_pause('free')");
    let slots = "SELECT count(DISTINCT scheduled_at) || ' of ' || 1 + round(extract(epoch FROM max(scheduled_at) - min(scheduled_at)))
        FROM agentq_internal.job WHERE job_kind = 'held.scheduled' AND ordering_key = 'held-c'";
    let slots = s.text(slots);
    let (fired, of) = slots.split_once(" of ").expect("two numbers");
    assert_eq!(fired, of, "a slot was lost");
    for mission in &held.missions[..3] {
        s.call(&format!("fn_mission_resume('{mission}')"));
        eventually("the mission ends", || {
            s.count(&format!("agentq.mission WHERE mission_id = '{mission}' AND completed_at IS NOT NULL")) == 1
        });
    }
    eventually("all is in order", || s.count("agentq.fn_queue_verify()") == 0);
}

/// An operator pauses a mission, or makes a fork of it, and forgets to commit: who works for it does not wait.
#[test]
fn an_ack_of_a_step_waits_for_nobody_who_steers_its_mission() {
    let db = database();
    let mut s = db.session();
    s.run("SET lock_timeout = '5s'");
    let steps = json!([{"name": "a", "kind": "a", "for_each": "$.input.list"}, {"name": "b", "kind": "b", "depends_on": ["a"]}]);
    let template = json!({"title": "t", "steps": steps});
    let mission = mission(&mut s, &template, &json!({"input": {"list": [1, 2, 3]}}));
    let status = |s: &mut Session, step: &str| {
        s.text(&format!("SELECT status FROM agentq.v_mission_step WHERE mission_id = '{mission}' AND name = '{step}'"))
    };
    let mut operator = holding(&db, &[format!("fn_mission_pause('{mission}')")]);
    for _ in 0..3 {
        let job = id(&expect(&mut s, "claimed", "fn_job_claim('bob', 'a', p_wait => '10 s')"));
        expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob', '{{\"well\": true}}')"));
    }
    // All that the mission has not heard of is written down.
    assert_eq!(s.count("agentq_internal.mission_end_due"), 3);
    assert_eq!(status(&mut s, "a"), "queued");
    let explained = s.call(&format!("fn_mission_explain('{mission}')"));
    assert_eq!(
        (&explained["untold"][0]["step"], &explained["untold"][0]["ended_as"]),
        (&json!("a"), &json!("succeeded")),
        "{explained}"
    );
    operator.run("COMMIT");
    eventually("the mission hears of it", || status(&mut s, "a") == "succeeded");
    assert_eq!(status(&mut s, "b"), "waiting", "it is paused");
    assert_eq!(s.count("agentq_internal.mission_end_due"), 0);
    let result =
        s.text(&format!("SELECT result FROM agentq.v_mission_step WHERE mission_id = '{mission}' AND name = 'a'"));
    assert_eq!(result.matches("well").count(), 3, "{result}");
    s.call(&format!("fn_mission_resume('{mission}')"));
    let job = id(&expect(&mut s, "claimed", "fn_job_claim('bob', 'b', p_wait => '10 s')"));
    // Who asks for what cannot be done now, and forgets to end the transaction, is in nobody's way, either.
    for refused in
        [format!("fn_mission_retry('{mission}')"), format!("fn_effect_compensate(p_mission_id => '{mission}')")]
    {
        let lone =
            self::mission(&mut s, &json!({"title": "lone", "steps": [{"name": "a", "kind": "lone"}]}), &json!({}));
        let lone_job = id(&expect(&mut s, "claimed", "fn_job_claim('bob', 'lone')"));
        let mut operator = db.session();
        operator.run("BEGIN");
        let answer = operator.call(&refused.replace(&mission, &lone));
        assert_eq!(answer["ok"], json!(false), "{answer}");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{lone_job}', 'bob')"));
        operator.run("COMMIT");
        let ended = format!("agentq.mission WHERE mission_id = '{lone}' AND status = 'succeeded'");
        eventually("the mission ends", || s.count(&ended) == 1);
    }
    // Now somebody makes a fork, and rolls back.
    let mut operator = holding(&db, &[format!("fn_mission_fork('{mission}', 'a')")]);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(status(&mut s, "b"), "queued");
    operator.run("ROLLBACK");
    let ended = format!("agentq.mission WHERE mission_id = '{mission}' AND status = 'succeeded'");
    eventually("the mission ends", || s.count(&ended) == 1);
    db.assert_sound();
}

/// A producer's open transaction, and an operator who changes a limit: the operator waits, and nobody else does for long.
#[test]
fn a_change_of_limits_that_has_to_wait_does_not_hold_up_claims() {
    let db = database();
    let mut s = db.session();
    s.run("SET lock_timeout = '5s'");
    let mut sender = holding(&db, &["fn_signal_send('a', 'b')".to_owned()]);
    let mut operator = db.session();
    let changing = std::thread::spawn(move || operator.call("fn_limit_set('global', '{\"max_concurrent\": 50}')"));
    let waits =
        "pg_stat_activity WHERE query LIKE '%fn_limit_set%' AND pid <> pg_backend_pid() AND wait_event IS NOT NULL";
    eventually("the change waits", || s.count(waits) > 0);
    for _ in 0..20 {
        let job = s.enqueue("x");
        assert_eq!(id(&claimed(&mut s, "bob")), job);
        expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(!changing.is_finished());
    sender.run("COMMIT");
    assert_eq!(changing.join().expect("no panic")["ok"], json!(true));
    // One who gives up says why.
    let mut sender = holding(&db, &["fn_signal_send('a', 'b')".to_owned()]);
    let mut operator = db.session();
    operator.run("SET lock_timeout = '300ms'");
    let failure = operator.fails("SELECT agentq.fn_limit_set('global', '{\"max_concurrent\": 60}')");
    assert_eq!(failure.code, "55P03", "{failure:?}");
    assert!(failure.message.contains("is still open"), "{failure:?}");
    sender.run("COMMIT");
    // Two at once do not wait for each other for ever.
    std::thread::scope(|scope| {
        for number in 0..4 {
            let mut s = db.session();
            scope.spawn(move || {
                for slots in 10..20 {
                    s.call(&format!("fn_limit_set('k:{number}', '{{\"max_concurrent\": {slots}}}')"));
                }
            });
        }
    });
}

/// An operator changes a limit and forgets to commit: the server ends that session, and the queue goes on.
#[test]
fn a_change_of_limits_that_is_left_open_is_ended() {
    let cluster = engine_cluster("left_open", &[]);
    let db = running(cluster.database());
    let mut s = db.session();
    let job = s.enqueue("x");
    let mut operator = holding(&db, &["fn_limit_set('global', '{\"max_concurrent\": 50}')".to_owned()]);
    assert_eq!(operator.text("SHOW idle_in_transaction_session_timeout"), "10s");
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    assert_eq!(s.count("agentq.limit_rule"), 0);
    // One who commits keeps the setting as it was.
    let mut operator = db.session();
    operator.run("SET idle_in_transaction_session_timeout = '1h'");
    operator.run("BEGIN");
    operator.call("fn_limit_set('global', '{\"max_concurrent\": 50}')");
    operator.run("COMMIT");
    assert_eq!(operator.text("SHOW idle_in_transaction_session_timeout"), "1h");
}
