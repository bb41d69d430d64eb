//! What the catalog says of rights: nothing is for everybody, whoever runs with the owner's rights looks
//! for names in its own places only, and everything belongs to the owner of the extension.

use crate::access::{LEVELS, is_let_in, with_levels};
use crate::sources::files;
use agentq_tests::{Session, database, project_root};

/// Types that everybody may use, as new types are in PostgreSQL. Nobody but the owner can name them, because their
/// schema is closed, also to those who have a level.
const OPEN_TYPES: [&str; 11] = [
    "job_count",
    "job_finished_state",
    "job_key_text",
    "job_limit",
    "job_name",
    "job_outcome",
    "job_payload",
    "job_resting_state",
    "mission_count_state",
    "mission_number",
    "mission_step_status",
];

/// Functions with their owner's rights that push their search path themselves instead of declaring it
/// (docs/decisions/0018-own-names.md).
pub const HOT: [&str; 9] = [
    "fn_job_ack",
    "fn_job_ack_and_claim",
    "fn_job_ack_and_claim_batch",
    "fn_job_ack_batch",
    "fn_job_claim",
    "fn_job_claim_batch",
    "fn_job_enqueue",
    "fn_job_enqueue_batch",
    "fn_job_enqueue_payloads",
];

/// What PUBLIC may do with anything of agentq's but its types.
fn public_privileges(s: &mut Session) -> Vec<String> {
    s.texts(
        "SELECT 'function ' || p.proname || ' ' || a.privilege_type
         FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         WHERE p.pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND a.grantee = 0
         UNION ALL
         SELECT 'relation ' || c.relname || ' ' || a.privilege_type
         FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::\"char\", c.relowner))) a
         WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND a.grantee = 0
         UNION ALL
         SELECT 'column ' || c.relname || '.' || t.attname || ' ' || a.privilege_type
         FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
         WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND a.grantee = 0
         UNION ALL
         SELECT 'schema ' || n.nspname || ' ' || a.privilege_type
         FROM pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
         WHERE n.nspname IN ('agentq', 'agentq_internal') AND a.grantee = 0
         UNION ALL
         SELECT 'default ' || d.defaclobjtype::text FROM pg_default_acl d WHERE d.defaclnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)
         ORDER BY 1",
    )
}

#[test]
fn nothing_is_for_everybody() {
    let db = database();
    let mut s = db.session();
    assert_eq!(public_privileges(&mut s), Vec::<String>::new());
    // Nor what is made later.
    let before = s.count("pg_class WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)");
    s.run("SELECT agentq.fn_event_emit('a', 'x')");
    assert_eq!(s.call("fn_engine_tick()")["failed"], 0);
    assert!(
        s.count("pg_class WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)") > before,
        "no partition was made"
    );
    assert_eq!(public_privileges(&mut s), Vec::<String>::new());
    s.run("GRANT SELECT ON agentq_internal.job_done TO PUBLIC; GRANT EXECUTE ON FUNCTION agentq.fn_version TO PUBLIC");
    assert_eq!(public_privileges(&mut s).len(), 2, "the test would see it");
}

#[test]
fn types_that_everybody_may_use_cannot_be_named_by_everybody() {
    let db = database();
    let mut s = db.session();
    let open = s.texts(
        "SELECT t.typname FROM pg_type t, aclexplode(coalesce(t.typacl, acldefault('T', t.typowner))) a
         WHERE t.typnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND a.grantee = 0 AND t.typtype NOT IN ('c', 'b') ORDER BY 1",
    );
    for name in &open {
        assert!(OPEN_TYPES.contains(&name.as_str()), "{name} is open to PUBLIC");
    }
    for levels in [&[][..], &LEVELS] {
        let (role, mut stranger) = with_levels(&db, if levels.is_empty() { "stranger" } else { "all" }, levels);
        s.run(&format!("DROP SCHEMA IF EXISTS own; CREATE SCHEMA own AUTHORIZATION \"{role}\""));
        for name in OPEN_TYPES.iter().chain(&["job", "job_lease[]"]) {
            let name = format!("agentq_internal.{name}");
            for statement in [format!("SELECT NULL::{name}"), format!("CREATE TABLE own.t (x {name})")] {
                assert_eq!(stranger.fails(&statement).code, "42501", "{statement}");
            }
        }
        assert_eq!(is_let_in(&mut stranger, "SELECT NULL::agentq.job_queue"), !levels.is_empty());
    }
}

