//! Nobody but the test is at work here: what the new primary knows of leases, slots, budgets, schedules and events,
//! and that nothing which it was asked while it was a standby is taken for the truth later.

use crate::pair::Pair;
use agentq_tests::{Session, Value, eventually, text};

const DATABASE: &str = "quiet";

/// A pair whose standby has applied whatever was confirmed, and a database with two slots and a budget of ten.
fn prepare(name: &str) -> Pair {
    let pair = Pair::new(name);
    pair.make_synchronous();
    let mut admin = pair.primary.session("postgres");
    admin.run("ALTER SYSTEM SET synchronous_commit = remote_apply");
    admin.run("SELECT pg_reload_conf()");
    admin.run(&format!("CREATE DATABASE {DATABASE}"));
    let mut s = pair.primary.session(DATABASE);
    s.run("CREATE EXTENSION agentq");
    s.call("fn_limit_set('tenant:*', '{\"max_concurrent\": 2}')");
    s.call("fn_budget_set('tenant:*', 'usd', 'total', '{\"amount\": 10, \"when_exhausted\": \"refuse\"}')");
    pair
}

const ENQUEUE: &str = "fn_job_enqueue('paid', p_options => '{\"limit_keys\": [\"tenant:1\"], \"cost\": {\"usd\": 3}}')";

fn ack(s: &mut Session, held: &Value, owner: &str) -> String {
    let (job, token) = (text(held, "job_id"), text(held, "lease_token"));
    text(&s.call(&format!("fn_job_ack('{job}', '{owner}', NULL, '{token}')")), "code")
}

/// Leases and slots of the tenant, as the tables and as shared memory have them.
fn slots(s: &mut Session) -> String {
    s.text(
        "SELECT active || ' held, ' || coalesce(counted::text, 'nothing') || ' counted'
         FROM agentq.v_limit WHERE limit_key = 'tenant:1'",
    )
}

fn budget(s: &mut Session) -> String {
    s.text(
        "SELECT trim_scale(used) || ' used, ' || trim_scale(reserved) || ' reserved'
         FROM agentq.v_budget WHERE limit_key = 'tenant:1'",
    )
}

#[test]
fn leases_limits_budgets_schedules_handlers_and_events_go_on_after_a_failover() {
    let mut pair = prepare("quiet");
    let mut s = pair.primary.session(DATABASE);
    s.call("fn_schedule_set('ticks', '@every 1s', '{\"job_kind\": \"tick\"}', p_missed => 'backfill')");
    s.call("fn_handler_register('handled', 'SELECT jsonb_build_object(''by'', pg_backend_pid())')");
    s.call("fn_event_emit('before', 'the failover')");
    (0..4).for_each(|_| drop(s.call(ENQUEUE)));
    let steady = s.call("fn_job_claim('steady', 'paid', 600)");
    eventually("the schedule has fired", || s.count("agentq.job_queue WHERE job_kind = 'tick'") > 1);
    let brief = s.call("fn_job_claim('brief', 'paid', 5)");
    let killed_at = s.text("SELECT clock_timestamp()");
    drop(s);
    pair.fail_over();

    // The lease runs out here, and nobody claims: it is the engine that recovers the job.
    let mut s = pair.primary.session(DATABASE);
    let job = text(&brief, "job_id");
    let ended =
        format!("agentq.job_attempt WHERE job_id = '{job}' AND outcome = 'lease_expired' AND ended_at > '{killed_at}'");
    eventually("the engine recovers the lease", || s.count(&ended) == 1);
    assert_eq!(s.text("SELECT mode FROM agentq.v_engine_status"), "running");
    assert_eq!(ack(&mut s, &brief, "brief"), "lease_lost");

    assert_eq!(slots(&mut s), "1 held, 1 counted");
    assert_eq!(budget(&mut s), "0 used, 3 reserved");
    let other = s.call("fn_job_claim('other', 'paid', 600)");
    assert_eq!(other["code"], "claimed", "{other}");
    let none = s.call("fn_job_claim('third', 'paid', 600)");
    assert_eq!((&none["code"], &none["limited"][0]), (&"empty".into(), &"tenant:1".into()), "two slots are taken");

    assert_eq!(ack(&mut s, &steady, "steady"), "succeeded", "a lease holds across the failover");
    assert_eq!(budget(&mut s), "3 used, 3 reserved");
    let third = s.call("fn_job_claim('third', 'paid', 600)");
    assert_eq!(third["code"], "claimed", "the slot is free again: {third}");
    assert_eq!(slots(&mut s), "2 held, 2 counted");
    assert_eq!(ack(&mut s, &other, "other"), "succeeded");
    let none = s.call("fn_job_claim('fourth', 'paid', 600)");
    assert_eq!(none["limited"][0], "budget:usd:total::tenant:1", "three times three are spent or reserved: {none}");

    let handled = s.enqueue("handled");
    eventually("a handler runs on the new primary", || s.state(&handled) == "succeeded");
    s.call("fn_event_emit('after', 'the failover')");
    eventually("both events have their place", || {
        s.count("agentq.event_log JOIN agentq.event USING (event_id) WHERE event_kind IN ('before', 'after')") == 2
    });
    assert_eq!(s.call("fn_event_verify()")["code"], "sound");
    let fired = "SELECT count(*) || ' jobs for ' || count(DISTINCT scheduled_at) || ' slots of '
        || extract(epoch FROM max(scheduled_at) - min(scheduled_at))::int + 1
        FROM agentq.job_queue WHERE job_kind = 'tick'";
    let fired = s.text(fired);
    let numbers: Vec<&str> = fired.split(' ').filter(|word| word.parse::<u32>().is_ok()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]), "every slot has one job: {fired}");
}

