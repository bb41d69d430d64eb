//! How SQL text comes to be, read from the sources: nothing that a caller gives may become part of it.
//!
//! A statement is a block of a file, with parameters. Every other place that hands text to the server, or builds
//! text that reads like SQL, stands in a list here with the reason why it is safe. A new one fails until
//! somebody has looked at it and written down why.

use crate::sources::files;
use agentq_tests::{database, project_root};

/// Where Rust hands text to the server, how often, and what text that can be.
const TO_THE_SERVER: [(&str, usize, &str); 3] = [
    ("src/db/plan.rs", 1, "prepares a Statement, whose text is 'static: a file, or a constant"),
    (
        "src/engine/sql_worker.rs",
        2,
        "runs a handler's SQL, as registered, in the handler's role; and constants of this file",
    ),
    ("src/governance/hook.rs", 1, "calls the gate's hook, whose name is checked to be a plain one, in the hook's role"),
];

/// The server's ways to take a text for SQL.
const TAKERS: [&str; 8] = [
    "SPI_prepare",
    "SPI_execute(",
    "SPI_execute_with_args(",
    "SPI_exec(",
    "SPI_cursor_open_with_args",
    "SPI_execute_extended",
    "Spi::run",
    "pg_parse_query",
];

#[test]
fn rust_hands_text_to_the_server_in_known_places_only() {
    let mut found: Vec<(String, usize)> = files("src", ".rs")
        .into_iter()
        .map(|(name, text)| (name, TAKERS.iter().map(|taker| text.matches(taker).count()).sum()))
        .filter(|(_, count)| *count > 0)
        .collect();
    found.sort();
    let known: Vec<(String, usize)> =
        TO_THE_SERVER.iter().map(|(name, count, _)| ((*name).to_owned(), *count)).collect();
    assert_eq!(found, known, "look at what the text can be, and write it into the list");
    // Also by other ways of the library that agentq is built with.
    for (name, text) in files("src", ".rs") {
        for way in ["client.select(", "client.update(", "Spi::get_one", "Spi::explain", "prepare_owned("] {
            assert!(!text.contains(way), "{name} uses {way}: src/db is the only place that talks to the server");
        }
    }
}

/// Text that Rust builds and that reads like SQL: where, what it begins with, and why it is safe.
const BUILT: [(&str, &str, &str); 4] = [
    ("src/governance/hook.rs", "SELECT pg_catalog.to_jsonb(", "schema and function are plain names, quoted; see below"),
    ("src/queue/answer.rs", "Open it with SELECT agentq.fn_config_set", "a hint for people, with a key of ours"),
    ("src/queue/rules/queues.rs", "Make it with SELECT agentq.fn_queue_set", "a hint for people"),
    ("src/engine/worker.rs", "the schema is of version", "a line of v_engine_status"),
];

const WORDS: [&str; 15] = [
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "DELETE ",
    "CREATE ",
    "ALTER ",
    "DROP ",
    "GRANT ",
    "REVOKE ",
    "SET ",
    "NOTIFY ",
    "LISTEN ",
    "EXECUTE ",
    "COPY ",
    "TRUNCATE ",
];

/// The first text of every format! (and of its relatives that build a String) in a source.
fn formats(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("format!(").chain(text.match_indices("concat!(")) {
        let rest = text[at..].split_once('(').map_or("", |(_, rest)| rest).trim_start();
        let Some(quoted) = rest.strip_prefix("r#\"").map(|rest| rest.split("\"#").next()).or_else(|| {
            rest.strip_prefix('"').map(|rest| {
                let mut escaped = false;
                let end = rest.find(|letter| {
                    let ends = letter == '"' && !escaped;
                    escaped = letter == '\\' && !escaped;
                    ends
                });
                end.map(|end| &rest[..end])
            })
        }) else {
            continue;
        };
        found.push(quoted.unwrap_or_default().to_owned());
    }
    found
}

#[test]
fn text_that_rust_builds_and_that_reads_like_sql_was_looked_at() {
    let mut unknown = Vec::new();
    let mut met = [false; BUILT.len()];
    for (name, text) in files("src", ".rs").into_iter().chain(files("crates/core/src", ".rs")) {
        let built = formats(&text);
        let pushed = WORDS.iter().filter(|word| text.contains(&format!("push_str(\"{word}"))).map(|w| (*w).to_owned());
        for piece in built.into_iter().chain(pushed) {
            if !WORDS.iter().any(|word| piece.contains(word)) {
                continue;
            }
            match BUILT.iter().position(|(file, begins, _)| *file == name && piece.starts_with(begins)) {
                Some(at) => met[at] = true,
                None => unknown.push(format!("{name}: {piece}")),
            }
        }
    }
    assert!(unknown.is_empty(), "is any of it run? Write the reason into the list: {unknown:#?}");
    let gone: Vec<&str> = BUILT.iter().zip(met).filter(|(_, met)| !met).map(|(known, _)| known.1).collect();
    assert!(gone.is_empty(), "these are not there any more, take them out of the list: {gone:?}");
}

