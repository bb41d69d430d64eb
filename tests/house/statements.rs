//! The statements of the library: named blocks of the `.sql` files beside its modules.

use crate::sources::files;
use crate::upgrade::installed;
use agentq_tests::{Session, database, previous_version};
use std::collections::BTreeMap;

struct Block {
    /// Whether it is for the schema of the version before.
    before: bool,
    file: String,
    name: String,
    types: Vec<String>,
    sql: String,
}

fn block(file: &str, before: bool, part: &str) -> Block {
    let (name, rest) = part.split_once('(').expect("parameters");
    let (parameters, rest) = rest.split_once(')').expect("parameters");
    let (_, sql) = rest.split_once('\n').expect("a statement below its name");
    // A long list goes on in the next line of the comment.
    let parameters = parameters.replace("\n--", "");
    let parameters = parameters.split(',').map(str::trim).filter(|parameter| !parameter.is_empty());
    let types = parameters.map(|parameter| parameter.split_once(' ').expect("a name and a type").1.to_owned());
    Block { before, file: file.to_owned(), name: name.to_owned(), types: types.collect(), sql: sql.trim().to_owned() }
}

fn blocks() -> Vec<Block> {
    let mut found = Vec::new();
    for (file, text) in files("src", ".sql") {
        let text = format!("\n{text}");
        for part in text.split("\n-- name: ").skip(1) {
            let mut parts = part.split("\n-- before: ");
            found.extend(parts.next().map(|part| block(&file, false, part)));
            found.extend(parts.map(|part| block(&file, true, part)));
        }
    }
    assert!(found.len() > 250, "{} blocks", found.len());
    found
}

/// The blocks that the modules declare, each as the path of its file and its name.
fn declared() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (source, text) in files("src", ".rs") {
        let folder = source.rsplit_once('/').map_or("", |(folder, _)| folder);
        for rest in text.split("statements!(\"").skip(1) {
            let (file, rest) = rest.split_once("\":").expect("a file and a list");
            let (names, _) = rest.split_once(");").expect("the end of a list");
            let names = names.split(',').map(|name| name.trim().trim_start_matches("pub ").to_lowercase());
            found.extend(names.map(|name| (format!("{folder}/{file}"), name)));
        }
    }
    found
}

#[test]
fn every_statement_is_declared_by_the_module_beside_it() {
    let declared = declared();
    let named = blocks().into_iter().map(|block| (block.file, block.name));
    let idle: Vec<(String, String)> = named.filter(|block| !declared.contains(block)).collect();
    assert!(idle.is_empty(), "nobody declares {idle:#?}");
}

#[test]
fn a_statement_is_written_once() {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for block in blocks() {
        let words: Vec<&str> = block.sql.split_whitespace().collect();
        seen.entry(words.join(" ")).or_default().push(format!("{}: {}", block.file, block.name));
    }
    seen.retain(|_, places| places.len() > 1);
    assert!(seen.is_empty(), "{:#?}", seen.values());
}

/// Each is understood by a server that looks for names in pg_catalog alone, so it names everything of agentq's with its
/// schema. And a table or column that a change has renamed is missed by no statement, however seldom it runs. A statement
/// without a form for the version before fits that, too.
#[test]
fn every_statement_fits_the_schema_and_names_it() {
    let (db, previous) = (database(), installed(previous_version()));
    let (mut s, mut of_previous) = (db.session(), previous.session());
    s.run("SET search_path = pg_catalog");
    of_previous.run("SET search_path = pg_catalog");
    let blocks = blocks();
    let is_for_both = |name: &Block| {
        !blocks.iter().any(|other| other.before && (&other.file, &other.name) == (&name.file, &name.name))
    };
    let mut unfit = Vec::new();
    for block in &blocks {
        let types = if block.types.is_empty() { String::new() } else { format!("({})", block.types.join(", ")) };
        // A lock cannot be prepared.
        let sql = if block.sql.starts_with("LOCK ") {
            format!("BEGIN; {}; ROLLBACK", block.sql)
        } else {
            format!("PREPARE it{types} AS {}; DEALLOCATE it", block.sql)
        };
        let mut fits = |s: &mut Session| {
            if let Err(error) = s.0.batch_execute(&sql) {
                unfit.push(format!("{}: {}: {error:?}", block.file, block.name));
            }
        };
        if !block.before {
            fits(&mut s);
        }
        if block.before || is_for_both(block) {
            fits(&mut of_previous);
        }
    }
    assert!(unfit.is_empty(), "{unfit:#?}");
    assert_eq!(s.fails("PREPARE bare AS SELECT FROM job").code, "42P01", "the test would see it");
}
