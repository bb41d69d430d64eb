//! The hot path reads and writes its tables without SQL: what a statement would have kept, it keeps.

use agentq_tests::{Session, Value, claimed, database, drain, enqueue_all, expect, id, json, token};

/// The answers are put together byte by byte; read as text and back they must be the same value.
#[track_caller]
fn same_when_read_again(s: &mut Session, call: &str) {
    let sql = format!(
        "SELECT jsonb_send(a) = jsonb_send(a::text::jsonb) AND jsonb_typeof(a) = 'object' AND pg_column_size(a) = pg_column_size(a::text::jsonb)
             AND NOT EXISTS (SELECT FROM jsonb_object_keys(a) k WHERE NOT a ? k)
         FROM (SELECT agentq.{call} AS a OFFSET 0) x"
    );
    assert_eq!(s.text(&sql), "t", "{call}");
}

#[test]
fn an_answer_is_exactly_what_the_server_would_have_built() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_config_set('queue.payload.max_bytes', '1000000')");
    for payload in [
        "'{}'",
        "'{\"a\": [1, -2.5e10, null, true, {\"b\": \"ü\"}], \"\": \"\"}'",
        "jsonb_build_object('long', repeat('x', 100000))",
        "(SELECT jsonb_object_agg('key' || i, i) FROM generate_series(1, 500) i)",
    ] {
        let call = format!(
            "fn_job_enqueue('kind of ü', 'key ' || random(), 'me', {payload}, 'source', repeat('t', 3000), 'p',
             p_run_id => gen_random_uuid())"
        );
        same_when_read_again(&mut s, &call);
        s.call(&format!("fn_job_enqueue('b', p_payload_json => {payload})"));
        same_when_read_again(&mut s, "fn_job_claim('bob', 'kind of ü')");
        same_when_read_again(&mut s, "fn_job_claim_batch('bob', 5)");
        assert_eq!(
            s.text(&format!(
                "SELECT count(*) FROM agentq_internal.job j WHERE payload_json = {payload} AND EXISTS (SELECT FROM agentq_internal.job_lease l
                 WHERE l.job_id = j.job_id)"
            )),
            "2"
        );
        s.run("DELETE FROM agentq_internal.job_lease; DELETE FROM agentq_internal.job");
    }
}

#[test]
fn a_claim_hands_out_every_field_as_it_is_stored() {
    let db = database();
    let mut s = db.session();
    s.run("SET timezone = 'Asia/Kolkata'");
    s.call(
        "fn_job_enqueue('k', 'the key', 'ann', '{\"n\": 1}', 'src', 'tgt', 'ref', 7, '2020-02-03 04:05:06.789+00', 9,
         '00000000-0000-0000-0000-00000000002a')",
    );
    let found = claimed(&mut s, "bob");
    let expected = s.json(
        "SELECT to_jsonb(j) || jsonb_build_object('ok', true, 'code', 'claimed', 'attempt', attempts + 1, 'checkpoint', NULL,
             'lease_token', (SELECT lease_token FROM agentq_internal.job_lease), 'claimed_at', picked_at, 'lease_seconds', 300)
         FROM agentq.job_queue j",
        &[],
    );
    for (field, value) in found.as_object().expect("an object") {
        assert_eq!(*value, expected[field], "{field}");
    }
    assert!(found["scheduled_at"].as_str().is_some_and(|at| at.ends_with("+05:30")), "{found}");
}

#[test]
fn a_checkpoint_of_any_shape_comes_back() {
    let db = database();
    let mut s = db.session();
    for checkpoint in [json!(7), json!("text"), json!(null), json!([]), json!({"page": [1, 2]}), json!(true)] {
        let job = s.enqueue("x");
        claimed(&mut s, "bob");
        s.call(&format!("fn_job_heartbeat('{job}', 'bob', p_checkpoint => '{checkpoint}')"));
        s.call(&format!("fn_job_release('{job}', 'bob')"));
        assert_eq!(claimed(&mut s, "bob")["checkpoint"], checkpoint);
        s.call(&format!("fn_job_release('{job}', 'bob')"));
        let batch = expect(&mut s, "claimed", "fn_job_claim_batch('bob', 2)");
        assert_eq!(batch["jobs"][0]["checkpoint"], checkpoint);
        s.call(&format!("fn_job_ack('{job}', 'bob')"));
    }
}