/// The one name that becomes part of a statement in Rust, the hook's, cannot be anything but a name.
#[test]
fn a_hook_is_named_by_plain_names_only() {
    let db = database();
    let mut s = db.session();
    s.run("CREATE TABLE precious (x int); CREATE SCHEMA \"a\"\"b\"");
    for name in [
        r#"public.f\"($1, $2)); DROP TABLE precious; --"#,
        r#"a\"b.f"#,
        "public.f()",
        "public.f; DROP TABLE precious",
        "public.f g",
        "public.f.g",
        ".f",
        "f",
        "public.",
        "public.f\\u0000",
        "PUBLIC.F--",
    ] {
        let policy = format!(r#"{{"hook": {{"function": "{name}"}}}}"#);
        let failure = s.fails(&format!("SELECT agentq.fn_policy_set('proposal_caps', '{policy}')"));
        assert!(["22023", "42883", "22P05"].contains(&failure.code.as_str()), "{name}: {failure:?}");
    }
    assert_eq!(s.count("precious"), 0);
}

/// The format strings of the EXECUTEs that put text in as it is, with %s, and what that text is.
const AS_IT_IS: [(&str, &str); 4] = [
    ("GRANT %s ON %s TO %I", "a privilege that a CHECK bounds, and what fn_access_targets has quoted"),
    ("REVOKE %s ON %s FROM %I", "the same"),
    ("ALTER TABLE agentq_internal.%I OWNER TO %s", "a role as the server itself writes it (regrole)"),
    ("COMMENT ON TRIGGER %I ON %s IS %L", "a table as the server itself writes it (regclass)"),
];

/// What is wrong with the dynamic SQL of a source in SQL or PL/pgSQL.
fn unquoted(source: &str) -> Vec<String> {
    let code: String =
        source.lines().map(|line| line.split("-- ").next().unwrap_or_default().to_owned() + "\n").collect();
    let mut problems = Vec::new();
    for (at, _) in code.match_indices("EXECUTE") {
        let (before, after) = (&code[..at], code[at + "EXECUTE".len()..].trim_start());
        let is_a_word = before.chars().next_back().is_none_or(|letter| letter.is_whitespace())
            && code[at + "EXECUTE".len()..].starts_with(char::is_whitespace);
        // Of a trigger, and the privilege of that name.
        let means_else = ["FUNCTION ", "PROCEDURE ", "ON "].iter().any(|word| after.starts_with(word));
        if !is_a_word || means_else {
            continue;
        }
        let line: String = after.chars().take(120).collect();
        let Some(text) = after.strip_prefix("format('") else {
            problems.push(format!("not of format(): EXECUTE {line}"));
            continue;
        };
        let text = text.split("',").next().unwrap_or_default();
        let known = AS_IT_IS.iter().any(|(known, _)| *known == text);
        if (text.contains("%s") || text.contains('\'') || text.contains("$s")) && !known {
            problems.push(format!("text as it is: EXECUTE {line}"));
        }
    }
    problems
}

#[test]
fn dynamic_sql_in_the_schema_quotes_what_it_puts_in() {
    let mut problems = Vec::new();
    for (name, text) in files("sql", ".sql") {
        // The first release's script is a record of what was; its functions have been replaced since.
        if !name.starts_with("sql/install/") {
            problems.extend(unquoted(&text).into_iter().map(|problem| format!("{name}: {problem}")));
        }
    }
    for (name, text) in files("src", ".sql") {
        if text.contains("EXECUTE") || text.contains("DO $$") {
            problems.push(format!("{name}: a statement of the library that runs others"));
        }
    }
    // The same of what is in force, whatever script has made it.
    let db = database();
    let mut s = db.session();
    let functions = s.texts(
        "SELECT proname || E'\\n' || prosrc FROM pg_proc JOIN pg_language l ON l.oid = prolang
         WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND lanname IN ('sql', 'plpgsql')",
    );
    assert!(functions.len() > 20, "{}", functions.len());
    for function in &functions {
        let (name, source) = function.split_once('\n').expect("a name and a source");
        problems.extend(unquoted(source).into_iter().map(|problem| format!("{name}: {problem}")));
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(functions.iter().any(|function| function.contains("EXECUTE format(")), "the test looks at nothing");
    assert!(unquoted("EXECUTE 'DROP TABLE ' || p_name;").len() == 1, "and would find it");
    assert!(unquoted("EXECUTE format('DROP TABLE %s', p_name);").len() == 1, "and would find it");
}

/// Every test that docs/security.md names is there.
#[test]
fn what_the_document_on_security_claims_has_its_test() {
    let document = std::fs::read_to_string(project_root().join("docs/security.md")).expect("a document");
    let tests: String = files("tests", ".rs").into_iter().map(|(_, text)| text).collect();
    let named: Vec<&str> = document
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.contains("::") && !code.contains([' ', '\'', '*']))
        .filter_map(|code| code.rsplit("::").next())
        .collect();
    assert!(named.len() > 30, "{named:?}");
    let missing: Vec<&&str> = named.iter().filter(|name| !tests.contains(&format!("fn {name}()"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
