//! Every argument has the bound that the table says: what is as large as its bound passes, and one byte more does not.

use crate::catalog::{self, Argument, Function};
use crate::corpus::{Lexicon, Maker};
use crate::judge;
use crate::world::World;
use agentq_core::bounds::{self, Bound};
use agentq_tests::dice::Dice;
use agentq_tests::{Session, database};
use postgres::SimpleQueryMessage;
use postgres::error::DbError;
use std::collections::BTreeSet;

/// What is over a bound, and what is just within it, as SQL.
struct Case {
    most: usize,
    within: String,
    beyond: String,
}

/// A document of exactly this many bytes, as the server stores it.
fn document(bytes: usize) -> String {
    format!("jsonb_build_object('a', repeat('x', {}))", bytes - 13)
}

/// A document whose member has as many bytes as it may have, and the rest of it this many.
fn beside(s: &mut Session, member: &str, most: usize, rest: usize) -> String {
    let with = |filler: usize| {
        format!("jsonb_build_object('{member}', {}, 'zzzzzzzzzzzzzzz', repeat('x', {filler}))", document(most))
    };
    let size: usize = s.text(&format!("SELECT pg_column_size({}) - 4", with(0))).parse().expect("a number");
    with(most + rest - size)
}

/// The cases of an argument: one, or two for a list.
fn cases(s: &mut Session, argument: &Argument, bound: &Bound) -> Vec<Case> {
    let setting = |s: &mut Session, key: &str| -> usize {
        s.call(&format!("fn_config_get('{key}')")).as_u64().expect("a number of bytes") as usize
    };
    let case =
        |most: usize, value: &dyn Fn(usize) -> String| Case { most, within: value(most), beyond: value(most + 1) };
    match (bound, argument.kind.as_str()) {
        (Bound::Text(most) | Bound::Cut(most), "text") => vec![case(*most, &|bytes| format!("repeat('x', {bytes})"))],
        (Bound::Document(most), "jsonb") => vec![case(*most, &document)],
        (Bound::Setting(key), "jsonb") => vec![case(setting(s, key), &document)],
        (Bound::Beside { member, setting: key, rest }, "jsonb") => {
            let most = setting(s, key);
            let within = beside(s, member, most, *rest);
            vec![Case { most: *rest, within, beyond: beside(s, member, most, rest + 1) }]
        }
        (Bound::List { elements, bytes }, "jsonb") => vec![
            case(*elements, &|count| format!("(SELECT jsonb_agg(1) FROM generate_series(1, {count}))")),
            case(*bytes, &|bytes| format!("jsonb_build_array(repeat('x', {}))", bytes - 8)),
        ],
        (Bound::List { elements, bytes }, "text[]") => {
            let each = bytes / elements;
            let all = format!("array_fill(repeat('x', {each}), ARRAY[{elements}])");
            let with = |more: usize| {
                format!("array_fill(repeat('x', {each}), ARRAY[{}]) || repeat('x', {})", elements - 1, each + more)
            };
            vec![
                Case { most: *elements, within: all.clone(), beyond: format!("{all} || 'x'::text") },
                Case { most: *bytes, within: with(0), beyond: with(1) },
            ]
        }
        (bound, kind) => panic!("{} is of the type {kind}, which cannot have the bound {bound:?}", argument.name),
    }
}

/// Whether an error refuses the argument for its size.
fn is_about_size(error: &DbError, argument: &str, most: usize) -> bool {
    let message = error.message();
    let number = format!("more than the {most} allowed");
    ["22023", "54000"].contains(&error.code().code()) && message.starts_with(argument) && message.contains(&number)
}

/// A query that says in how many rows of all that agentq keeps so many letters stand.
fn stored(s: &mut Session, letters: usize) -> String {
    let each = format!(
        "SELECT count(*) AS n FROM %s AS r WHERE CASE WHEN octet_length(r::text) > {letters} THEN strpos(r::text, repeat(''x'', {letters})) > 0 END"
    );
    let all = format!(
        "SELECT string_agg(format('{each}', oid::regclass), ' UNION ALL ') FROM pg_class
         WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind IN ('r', 'p') AND NOT relispartition"
    );
    format!("SELECT sum(n)::bigint FROM ({}) found", s.text(&all))
}