#[test]
fn claims_over_several_lanes_keep_the_order_over_any_number_of_priorities() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_queue_set('other')");
    // 40 priorities in each of four lanes, entered in an order of their own.
    let jobs = s.texts(
        "SELECT agentq.fn_job_enqueue(kind, p_priority => priority, p_scheduled_at => '2020-01-01'::timestamptz + tie * interval '1 s',
             p_options => jsonb_build_object('queue', queue))->>'job_id'
         FROM unnest(ARRAY['a', 'b']) kind, unnest(ARRAY['default', 'other']) queue, generate_series(1, 40) priority,
              generate_series(1, 2) tie
         ORDER BY md5(kind || queue || priority || tie)",
    );
    assert_eq!(jobs.len(), 320);
    let expected = s.texts("SELECT job_id FROM agentq.job_queue ORDER BY priority, scheduled_at, job_id");
    for claim in [
        "fn_job_claim('bob', p_options => '{\"kinds\": [\"a\", \"b\"], \"queues\": [\"default\", \"other\"]}')",
        "fn_job_claim('bob', p_options => '{\"queues\": [\"default\", \"other\"]}')",
    ] {
        s.run("BEGIN");
        assert_eq!(drain(&mut s, claim, "job_id"), expected, "{claim}");
        s.run("ROLLBACK");
    }
    let batch = expect(
        &mut s,
        "claimed",
        "fn_job_claim_batch('bob', 320, p_options => '{\"queues\": [\"default\", \"other\"]}')",
    );
    let found: Vec<String> = batch["jobs"].as_array().expect("a list").iter().map(id).collect();
    assert_eq!(found, expected);
    db.assert_sound();
}

#[test]
fn an_index_and_a_trigger_of_the_operator_are_kept_up() {
    let db = database();
    let mut s = db.session();
    s.run(
        "CREATE INDEX ON agentq_internal.job_done ((upper(lease_owner))) WHERE finished_at IS NOT NULL;
         CREATE INDEX ON agentq_internal.job_lease (lease_owner);
         CREATE TABLE seen (job_id uuid);
         CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.seen VALUES (NEW.job_id); RETURN NULL; END $$;
         CREATE TRIGGER see AFTER INSERT ON agentq_internal.job_done FOR EACH ROW EXECUTE FUNCTION see();
         SET enable_seqscan = off",
    );
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    assert_eq!(s.count("agentq_internal.job_lease WHERE lease_owner = 'bob'"), 1);
    s.call(&format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(s.count("agentq_internal.job_done WHERE upper(lease_owner) = 'BOB' AND finished_at IS NOT NULL"), 1);
    assert_eq!(s.texts("SELECT job_id FROM seen"), [job]);
}

#[test]
fn a_batch_keeps_up_the_indexes_and_triggers_of_the_operator_too() {
    let db = database();
    let mut s = db.session();
    s.run(
        "CREATE INDEX ON agentq_internal.job ((upper(job_kind)));
         CREATE TABLE seen (job_id uuid, before bigint);
         CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.seen SELECT NEW.job_id, count(*) FROM agentq_internal.job_ready; RETURN NULL; END $$;
         SET enable_seqscan = off",
    );
    let batch = r#"fn_job_enqueue_batch('[{"job_kind": "a"}, {"job_kind": "b"}, {"job_kind": "a"}]')"#;
    s.call(batch);
    assert_eq!(s.count("agentq_internal.job WHERE upper(job_kind) = 'A'"), 2);
    s.run("CREATE TRIGGER see AFTER INSERT ON agentq_internal.job_ready FOR EACH ROW EXECUTE FUNCTION see()");
    let ids = each_id(&s.call(batch));
    assert_eq!(s.texts("SELECT job_id FROM seen ORDER BY before, job_id"), ids);
    s.run("ALTER TABLE agentq_internal.job ADD CONSTRAINT no_b CHECK (job_kind <> 'b') NOT VALID");
    let failure = s.fails(&format!("SELECT agentq.{batch}"));
    assert_eq!((failure.code.as_str(), failure.message.contains("no_b")), ("23514", true), "{failure:?}");
    assert_eq!(s.count("agentq.job_queue"), 6);
    db.assert_sound();
}

fn each_id(answer: &Value) -> Vec<String> {
    answer["jobs"].as_array().expect("jobs").iter().map(id).collect()
}

#[test]
fn a_batch_of_ten_thousand_large_jobs_is_stored_whole() {
    let db = database();
    let mut s = db.session();
    s.run(
        r#"SELECT agentq.fn_job_enqueue_batch((SELECT jsonb_agg(jsonb_build_object('job_kind', 'k' || n % 7,
            'priority', n % 3, 'payload_json', jsonb_build_object('n', n, 'pad', repeat(md5(n::text), n % 200))))
            FROM generate_series(1, 10000) n))"#,
    );
    let wrong = "agentq.job_queue WHERE payload_json->>'pad' <>
        repeat(md5(payload_json->>'n'), (payload_json->>'n')::int % 200)
        OR job_kind <> 'k' || (payload_json->>'n')::int % 7 OR priority <> (payload_json->>'n')::int % 3";
    assert_eq!((s.count("agentq.job_queue"), s.count(wrong)), (10_000, 0));
    assert_eq!(s.count("(SELECT job_id FROM agentq.job_queue GROUP BY job_id) j"), 10_000);
    let ordered = "SELECT bool_and(n > before) FROM (SELECT (payload_json->>'n')::int AS n,
        lag((payload_json->>'n')::int, 1, 0) OVER (ORDER BY job_id) AS before FROM agentq.job_queue) j";
    assert_eq!(s.text(ordered), "t");
    db.assert_sound();
}