#[test]
fn what_a_standby_was_asked_does_not_count_after_its_promotion() {
    let mut pair = prepare("asked");
    let mut s = pair.primary.session(DATABASE);
    (0..3).for_each(|_| drop(s.call(ENQUEUE)));

    let mut standby = pair.standby.session(DATABASE);
    let asked = [
        "SELECT count(*) FROM agentq.v_limit",
        "SELECT count(*) FROM agentq.v_budget",
        "SELECT agentq_internal.fn_limit_counted('tenant:1')",
        "SELECT agentq.fn_limit_gauge('tenant:1')",
        "SELECT agentq.fn_backpressure_status()",
        "SELECT agentq.fn_job_explain((SELECT job_id FROM agentq.job_queue LIMIT 1))",
        "SELECT agentq.fn_limit_report('tenant:1', p_remaining => 5)",
        "SELECT agentq.fn_job_claim('early', 'paid')",
        "SELECT agentq.fn_job_claim('early', 'other', p_wait => '0.1 s')",
        &format!("SELECT agentq.{ENQUEUE}"),
    ];
    for sql in asked {
        if let Err(error) = standby.0.simple_query(sql) {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
            assert_eq!(error.code().code(), "25006", "{sql}: {error}");
        }
    }
    // From here on the two differ, unless the standby has counted nothing.
    let held = ["one", "two"].map(|owner| s.call(&format!("fn_job_claim('{owner}', 'paid', 600)")));
    assert!(held.iter().all(|held| held["code"] == "claimed"), "{held:?}");
    drop(s);
    pair.fail_over();

    // A session that was there before, and a new one.
    for mut s in [standby, pair.primary.session(DATABASE)] {
        assert_eq!(slots(&mut s), "2 held, 2 counted");
        assert_eq!(budget(&mut s), "0 used, 6 reserved");
        let none = s.call("fn_job_claim('third', 'paid')");
        assert_eq!(none["code"], "empty", "two slots are taken: {none}");
    }
    let mut s = pair.primary.session(DATABASE);
    assert_eq!(ack(&mut s, &held[0], "one"), "succeeded");
    assert_eq!(slots(&mut s), "1 held, 1 counted");
    assert_eq!(s.call("fn_job_claim('third', 'paid')")["code"], "claimed");
}
