//! Whether a call wrote anything.

use crate::database::{Failure, Session};
use std::collections::BTreeSet;

/// Every row that agentq keeps, each behind the name of its table: two of these are equal if nothing was written in
/// between.
///
/// The catalog says which tables there are: every one that belongs to the extension, in whichever schema. The rows of a
/// partition come with the table that it is a part of.
#[track_caller]
pub fn everything(session: &mut Session) -> Vec<String> {
    let tables = session.texts(
        "SELECT format('SELECT %L || row.*::text AS line FROM %I.%I row', c.relname || ' ', n.nspname, c.relname)
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
         JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
         WHERE e.extname = 'agentq' AND c.relkind IN ('r', 'p') AND NOT c.relispartition",
    );
    assert!(!tables.is_empty(), "the extension has no tables here");
    session.texts(&format!("{} ORDER BY line", tables.join(" UNION ALL ")))
}

/// Fails if the rows are not what they were, and shows those that differ.
#[track_caller]
pub fn assert_unwritten(session: &mut Session, before: &[String], by: &str) {
    let after = everything(session);
    let only = |one: &[String], other: &[String]| -> BTreeSet<String> {
        &one.iter().cloned().collect::<BTreeSet<_>>() - &other.iter().cloned().collect()
    };
    let (gone, new) = (only(before, &after), only(&after, before));
    assert!(before == after, "{by} wrote something: gone {gone:#?}, new {new:#?}");
}

/// The statement must be refused with this SQLSTATE, message and HINT, and must write nothing.
#[track_caller]
pub fn refused(session: &mut Session, statement: &str, code: &str, message: &str, hint: &str) -> Failure {
    let before = everything(session);
    let failure = refusal(session, statement, code, message, hint);
    assert_unwritten(session, &before, statement);
    failure
}

/// The statement must be refused with this SQLSTATE, message and HINT. For callers who may not read the tables: whether
/// it wrote anything is for another session to see.
#[track_caller]
pub fn refusal(session: &mut Session, statement: &str, code: &str, message: &str, hint: &str) -> Failure {
    let failure = session.fails(statement);
    assert_eq!(failure.code, code, "{statement}: {failure:?}");
    assert!(failure.message.contains(message), "{statement}: {failure:?}");
    assert!(failure.hint.contains(hint), "{statement}: {failure:?}");
    failure
}

/// Calls a function with something that makes no sense: it says so, and writes nothing.
#[track_caller]
pub fn refuse(session: &mut Session, call: &str, message: &str) {
    refused(session, &format!("SELECT agentq.{call}"), "22023", message, "");
}