#[test]
fn a_column_that_the_operator_added_with_a_default_is_null_in_new_rows() {
    let db = database();
    let mut s = db.session();
    s.enqueue("before");
    s.run("ALTER TABLE agentq_internal.job ADD COLUMN shade text DEFAULT 'grey'");
    s.run("ALTER TABLE agentq_internal.job_lease ADD COLUMN shade text DEFAULT 'grey'");
    s.enqueue("after");
    expect(&mut s, "enqueued", r#"fn_job_enqueue_batch('[{"job_kind": "after"}, {"job_kind": "after"}]')"#);
    claimed(&mut s, "bob");
    assert_eq!(s.count("agentq_internal.job WHERE shade = 'grey'"), 1, "the row that was there");
    assert_eq!(s.count("agentq_internal.job WHERE shade IS NULL"), 3);
    assert_eq!(s.count("agentq_internal.job_lease WHERE shade IS NULL"), 1);
}

#[test]
fn a_constraint_of_the_operator_holds() {
    let db = database();
    let mut s = db.session();
    s.run("ALTER TABLE agentq_internal.job_lease ADD CONSTRAINT no_eve CHECK (lease_owner <> 'eve')");
    let job = s.enqueue("x");
    let failure = s.fails("SELECT agentq.fn_job_claim('eve')");
    assert_eq!((failure.code.as_str(), failure.message.contains("no_eve")), ("23514", true), "{failure:?}");
    assert_eq!(id(&claimed(&mut s, "bob")), job);
}

#[test]
fn tables_of_another_version_are_refused_with_the_way_out() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    s.run("ALTER TABLE agentq_internal.job_lease RENAME COLUMN keyed TO lock");
    let mut other = db.session();
    let failure = other.fails("SELECT agentq.fn_job_claim('bob')");
    assert_eq!(
        (failure.code.as_str(), failure.hint.as_str()),
        ("55000", "Run ALTER EXTENSION agentq UPDATE."),
        "{failure:?}"
    );
    assert!(failure.message.contains("the table or index job_lease is not"), "{failure:?}");
    s.run("ALTER TABLE agentq_internal.job_lease RENAME COLUMN lock TO keyed");
    assert_eq!(id(&claimed(&mut other, "bob")), job);
}

#[test]
fn a_claim_and_an_ack_see_what_their_own_transaction_did() {
    let db = database();
    let mut s = db.session();
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        s.run(&format!("BEGIN ISOLATION LEVEL {isolation}"));
        let job = s.enqueue("x");
        let found = claimed(&mut s, "bob");
        assert_eq!(id(&found), job, "{isolation}");
        assert_eq!(s.claim("bob")["code"], "empty", "{isolation}");
        let ack = format!("fn_job_ack('{job}', 'bob', p_lease_token => '{}')", token(&found));
        expect(&mut s, "succeeded", &ack);
        expect(&mut s, "already_finished", &ack);
        s.run("COMMIT");
        assert_eq!(s.state(&job), "succeeded", "{isolation}");
    }
    db.assert_sound();
}

