//! The tests say of a refused call that it wrote nothing. Here is why that means something.

use crate::every_call::World;
use agentq_tests::{database, everything};

#[test]
fn whatever_is_changed_in_whichever_table_is_seen_as_written() {
    let db = database();
    let mut s = db.session();
    World::make(&mut s);
    // No trigger and no foreign key stands in the way, and what belongs together need not go together.
    s.run("SET session_replication_role = replica");
    let before = everything(&mut s);
    let mut seen = Vec::new();
    let tables = "SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname LIKE 'agentq%' AND c.relkind = 'r' ORDER BY 1";
    for table in s.texts(tables) {
        if s.count(&table) == 0 {
            continue;
        }
        s.run(&format!("BEGIN; DELETE FROM {table} WHERE ctid = (SELECT min(ctid) FROM {table})"));
        assert_eq!(everything(&mut s).len(), before.len() - 1, "{table}");
        s.run("ROLLBACK");
        seen.push(table);
    }
    assert_eq!(everything(&mut s), before);
    for noun in ["job", "mission", "effect", "policy", "command", "event", "signal", "schedule", "config"] {
        let named = |table: &String| table.rsplit('.').next().is_some_and(|name| name.starts_with(noun));
        assert!(seen.iter().any(named), "there was no {noun} to change: {seen:?}");
    }
}
