//! The statements of the library: named blocks of the `.sql` files beside its modules.

use agentq_tests::{database, project_root};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

struct Block {
    file: PathBuf,
    name: String,
    types: Vec<String>,
    sql: String,
}

/// The blocks of all files below a folder.
fn blocks(folder: &Path, into: &mut Vec<Block>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            blocks(&entry, into);
        } else if entry.extension().is_some_and(|extension| extension == "sql") {
            let text = std::fs::read_to_string(&entry).expect("a file of statements");
            let parts = format!("\n{text}");
            into.extend(parts.split("\n-- name: ").skip(1).map(|part| block(&entry, part)));
        }
    }
}

fn block(file: &Path, part: &str) -> Block {
    let (head, sql) = part.split_once('\n').expect("a statement below its name");
    let (name, rest) = head.split_once('(').expect("parameters");
    let (parameters, _) = rest.split_once(')').expect("parameters");
    let parameters = parameters.split(", ").filter(|parameter| !parameter.is_empty());
    let types = parameters.map(|parameter| parameter.split_once(' ').expect("a name and a type").1.to_owned());
    Block { file: file.to_owned(), name: name.to_owned(), types: types.collect(), sql: sql.trim().to_owned() }
}

fn all() -> Vec<Block> {
    let mut found = Vec::new();
    blocks(&project_root().join("src"), &mut found);
    assert!(found.len() > 250, "{} blocks", found.len());
    found
}

/// The sources beside a file, in which its blocks are declared.
fn sources_beside(file: &Path) -> String {
    let folder = file.parent().expect("a folder");
    let beside = std::fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path());
    let sources = beside.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    sources.map(|path| std::fs::read_to_string(path).expect("a source")).collect()
}

/// The names that a `statements!` declares of a file.
fn declared(sources: &str, file: &str) -> Vec<String> {
    let start = format!("statements!(\"{file}\":");
    let lists = sources.split(&start).skip(1).map(|rest| rest.split_once(");").expect("its end").0);
    lists
        .flat_map(|list| list.split(',').map(|name| name.trim().to_lowercase()))
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn every_statement_is_declared_by_the_module_beside_it() {
    let mut idle = Vec::new();
    for block in all() {
        let file = block.file.file_name().and_then(|name| name.to_str()).expect("a name");
        if !declared(&sources_beside(&block.file), file).contains(&block.name) {
            idle.push(format!("{}: {}", block.file.display(), block.name));
        }
    }
    assert!(idle.is_empty(), "nobody declares {idle:#?}");
}

#[test]
fn a_statement_is_written_once() {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for block in all() {
        let words: Vec<&str> = block.sql.split_whitespace().collect();
        seen.entry(words.join(" ")).or_default().push(format!("{}: {}", block.file.display(), block.name));
    }
    seen.retain(|_, places| places.len() > 1);
    assert!(seen.is_empty(), "{:#?}", seen.values());
}

/// So a table or column that a change has renamed is missed by no statement, however seldom it runs.
#[test]
fn every_statement_fits_the_schema() {
    let db = database();
    let mut s = db.session();
    let mut unfit = Vec::new();
    for block in all() {
        let types = if block.types.is_empty() { String::new() } else { format!("({})", block.types.join(", ")) };
        let prepare = format!("PREPARE it{types} AS {}", block.sql);
        match s.0.batch_execute(&prepare) {
            Ok(()) => s.run("DEALLOCATE it"),
            Err(error) => unfit.push(format!("{}: {}: {error}", block.file.display(), block.name)),
        }
    }
    assert!(unfit.is_empty(), "{unfit:#?}");
}
