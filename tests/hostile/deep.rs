//! JSON that is nested deeper, or has larger numbers, than anybody writes by hand, in every argument that takes JSON.

use crate::catalog::{self, Function};
use crate::corpus::{Lexicon, Maker};
use crate::judge;
use crate::world::World;
use agentq_tests::dice::Dice;
use agentq_tests::{Session, database, json};

/// More levels than a Rust parser follows, and than the server itself does unless it is allowed more stack.
const DEEP: [(&str, &str); 7] = [
    ("lists", "(repeat('[', 20000) || repeat(']', 20000))::jsonb"),
    ("objects", "(repeat('{\"a\":', 12000) || '1' || repeat('}', 12000))::jsonb"),
    ("a member", "('{\"a\": ' || repeat('[', 15000) || repeat(']', 15000) || '}')::jsonb"),
    ("an item", "('[{\"job_kind\": ' || repeat('[', 15000) || repeat(']', 15000) || '}]')::jsonb"),
    ("just too deep", "(repeat('[', 129) || repeat(']', 129))::jsonb"),
    ("a large number", "'{\"a\": 1e100000}'::jsonb"),
    ("a small number", "'{\"a\": 1e-16000}'::jsonb"),
];

fn with_json(s: &mut Session) -> Vec<Function> {
    let mut functions = catalog::functions(s);
    functions.retain(|function| !function.is_trigger && function.arguments.iter().any(|a| a.kind == "jsonb"));
    assert!(functions.len() > 30, "{functions:?}");
    functions
}

#[test]
fn json_of_any_depth_is_taken_or_refused_clearly() {
    let db = database();
    let mut s = db.session();
    let world = World::new(&mut s);
    // As much as the server can have: its own functions then go deeper than by default.
    s.run("SET max_stack_depth = '7MB'; SET statement_timeout = '20s'");
    s.run("CREATE TABLE hostile.deep (n int PRIMARY KEY, j jsonb)");
    for (n, (what, value)) in DEEP.iter().enumerate() {
        s.0.batch_execute(&format!("INSERT INTO hostile.deep VALUES ({n}, {value})"))
            .unwrap_or_else(|e| panic!("{what}: {e:?}"));
    }
    let (lexicon, mut dice) = (Lexicon::default(), Dice::new(7));
    let mut wrong = Vec::new();
    for function in with_json(&mut s) {
        for place in (0..function.arguments.len()).filter(|place| function.arguments[*place].kind == "jsonb") {
            for (n, (what, _)) in DEEP.iter().enumerate() {
                let mut maker = Maker { world: &world, lexicon: &lexicon, dice: &mut dice };
                let value = format!("(SELECT j FROM hostile.deep WHERE n = {n})");
                let arguments = maker.sensible_but(&function, place, &value);
                let call = format!("SELECT count(*) FROM {}({arguments}) f", function.qualified());
                let result = s.0.simple_query(&format!("BEGIN; {call}; ROLLBACK"));
                let Err(error) = result else { continue };
                let Some(error) = error.as_db_error() else { panic!("the session has ended: {error}\n{call}") };
                if let Some(problem) = judge::unfit(&function, error) {
                    wrong.push(format!("{what}: {problem}: {}\n    {call:.300}", judge::told(error)));
                }
                s.run("ROLLBACK");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    db.assert_sound();
    judge::assert_calm(db.cluster);
}

#[test]
fn json_that_rust_cannot_read_is_refused_in_words_where_it_has_to_be_read() {
    let db = database();
    let mut s = db.session();
    let deep = "(repeat('{\"a\":', 200) || '1' || repeat('}', 200))::jsonb";
    for call in [
        format!("fn_job_enqueue('x', p_options => {deep})"),
        format!("fn_mission_start({deep})"),
        format!("fn_policy_set('reaction_matrix', {deep})"),
        format!("fn_effect_manifest_set({deep})"),
        "fn_limit_set('k', '{\"max_concurrent\": 1e400}')".to_owned(),
    ] {
        let failure = s.fails(&format!("SELECT agentq.{call}"));
        assert_eq!(failure.code, "22023", "{call}: {failure:?}");
        assert!(failure.message.contains("cannot be read"), "{call}: {failure:?}");
        assert!(failure.hint.contains("128 levels"), "{call}: {failure:?}");
    }
}

#[test]
fn a_term_that_cannot_be_read_is_refused_in_a_batch_as_in_a_single_enqueue() {
    let db = database();
    let mut s = db.session();
    for (term, value) in [
        ("cost", "'{\"usd\": 1e400}'::jsonb"),
        ("limit_keys", "(repeat('[', 200) || repeat(']', 200))::jsonb"),
        ("external_effects", "'1e400'::jsonb"),
        ("start_by", "(repeat('[', 200) || repeat(']', 200))::jsonb"),
    ] {
        let single =
            s.fails(&format!("SELECT agentq.fn_job_enqueue('x', p_options => jsonb_build_object('{term}', {value}))"));
        assert_eq!(single.code, "22023", "{term}: {single:?}");
        let answer = s.call(&format!(
            "fn_job_enqueue_batch(jsonb_build_array(jsonb_build_object('job_kind', 'x', '{term}', {value})))"
        ));
        assert_eq!((&answer["refused"], &answer["created"]), (&json!(1), &json!(0)), "{term}: {answer}");
        let reason = answer["jobs"][0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("cannot be read"), "{term}: {reason}");
    }
    assert_eq!(s.count("agentq.job_queue"), 0);
}

#[test]
fn a_payload_that_only_the_server_can_read_replaces_another() {
    let db = database();
    let mut s = db.session();
    for (number, payload) in
        ["'{\"n\": 1e400}'::jsonb", "('{\"a\": ' || repeat('[', 500) || repeat(']', 500) || '}')::jsonb"]
            .iter()
            .enumerate()
    {
        for mode in
            ["'{\"unique\": {\"mode\": \"replace\"}}'", "'{\"unique\": {\"mode\": \"debounce\", \"seconds\": 5}}'"]
        {
            let key = format!("{number}-{}", mode.len());
            let job = s.call(&format!("fn_job_enqueue('x', '{key}')->'job_id'"));
            let again =
                s.call(&format!("fn_job_enqueue('x', '{key}', p_payload_json => {payload}, p_options => {mode})"));
            assert_eq!(again["job_id"], job, "{again}");
            let is_new = format!(
                "SELECT payload_json = {payload} FROM agentq.job_queue WHERE job_id = '{}'",
                job.as_str().expect("an id")
            );
            assert_eq!(s.text(&is_new), "t", "{mode} {payload}");
            db.assert_sound();
        }
    }
}

#[test]
fn an_event_has_data_that_every_reader_can_read() {
    let db = database();
    let mut s = db.session();
    for data in ["'{\"n\": 1e400}'", "('{\"n\": ' || repeat('[', 500) || repeat(']', 500) || '}')::jsonb"] {
        let failure = s.fails(&format!("SELECT agentq.fn_event_emit('odd', 'me', {data})"));
        assert_eq!(failure.code, "22023", "{failure:?}");
        assert!(failure.message.contains("p_payload cannot be read"), "{failure:?}");
    }
}