#[test]
fn a_job_taken_by_another_since_a_fixed_snapshot_is_skipped() {
    let db = database();
    let (mut fixed, mut other) = (db.session(), db.session());
    let jobs = enqueue_all(&mut other, &["x", "x"], "");
    fixed.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM agentq_internal.job");
    assert_eq!(id(&claimed(&mut other, "ann")), jobs[0]);
    assert_eq!(id(&claimed(&mut fixed, "bob")), jobs[1]);
    fixed.run("COMMIT");
    db.assert_sound();
}

#[test]
fn an_ack_against_a_lease_changed_since_a_fixed_snapshot_is_a_serialization_failure() {
    let db = database();
    let (mut fixed, mut other) = (db.session(), db.session());
    let job = other.enqueue("x");
    claimed(&mut other, "bob");
    fixed.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM agentq_internal.job");
    other.call(&format!("fn_job_heartbeat('{job}', 'bob')"));
    let failure = fixed.fails(&format!("SELECT agentq.fn_job_ack('{job}', 'bob')"));
    assert_eq!((failure.code.as_str(), failure.hint.as_str()), ("40001", "Run the transaction again."), "{failure:?}");
    fixed.run("ROLLBACK");
    expect(&mut fixed, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
}

#[test]
fn an_ack_waits_for_a_heartbeat_and_then_counts() {
    let db = database();
    let (mut worker, mut other) = (db.session(), db.session());
    let job = worker.enqueue("x");
    claimed(&mut worker, "bob");
    other.run("BEGIN");
    other.call(&format!("fn_job_heartbeat('{job}', 'bob')"));
    let ack = std::thread::spawn({
        let call = format!("fn_job_ack('{job}', 'bob')");
        move || worker.call(&call)
    });
    agentq_tests::eventually("the ack waits", || db.session().count("pg_locks WHERE NOT granted") == 1);
    other.run("COMMIT");
    assert_eq!(ack.join().expect("the ack ends")["code"], "succeeded");
    db.assert_sound();
}

#[test]
fn a_claim_whose_statement_fails_leaves_its_jobs_first_in_line() {
    let db = database();
    let (mut worker, mut other) = (db.session(), db.session());
    let jobs = enqueue_all(&mut other, &["x"; 4], "");
    assert_eq!(id(&claimed(&mut worker, "bob")), jobs[0]);
    // The second insert of a lease of this batch fails after both ready rows are gone.
    other.run(&format!(
        "ALTER TABLE agentq_internal.job_lease ADD CONSTRAINT not_third CHECK (job_id <> '{}')",
        jobs[2]
    ));
    worker.fails("SELECT agentq.fn_job_claim_batch('bob', 3)");
    other.run("ALTER TABLE agentq_internal.job_lease DROP CONSTRAINT not_third");
    assert_eq!(drain(&mut worker, "fn_job_claim('bob')", "job_id"), jobs[1..]);
    db.assert_sound();
}

/// An access method may keep a page at hand from one row to the next, as that of BRIN does, and must be told when it is over.
#[test]
fn no_page_stays_pinned_when_a_transaction_ends() {
    let db = database();
    let mut s = db.session();
    for count in [1, 3] {
        (0..count).for_each(|_| drop(s.enqueue("k")));
        let jobs = s.call(&format!("fn_job_claim_batch('bob', {count}, p_options => '{{\"acks\": true}}')"));
        let answer = s.json("SELECT agentq.fn_job_ack_batch('bob', $1)", &[&jobs["acks"]]);
        assert_eq!(answer["ok"], true, "{answer}");
    }
    let log = db.cluster.log();
    let lines: Vec<&str> = log.lines().collect();
    let is_leak =
        |line: &str| line.contains("WARNING") && [" leak", "not closed"].iter().any(|words| line.contains(words));
    // Each with the statement that the server names behind it.
    let leaks: Vec<String> = lines.windows(4).filter(|lines| is_leak(lines[0])).map(|lines| lines.join("\n")).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
