//! Values larger than anything should be: refused in words, and the memory for them given back.

use crate::catalog;
use crate::corpus::{Lexicon, Maker};
use crate::judge;
use crate::world::World;
use agentq_tests::dice::Dice;
use agentq_tests::process::{height_of_kb, memory_of_kb};
use agentq_tests::{Session, as_server_user, database};
use std::collections::BTreeMap;

/// By how much a session may have grown when it has refused what is large, in kB.
const KEPT_KB: i64 = 64 * 1024;

#[test]
fn three_hundred_megabytes_are_refused_and_their_memory_is_given_back() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    s.claim("bob");
    let before = memory_of_kb(&mut s);
    let text = "repeat('x', 314572800)";
    let json = "jsonb_build_object('a', repeat('x', 268000000))";
    for call in [
        format!("fn_job_enqueue({text})"),
        format!("fn_job_enqueue('x', {text})"),
        format!("fn_job_enqueue('x', p_payload_json => {json})"),
        format!("fn_job_enqueue('x', p_options => {json})"),
        format!("fn_job_claim({text})"),
        format!("fn_job_ack('{job}', 'bob', {json})"),
        format!("fn_job_heartbeat('{job}', 'bob', p_checkpoint => {json})"),
        format!("fn_event_emit('x', 'y', {json})"),
        format!("fn_mission_start({json})"),
        format!("fn_policy_set('mine', {json})"),
        format!("fn_job_enqueue_batch(jsonb_build_array({json}))->'no such'"),
    ] {
        let result = s.0.simple_query(&format!("SELECT agentq.{call}"));
        let Err(error) = result else {
            assert!(call.contains("batch"), "this must be refused: {call}");
            continue;
        };
        let error = error.as_db_error().unwrap_or_else(|| panic!("the session has ended: {error}\n{call}"));
        assert!(["22023", "54000"].contains(&error.code().code()), "{call}: {}", judge::told(error));
        assert!(error.message().len() < 1_000, "{call}: {}", judge::told(error));
        let kept = memory_of_kb(&mut s) - before;
        assert!(kept < KEPT_KB, "{kept} kB are kept after {call}");
    }
    assert_eq!(s.count("agentq.job_queue"), 1, "nothing of it was written");
    judge::assert_calm(db.cluster);
}

/// The size of everything that agentq keeps, also of what has not been committed.
const STORED: &str = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
    WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind = 'r'";

#[test]
fn no_argument_is_stored_or_told_of_at_any_length() {
    let db = database();
    let mut s = db.session();
    let world = World::new(&mut s);
    s.run("SET statement_timeout = '20s'");
    // Letters that do not repeat: what is stored of them can be seen by its size.
    s.run("INSERT INTO hostile.large SELECT 20, jsonb_build_object('a', t), t FROM (SELECT string_agg(md5(i::text), '') AS t
        FROM generate_series(1, 65000) i) letters");
    let (lexicon, mut dice) = (Lexicon::default(), Dice::new(11));
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for function in catalog::functions(&mut s).iter().filter(|function| function.is_public && !function.is_trigger) {
        for (place, argument) in function.arguments.iter().enumerate() {
            let column = match argument.kind.as_str() {
                "text" => "t",
                "jsonb" => "j",
                _ => continue,
            };
            tried += 1;
            let mut maker = Maker { world: &world, lexicon: &lexicon, dice: &mut dice };
            let value = format!("(SELECT {column} FROM hostile.large WHERE n = 20)");
            let arguments = maker.sensible_but(function, place, &value);
            let call = format!(
                "SELECT coalesce(sum(length(f::text)), 0)::bigint FROM {}({arguments}) f",
                function.qualified()
            );
            let what = format!("{}({})", function.name, argument.name);
            match numbers(&mut s, &format!("BEGIN; {STORED}; {call}; {STORED}; ROLLBACK")) {
                Ok(sizes) => {
                    let stored = sizes[2] - sizes[0];
                    if sizes[1] > 100_000 || stored > 1_500_000 {
                        wrong.push(format!("{what} answers with {} bytes, and stores {stored}", sizes[1]));
                    }
                }
                Err(error) => {
                    let Some(error) = error.as_db_error() else { panic!("the session has ended: {error}\n{call}") };
                    if let Some(problem) = judge::unfit(function, error) {
                        wrong.push(format!("{what}: {problem}: {}", judge::told(error)));
                    }
                    s.run("ROLLBACK");
                }
            }
        }
    }
    assert!(tried > 150, "{tried}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    judge::assert_calm(db.cluster);
}

/// The number that each statement answers with.
fn numbers(s: &mut Session, sql: &str) -> Result<Vec<i64>, postgres::Error> {
    let messages = s.0.simple_query(sql)?;
    let number = |message: &postgres::SimpleQueryMessage| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).and_then(|number| number.parse().ok()),
        _ => None,
    };
    Ok(messages.iter().filter_map(number).collect())
}