/// Calls a function in a transaction that is rolled back, and then asks something.
fn try_it(s: &mut Session, function: &Function, arguments: &str, ask: &str) -> Result<i64, Box<DbError>> {
    let call = format!("SELECT count(*) FROM {}({arguments}) f", function.qualified());
    let result = s.0.simple_query(&format!("BEGIN; {call}; {ask}"));
    let result = result.map_err(|error| match error.as_db_error() {
        Some(error) => Box::new(error.clone()),
        None => panic!("the session has ended: {error}\n{call}"),
    });
    s.run("ROLLBACK");
    let last = |messages: Vec<SimpleQueryMessage>| {
        messages
            .iter()
            .filter_map(
                |message| if let SimpleQueryMessage::Row(row) = message { row.get(0)?.parse().ok() } else { None },
            )
            .last()
    };
    result.map(|messages| last(messages).expect("a number"))
}

#[test]
fn every_argument_holds_to_its_bound_and_to_the_byte() {
    let db = database();
    let mut s = db.session();
    let world = World::new(&mut s);
    s.run("SET statement_timeout = '60s'; SET jit = off");
    s.run("CREATE UNLOGGED TABLE hostile.sized (what text PRIMARY KEY, value text, j jsonb, list text[])");
    let too_long = stored(&mut s, bounds::KEPT + 1);
    let (lexicon, mut dice) = (Lexicon::default(), Dice::new(11));
    let (mut wrong, mut tried, mut kept) = (Vec::new(), 0, Kept::default());
    // The others stand behind views, in a schema that nobody is let into.
    let is_for_callers = |function: &&Function| function.is_public && function.qualified().starts_with("agentq.");
    for function in catalog::functions(&mut s).iter().filter(is_for_callers) {
        for (place, argument) in function.arguments.iter().enumerate() {
            if !["text", "jsonb", "text[]", "json", "json[]", "jsonb[]", "uuid[]", "bytea"]
                .contains(&argument.kind.as_str())
            {
                continue;
            }
            let what = format!("{}({})", function.name, argument.name);
            let Some(bound) = bounds::find(&function.name, &argument.name) else {
                wrong.push(format!("{what} has no bound in the table"));
                continue;
            };
            for Case { most, within, beyond } in cases(&mut s, argument, bound) {
                tried += 1;
                let mut call = |value: &str, ask: &str| {
                    let mut maker = Maker { world: &world, lexicon: &lexicon, dice: &mut dice };
                    let value = kept.get(&mut s, argument, value);
                    let arguments = maker.sensible_but(function, place, &value);
                    try_it(&mut s, function, &arguments, ask)
                };
                if let Err(error) = call(&within, "SELECT 0")
                    && is_about_size(&error, &argument.name, most)
                {
                    wrong.push(format!("{what} of {most} is refused: {}", judge::told(&error)));
                }
                match (bound, call(&beyond, if matches!(bound, Bound::Cut(_)) { &too_long } else { "SELECT 0" })) {
                    (Bound::Cut(_), Ok(0)) => {}
                    (Bound::Cut(_), Ok(rows)) => {
                        wrong.push(format!("{what} is not cut at {most}: {rows} rows have it whole"))
                    }
                    (Bound::Cut(_), Err(error)) if !is_about_size(&error, &argument.name, most) => {}
                    (_, Err(error)) if is_about_size(&error, &argument.name, most) => {
                        if let Some(problem) = judge::unfit(function, &error) {
                            wrong.push(format!("{what}: {problem}: {}", judge::told(&error)));
                        }
                    }
                    (_, Err(error)) => {
                        wrong.push(format!("{what} over {most} is refused for something else: {}", judge::told(&error)))
                    }
                    (_, Ok(_)) => wrong.push(format!("{what} over {most} is not refused")),
                }
            }
        }
    }
    assert!(tried > 220, "{tried}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Values that are kept in the server, where each is made once.
#[derive(Default)]
struct Kept(BTreeSet<String>);

impl Kept {
    /// The value, as SQL that looks it up.
    fn get(&mut self, s: &mut Session, argument: &Argument, value: &str) -> String {
        let column = match argument.kind.as_str() {
            "text" => "value",
            "jsonb" => "j",
            _ => "list",
        };
        let key = format!("{column} {value}").replace('\'', "''");
        if self.0.insert(key.clone()) {
            s.run(&format!("INSERT INTO hostile.sized (what, {column}) VALUES ('{key}', {value})"));
        }
        format!("(SELECT {column} FROM hostile.sized WHERE what = '{key}')")
    }
}

/// What a failure says is worth more short than not at all.
#[test]
fn a_failure_with_a_long_text_is_reported_with_its_beginning() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("a");
    s.claim("bob");
    s.call(&format!(
        "fn_job_fail_or_retry('{job}', 'bob', repeat('é', 100000), p_error_detail => repeat('é', 100000))"
    ));
    let cut = format!("octet_length(error) = {0} AND octet_length(error_detail) = {0}", bounds::KEPT);
    assert_eq!(s.count(&format!("agentq_internal.job_attempt_log WHERE {cut}")), 1);
}

/// The queue as a table: an INSERT and an UPDATE are held to the bounds of the functions behind them.
#[test]
fn the_columns_of_the_queue_have_the_bounds_of_the_functions_behind_them() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("a");
    let columns = s.texts(
        "SELECT column_name || ' ' || data_type FROM information_schema.columns
         WHERE table_schema = 'agentq' AND table_name = 'job_queue' AND data_type IN ('text', 'jsonb')",
    );
    let mut refused = Vec::new();
    for column in &columns {
        let (name, kind) = column.split_once(' ').expect("a type");
        let most = match bounds::find("fn_job_enqueue", &format!("p_{name}")) {
            Some(Bound::Text(most) | Bound::Cut(most) | Bound::Document(most)) => *most,
            Some(Bound::Setting(key)) => s.call(&format!("fn_config_get('{key}')")).as_u64().expect("bytes") as usize,
            // No column that an INSERT may set is longer than a name.
            _ => bounds::REFERENCE,
        };
        let value = if kind == "jsonb" { document(most + 1) } else { format!("repeat('x', {})", most + 1) };
        let insert = if name == "job_kind" {
            format!("INSERT INTO agentq.job_queue (job_kind) VALUES ({value})")
        } else {
            format!("INSERT INTO agentq.job_queue (job_kind, {name}) VALUES ('a', {value})")
        };
        let failure = s.fails(&insert);
        assert!(["22023", "54000", "0A000"].contains(&failure.code.as_str()), "{insert}: {failure:?}");
        refused.extend((failure.code == "22023").then_some(name));
        let failure = s.fails(&format!("UPDATE agentq.job_queue SET {name} = {value} WHERE job_id = '{job}'"));
        assert!(["22023", "54000", "0A000"].contains(&failure.code.as_str()), "{name}: {failure:?}");
    }
    assert!(refused.contains(&"job_kind") && refused.contains(&"payload_json") && refused.contains(&"idempotency_key"));
    assert_eq!(s.count("agentq.job_queue"), 1);
}

#[test]
fn the_table_names_no_function_and_no_argument_that_is_not_there() {
    let db = database();
    let functions = catalog::functions(&mut db.session());
    for (name, arguments) in bounds::TABLE {
        let function = functions.iter().find(|function| function.name == *name && function.is_public);
        let function = function.unwrap_or_else(|| panic!("there is no {name}"));
        for (argument, _) in *arguments {
            assert!(function.arguments.iter().any(|other| other.name == *argument), "{name} has no {argument}");
        }
    }
}