#[test]
fn whoever_runs_with_the_owners_rights_has_a_search_path_of_its_own() {
    let db = database();
    let mut s = db.session();
    let schema = "pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)";
    let bare = format!("SELECT proname FROM pg_proc WHERE {schema} AND prosecdef AND proconfig IS NULL ORDER BY 1");
    assert_eq!(s.texts(&bare), HOT, "declare a search path, or see docs/decisions/0018-own-names.md");
    let declared = "'search_path=pg_catalog, pg_temp' = ANY (proconfig)";
    let odd = format!(
        "SELECT proname FROM pg_proc WHERE {schema} AND proconfig IS NOT NULL AND NOT {declared}
         UNION ALL SELECT proname FROM pg_proc JOIN pg_language l ON l.oid = prolang
         WHERE {schema} AND proconfig IS NULL AND lanname <> 'c'"
    );
    assert_eq!(s.texts(&odd), Vec::<String>::new(), "functions with another path, or in SQL without one");
    // Those that are their caller's at first, and take the owner's rights themselves.
    let mut takers = Vec::new();
    let uses = [
        "src/queue/admin/handlers.rs",
        "src/governance/policies.rs",
        "src/base/tokens.rs",
        "src/base/tokens.rs",
        "src/base/tokens.rs",
    ];
    for (number, file) in uses.iter().enumerate() {
        let text = std::fs::read_to_string(project_root().join(file)).expect("a source");
        let before = uses[..number].iter().filter(|other| *other == file).count();
        let (at, _) = text.match_indices("answer_as_owner(").nth(before).unwrap_or_else(|| panic!("{file}"));
        let head = text[..at].rfind("#[pg_extern]").expect("a function");
        takers.push(text[head..].split("fn ").nth(1).and_then(|f| f.split('(').next()).expect("a name").to_owned());
    }
    let everywhere: usize = files("src", ".rs").iter().map(|(_, text)| text.matches("answer_as_owner(").count()).sum();
    assert_eq!(
        everywhere,
        uses.len() + 2,
        "beside these its declaration and one for who acts for others: look at a new one, and name it here"
    );
    for name in takers {
        let fits = format!("pg_proc WHERE {schema} AND proname = '{name}' AND NOT prosecdef AND {declared}");
        assert_eq!(s.count(&fits), 1, "{name}");
    }
}

#[test]
fn everything_is_the_owners_and_the_extensions() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_event_emit('a', 'x'), agentq.fn_engine_tick()");
    let strays = s.texts(
        "WITH e AS (SELECT oid, extowner FROM pg_extension WHERE extname = 'agentq'),
         things AS (
            SELECT 'pg_proc'::regclass AS class, oid, proowner AS owner, proname::text AS name FROM pg_proc WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)
            UNION ALL SELECT 'pg_class'::regclass, oid, relowner, relname FROM pg_class
            WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind IN ('r', 'p', 'v', 'S') AND NOT relispartition
            UNION ALL SELECT 'pg_namespace'::regclass, oid, nspowner, nspname FROM pg_namespace WHERE nspname IN ('agentq', 'agentq_internal'))
         SELECT name FROM things, e WHERE owner <> e.extowner OR NOT EXISTS (SELECT FROM pg_depend d
            WHERE d.classid = class AND d.objid = things.oid AND d.refobjid = e.oid AND d.deptype = 'e')
         UNION ALL
         SELECT relname FROM pg_class, e WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relispartition AND relowner <> e.extowner",
    );
    assert_eq!(strays, Vec::<String>::new());
    // What would let somebody else's code run, or hide rows from the owner's.
    for from in [
        "pg_trigger t JOIN pg_class c ON c.oid = tgrelid JOIN pg_proc p ON p.oid = tgfoid
            WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND NOT tgisinternal AND p.pronamespace NOT IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)",
        "pg_rewrite r JOIN pg_class c ON c.oid = ev_class WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND rulename <> '_RETURN'",
        "pg_class WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND (relrowsecurity OR relforcerowsecurity)",
        "pg_proc WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND proleakproof",
        "pg_cast JOIN pg_type t ON t.oid IN (castsource, casttarget) WHERE t.typnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)",
        "pg_operator WHERE oprnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)",
        "pg_event_trigger JOIN pg_proc p ON p.oid = evtfoid WHERE p.pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)",
    ] {
        assert_eq!(s.count(from), 0, "{from}");
    }
}
