//! What an error may look like, and what the server's log may not hold.

use crate::catalog::Function;
use agentq_tests::Cluster;
use postgres::error::DbError;

/// Those of the page on answers and errors, and what the server says by itself of values that no type can hold, of
/// functions that do not exist, and of what is larger than it allows.
const DOCUMENTED: [&str; 8] = ["22023", "22004", "P0002", "55000", "0A000", "23505", "42704", "40001"];
const OF_THE_SERVER: [&str; 3] = ["22", "42883", "54"];
/// What only the owner may call is part of the engine: it may also name tables that are not there, and give up on a lock, as the
/// engine does.
const FOR_THE_OWNER: [&str; 5] = ["22", "42", "54", "23", "55P03"];
/// These come from agentq itself, which says what to do.
const WITH_HINT: [&str; 2] = ["22023", "P0002"];

/// What nobody should ever read.
const INTERNALS: [&str; 10] = [
    "backtrace",
    ".rs:",
    "panicked",
    "pgrx",
    "SPI_",
    "agentq_core",
    "called `",
    "out of range for slice",
    "overflow when",
    "internal error",
];
/// An error is for people: this is more than anybody reads.
const LONGEST: usize = 4_000;

/// Written in PL/pgSQL, with the value whole in the message. What a release has of them stays as it was.
const TELL_WHOLE: [&str; 3] = ["fn_access_", "fn_engine_chore_set", "fn_backpressure_status"];

/// What is wrong with an error of a function; None: nothing.
pub fn unfit(function: &Function, error: &DbError) -> Option<String> {
    let code = error.code().code();
    let parts = [Some(error.message()), error.detail(), error.hint(), error.where_()];
    let shows = |internal: &&&str| parts.into_iter().flatten().any(|part| part.contains(**internal));
    if let Some(internal) = INTERNALS.iter().find(shows) {
        return Some(format!("it shows \"{internal}\""));
    }
    let of_the_server: &[&str] = if function.is_public { &OF_THE_SERVER } else { &FOR_THE_OWNER };
    if !DOCUMENTED.contains(&code) && !of_the_server.iter().any(|start| code.starts_with(start)) {
        return Some(format!("the SQLSTATE {code} is not documented"));
    }
    // Where the server itself refuses, nobody can add a hint.
    let is_own = ["agentq", "exec_stmt_raise"].contains(&error.routine().unwrap_or_default());
    if is_own && WITH_HINT.contains(&code) && error.hint().is_none_or(|hint| hint.trim().is_empty()) {
        return Some("it has no hint".to_owned());
    }
    let longest = [Some(error.message()), error.detail(), error.hint()].into_iter().flatten().map(str::len).max();
    let may_be_long = !is_own || TELL_WHOLE.iter().any(|start| function.name.starts_with(start));
    longest.filter(|length| *length > LONGEST && !may_be_long).map(|length| format!("it is {length} bytes long"))
}

/// An error in one line, for a report.
pub fn told(error: &DbError) -> String {
    let short = |text: &str| text.chars().take(300).collect::<String>();
    format!("{} {} [{}]", error.code().code(), short(error.message()), short(error.hint().unwrap_or_default()))
}

/// Fails if the log shows that a process died, that Rust panicked, or that something was not given back.
pub fn assert_calm(cluster: &Cluster) {
    let bad = ["PANIC", "terminated by signal", "panicked at", "server process", "TRAP:", " leak: ", "leaked"];
    let log = cluster.log();
    let found: Vec<&str> = log.lines().filter(|line| bad.iter().any(|word| line.contains(word))).take(20).collect();
    assert!(found.is_empty(), "the server's log has: {found:#?}");
}
