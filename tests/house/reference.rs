//! docs/reference.md is made from the catalog, so that it cannot say anything else.

use crate::catalog::assert_generated;
use agentq_core::bounds::TABLE;
use agentq_tests::{Session, database};

const HEADER: &str = "# Reference

Made from the catalog of a fresh installation; do not edit. `AGENTQ_BLESS=1 make test` makes it anew.

Everything that callers use is in the schema `agentq`. What the words mean is in [Concepts](concepts.md). A function can be
called by the levels named under it and by the owner of the extension; levels are given with
[fn_access_grant](#fn_access_grant).";

/// What the functions are about, by the word after `fn_`, in the order of the document.
const NOUNS: [(&str, &str); 6] = [
    ("job", "Jobs"),
    ("dead_letter", "Dead letters"),
    ("queue", "Queues and executors"),
    ("config", "Settings"),
    ("access", "Access"),
    ("", "Others"),
];

struct Function {
    name: String,
    arguments: String,
    result: String,
    comment: String,
    levels: String,
}

impl Function {
    fn noun(&self) -> &'static str {
        let rest = self.name.trim_start_matches("fn_");
        let has = |noun: &&(&str, &str)| noun.0.is_empty() || rest.starts_with(&format!("{}_", noun.0));
        NOUNS.iter().find(has).map_or("", |noun| noun.0)
    }
}

/// The rows of a query, each column as text.
fn rows<const N: usize>(s: &mut Session, query: &str) -> Vec<[String; N]> {
    let columns = (0..N).map(|n| format!("coalesce(c{n}::text, '')")).collect::<Vec<_>>().join(", ");
    let names = (0..N).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", ");
    let rows = s.texts(&format!("SELECT jsonb_build_array({columns}) FROM ({query}) AS q({names})"));
    rows.iter()
        .map(|row| {
            let values: Vec<String> = serde_json::from_str(row).expect("a row of texts");
            values.try_into().expect("as many columns as asked for")
        })
        .collect()
}

fn functions(s: &mut Session) -> Vec<Function> {
    let query = "SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
            obj_description(p.oid, 'pg_proc'),
            (SELECT string_agg(level, ', ' ORDER BY level) FROM agentq.access_rule
             WHERE privilege = 'EXECUTE' AND object = p.proname)
        FROM pg_proc p
        WHERE p.pronamespace = 'agentq'::regnamespace AND p.prorettype <> 'trigger'::regtype
        ORDER BY p.proname COLLATE \"C\"";
    rows(s, query)
        .into_iter()
        .map(|[name, arguments, result, comment, levels]| Function { name, arguments, result, comment, levels })
        .collect()
}

/// The signature, one parameter to a line where they are many.
fn signature(function: &Function) -> Vec<String> {
    let tidy = |text: &str| {
        let text = text.replace("timestamp with time zone", "timestamptz").replace("DEFAULT", "=");
        ["::text[]", "::text", "::jsonb", "::uuid", "::integer", "::timestamptz", "::interval"]
            .iter()
            .fold(text, |text, cast| text.replace(&format!("NULL{cast}"), "NULL").replace(&format!("'{cast}"), "'"))
    };
    let (arguments, result) = (tidy(&function.arguments), tidy(&function.result));
    let one_line = format!("{}({arguments}) -> {result}", function.name);
    if one_line.len() <= 100 {
        return vec![one_line];
    }
    let mut lines = vec![format!("{}(", function.name)];
    let many: Vec<_> = arguments.split(", ").collect();
    lines.extend(
        many.iter().enumerate().map(|(n, one)| format!("    {one}{}", if n + 1 < many.len() { "," } else { "" })),
    );
    lines.push(format!(") -> {result}"));
    lines
}

fn write_functions(s: &mut Session, lines: &mut Vec<String>) {
    lines.push("## Functions".to_owned());
    let functions = functions(s);
    for (noun, title) in NOUNS {
        lines.extend([String::new(), format!("### {title}")]);
        for function in functions.iter().filter(|function| function.noun() == noun) {
            lines.extend([String::new(), format!("#### {}", function.name), String::new(), "```text".to_owned()]);
            lines.extend(signature(function));
            lines.extend(["```".to_owned(), String::new(), function.comment.clone(), String::new()]);
            let levels = if function.levels.is_empty() { "the owner only" } else { &function.levels };
            lines.push(format!("Level: {levels}."));
            lines.extend(bounds_of(&function.name));
        }
    }
}

/// What the arguments of a function are bounded to.
fn bounds_of(function: &str) -> Vec<String> {
    let Some((_, arguments)) = TABLE.iter().find(|(name, _)| *name == function) else { return Vec::new() };
    let each: Vec<String> = arguments.iter().map(|(name, bound)| format!("`{name}` {}", bound.words())).collect();
    vec![String::new(), format!("At most: {}.", each.join("; "))]
}

/// A row of a Markdown table.
fn row(cells: &[&str]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |", cells.join(" | "))
}