#[test]
fn a_list_of_a_million_is_refused_by_its_length() {
    let db = database();
    let mut s = db.session();
    s.run("SET statement_timeout = '30s'");
    s.run(
        "CREATE TABLE million AS SELECT
        (SELECT jsonb_agg('{\"job_kind\": \"x\"}'::jsonb) FROM generate_series(1, 1000000)) AS jobs,
        (SELECT jsonb_agg('{\"kind\": \"x\"}'::jsonb) FROM generate_series(1, 1000000)) AS steps,
        (SELECT jsonb_agg('name' || i) FROM generate_series(1, 1000000) i) AS ids",
    );
    let calls = [
        "fn_job_enqueue_batch(jobs)",
        "fn_job_ack_batch('w', jobs)",
        "fn_job_ack_batch('w', ids)",
        "fn_job_ack_and_claim_batch('w', ids, 5)",
        "fn_job_claim('w', p_options => jsonb_build_object('queues', ids))",
        "fn_job_claim('w', p_options => jsonb_build_object('kinds', ids))",
        "fn_job_claim('w', p_options => jsonb_build_object('capabilities', ids))",
        "fn_job_enqueue('x', p_options => jsonb_build_object('requires', ids))",
        "fn_job_enqueue('x', p_options => jsonb_build_object('limit_keys', ids))",
        "fn_mission_start(jsonb_build_object('steps', steps))",
        "fn_proposal_create('k', 'api', jsonb_build_object('steps', steps))",
        "fn_policy_set('reaction_matrix', jobs)",
        "fn_event_emit('x', 'y', '{}', jsonb_build_object('tags', ids))",
        "fn_event_read(0, 5, NULL, jsonb_build_object('kinds', ids))",
    ];
    // What a session has needed once it may keep for the next time. It must not need more each time.
    let mut needed = Vec::new();
    for _ in 0..3 {
        for call in calls {
            let result = s.0.simple_query(&format!("SELECT agentq.{call} FROM million"));
            let error = result.err().unwrap_or_else(|| panic!("this must be refused: {call}"));
            let error = error.as_db_error().unwrap_or_else(|| panic!("the session has ended: {error}\n{call}"));
            assert_eq!(error.code().code(), "22023", "{call}: {}", judge::told(error));
            assert!(error.message().len() < 1_000 && error.hint().is_some(), "{call}: {}", judge::told(error));
        }
        needed.push(memory_of_kb(&mut s));
    }
    assert!(needed[2] - needed[1] < KEPT_KB, "the session grows: {needed:?} kB");
    assert_eq!(s.count("agentq.job_queue"), 0);
}

/// What a function may take of memory for a large value, as a multiple of its size. The server itself needs some of it: it
/// unpacks what is stored, and hands over a copy.
const MOST_TIMES: i64 = 10;

/// Values that are small as they stand and become large when they are taken apart.
const TWISTED: [(&str, &str); 5] = [
    ("numbers", "(SELECT jsonb_agg(i % 10) FROM generate_series(1, 1000000) i)"),
    ("empty objects", "(SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 1000000) i)"),
    ("members", "(SELECT jsonb_object_agg(i::text, 1) FROM generate_series(1, 400000) i)"),
    ("steps", "(SELECT jsonb_build_object('title', 't', 'steps', jsonb_agg(1)) FROM generate_series(1, 1000000) i)"),
    (
        "input",
        "(SELECT jsonb_build_object('input', jsonb_agg(jsonb_build_array(i % 10))) FROM generate_series(1, 400000) i)",
    ),
];