fn table(lines: &mut Vec<String>, head: &[&str], rows: impl IntoIterator<Item = String>) {
    lines.extend([String::new(), row(head), row(&vec!["---"; head.len()])]);
    lines.extend(rows);
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn write_relations(s: &mut Session, lines: &mut Vec<String>, title: &str, about: &str, schema: &str) {
    lines.extend([String::new(), format!("## {title}"), String::new(), about.to_owned()]);
    let relations = rows(
        s,
        &format!(
            "SELECT c.relname, CASE c.relkind WHEN 'v' THEN 'View' ELSE 'Table' END, obj_description(c.oid, 'pg_class'),
                (SELECT string_agg(level || ' (' || may || ')', ', ' ORDER BY level) FROM (
                    SELECT level, string_agg(lower(privilege), ', ' ORDER BY privilege) AS may
                    FROM agentq.access_rule WHERE object = c.relname AND privilege <> 'EXECUTE' GROUP BY level) l)
             FROM pg_class c
             WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
             ORDER BY c.relname COLLATE \"C\""
        ),
    );
    for [name, kind, comment, levels] in relations {
        lines.extend([String::new(), format!("### {name}"), String::new(), format!("{kind}. {comment}")]);
        if schema == "agentq" {
            let levels = if levels.is_empty() { "the owner only" } else { &levels };
            lines.extend([String::new(), format!("Level: {levels}.")]);
        }
        let columns = rows(
            s,
            &format!(
                "SELECT a.attname, replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz'),
                    CASE WHEN a.attnotnull THEN 'no' ELSE 'yes' END,
                    CASE a.attidentity WHEN '' THEN pg_get_expr(d.adbin, d.adrelid) ELSE 'the next number' END,
                    col_description(a.attrelid, a.attnum)
                 FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                 WHERE a.attrelid = '{schema}.{name}'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
            ),
        );
        if kind == "View" {
            // A view does not know which of its columns can be NULL.
            let columns = columns.iter().map(|[name, kind, _, _, comment]| row(&[&code(name), kind, comment]));
            table(lines, &["Column", "Type", "Meaning"], columns);
        } else {
            let columns = columns
                .iter()
                .map(|[name, kind, null, default, comment]| row(&[&code(name), kind, null, &code(default), comment]));
            table(lines, &["Column", "Type", "Null", "Default", "Meaning"], columns);
        }
    }
}

fn write_types(s: &mut Session, lines: &mut Vec<String>) {
    let types: Vec<[String; 3]> = rows(
        s,
        "SELECT typname, format_type(typbasetype, typtypmod), obj_description(oid, 'pg_type') FROM pg_type
         WHERE typnamespace = 'agentq_internal'::regnamespace AND typtype = 'd' ORDER BY typname COLLATE \"C\"",
    );
    if !types.is_empty() {
        lines.extend([String::new(), "### Types of the storage".to_owned()]);
        let types = types.iter().map(|[name, base, comment]| row(&[&code(name), base, comment]));
        table(lines, &["Type", "Of", "Meaning"], types);
    }
}

/// What a key accepts, in the words of its own refusal.
fn accepted(s: &mut Session, key: &str) -> String {
    let hint = s.fails(&format!(r#"SELECT agentq.fn_config_set('{key}', '"?"')"#)).hint;
    let sentence = hint.split(". ").next().unwrap_or_default();
    sentence.strip_prefix("It accepts ").unwrap_or_else(|| panic!("{key}: {hint}")).trim_end_matches('.').to_owned()
}

fn write_settings(s: &mut Session, lines: &mut Vec<String>) {
    lines.extend([String::new(), "## Settings in the table config".to_owned(), String::new()]);
    lines.push("Read with [fn_config_get](#fn_config_get), changed with [fn_config_set](#fn_config_set).".to_owned());
    let keys: Vec<[String; 3]> =
        rows(s, "SELECT key, value, description FROM agentq_internal.fn_config_defaults() ORDER BY key COLLATE \"C\"");
    let keys: Vec<_> = keys
        .iter()
        .map(|[key, default, description]| row(&[&code(key), &accepted(s, key), &code(default), description]))
        .collect();
    table(lines, &["Key", "Accepts", "Default", "Meaning"], keys);

    lines.extend([String::new(), "## Settings of the server".to_owned()]);
    let settings: Vec<[String; 6]> = rows(
        s,
        "SELECT name, vartype, boot_val, context, short_desc, extra_desc FROM pg_settings WHERE name LIKE 'agentq.%' ORDER BY name",
    );
    let settings = settings.iter().map(|[name, kind, default, context, short, extra]| {
        row(&[&code(name), kind, &code(default), context, format!("{short} {extra}").trim()])
    });
    table(lines, &["Name", "Type", "Default", "Set by", "Meaning"], settings);
}

fn write_levels(s: &mut Session, lines: &mut Vec<String>) {
    lines.extend([String::new(), "## Access levels".to_owned()]);
    for level in ["producer", "proposer", "worker", "reader", "operator"] {
        lines.extend([String::new(), format!("### {level}"), String::new()]);
        let rights: Vec<[String; 2]> = rows(
            s,
            &format!(
                "SELECT privilege, string_agg('`' || object || '`', ', ' ORDER BY object COLLATE \"C\") FROM agentq.access_rule
                 WHERE level = '{level}' AND (privilege <> 'EXECUTE' OR to_regproc('agentq.' || object) IS NOT NULL) GROUP BY privilege ORDER BY privilege"
            ),
        );
        lines.extend(rights.iter().map(|[privilege, objects]| format!("- {privilege}: {objects}")));
    }
}

#[test]
fn the_reference_is_what_the_catalog_says() {
    let db = database();
    let mut s = db.session();
    let mut lines: Vec<String> = HEADER.lines().map(str::to_owned).collect();
    lines.push(String::new());
    write_functions(&mut s, &mut lines);
    let (for_people, storage) = ("Tables and views", "Storage");
    write_relations(
        &mut s,
        &mut lines,
        for_people,
        "What people read. Everything else goes through the functions.",
        "agentq",
    );
    let about = "What is behind the views, in the schema `agentq_internal`. No level is let in, and it may change with any version.";
    write_relations(&mut s, &mut lines, storage, about, "agentq_internal");
    write_types(&mut s, &mut lines);
    write_settings(&mut s, &mut lines);
    write_levels(&mut s, &mut lines);
    assert_generated("docs/reference.md", &lines);
}