#[test]
fn no_argument_takes_more_than_a_few_times_its_size() {
    let db = database();
    let mut s = db.session();
    let world = World::new(&mut s);
    s.run("CREATE TABLE hostile.twisted (name text, j jsonb)");
    for (name, value) in TWISTED {
        s.run(&format!("INSERT INTO hostile.twisted SELECT '{name}', {value}"));
    }
    let (lexicon, mut dice) = (Lexicon::default(), Dice::new(11));
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for function in catalog::functions(&mut s).iter().filter(|function| function.is_public && !function.is_trigger) {
        for (place, argument) in function.arguments.iter().enumerate().filter(|(_, argument)| argument.kind == "jsonb")
        {
            for (name, _) in TWISTED {
                tried += 1;
                let mut maker = Maker { world: &world, lexicon: &lexicon, dice: &mut dice };
                let value = format!("(SELECT j FROM hostile.twisted WHERE name = '{name}')");
                let arguments = maker.sensible_but(function, place, &value);
                let mut own = db.session();
                own.run("SET statement_timeout = '60s'");
                let size = format!(
                    "SELECT pg_column_size(j || CASE jsonb_typeof(j) WHEN 'array' THEN '[]' ELSE '{{}}' END::jsonb)
                     FROM hostile.twisted WHERE name = '{name}'"
                );
                let size: i64 = own.text(&size).parse().expect("a number");
                let kb = height_of_kb(&mut own, |s| {
                    let call = format!("SELECT count(*) FROM {}({arguments}) f", function.qualified());
                    if let Err(error) = s.0.simple_query(&call) {
                        assert!(error.as_db_error().is_some(), "the session has ended: {error}\n{call}");
                    }
                });
                let most = MOST_TIMES * size / 1024;
                if kb > most {
                    wrong.push(format!(
                        "{}({}) of {name}: {kb} kB for {} kB",
                        function.name,
                        argument.name,
                        size / 1024
                    ));
                }
            }
        }
    }
    assert!(tried > 150, "{tried}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Texts and lists of texts: longer than any bound, and many.
const LONG: [(&str, &str, &str); 3] = [
    ("long", "repeat('x', 30000000)", "ARRAY[repeat('x', 30000000)]"),
    ("lines", "repeat(E'x\\n', 1000000)", "array_fill('x'::text, ARRAY[1000000])"),
    ("fitting", "repeat('x', 60000)", "(SELECT array_agg('alias ' || i) FROM generate_series(1, 900) i)"),
];

/// Where memory is short, a call fails, and the server lives on.
#[test]
fn no_argument_ends_the_server_where_memory_is_short() {
    let db = database();
    let mut s = db.session();
    let world = World::new(&mut s);
    s.run("CREATE TABLE hostile.twisted (name text, j jsonb, t text, l text[])");
    for (name, value) in TWISTED {
        s.run(&format!("INSERT INTO hostile.twisted (name, j) SELECT '{name}', {value}"));
    }
    s.run("INSERT INTO hostile.twisted (name, j) SELECT 'fitting', (SELECT jsonb_build_object('title', 't', 'steps', jsonb_agg(jsonb_build_object('name', 's' || i, 'kind', 'k', 'params', jsonb_build_object('n', repeat('x', 200))))) FROM generate_series(1, 900) i)");
    for (name, text, list) in LONG {
        s.run(&format!("INSERT INTO hostile.twisted (name, t, l) VALUES ('{name}', {text}, {list})"));
    }
    let documents: Vec<&str> = TWISTED.iter().map(|(name, _)| *name).chain(["fitting"]).collect();
    let texts = LONG.map(|(name, ..)| name);
    let (lexicon, mut dice) = (Lexicon::default(), Dice::new(11));
    let (mut short, mut tried) = (BTreeMap::new(), 0);
    for function in catalog::functions(&mut s).iter().filter(|function| function.is_public && !function.is_trigger) {
        for (place, argument) in function.arguments.iter().enumerate() {
            let (column, names) = match argument.kind.as_str() {
                "jsonb" => ("j", documents.as_slice()),
                "text" => ("t", texts.as_slice()),
                "text[]" => ("l", texts.as_slice()),
                _ => continue,
            };
            for name in names {
                tried += 1;
                let mut maker = Maker { world: &world, lexicon: &lexicon, dice: &mut dice };
                let value =
                    format!("(SELECT {column} FROM hostile.twisted WHERE name = '{name}' AND {column} IS NOT NULL)");
                let arguments = maker.sensible_but(function, place, &value);
                let mut own = db.session();
                own.run("SET statement_timeout = '60s'");
                // What any call needs is there; beyond that there is room for some megabytes.
                own.call("fn_config_get('queue.payload.max_bytes')");
                own.run("SELECT count(*) FROM hostile.twisted");
                let room = 2 + dice.below(40) as i64;
                limit_memory(&mut own, room * 1024 * 1024);
                let call = format!("SELECT count(*) FROM {}({arguments}) f", function.qualified());
                if let Err(error) = own.0.simple_query(&call) {
                    let error = error
                        .as_db_error()
                        .unwrap_or_else(|| panic!("the server has ended: {error}\n{call}, with {room} MB"));
                    *short.entry(column).or_insert(0) += i32::from(error.code().code() == "53200");
                }
            }
        }
    }
    let enough = ["j", "t"].iter().all(|column| short.get(column).is_some_and(|short| *short > 20));
    assert!(tried > 600 && enough, "{short:?} of {tried} had too little");
    judge::assert_calm(db.cluster);
}

/// Lets a session have no more than so many bytes beside what it has.
fn limit_memory(s: &mut Session, more: i64) {
    let pid = s.text("SELECT pg_backend_pid()");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a line");
    let size: i64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    let most = size * 1024 + more;
    let limited = as_server_user("prlimit").args(["--pid", &pid, &format!("--as={most}:{most}")]).status();
    assert!(limited.expect("prlimit is there").success());
}
