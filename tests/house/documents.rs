//! The documents are true: their SQL and Python runs as printed, and their links lead somewhere.

use agentq_tests::programs::{connected, program, run};
use agentq_tests::{database, project_root};
use std::path::Path;
use std::process::Command;

const PYTHON: &str = "/usr/bin/python3";
/// A block that begins with this line is shown but not run: it would stop the server, for example.
const NOT_RUN: &str = "-- not run";
/// At most this many of them, or the documents would soon be fiction.
const FEW: usize = 5;

struct Document {
    /// Its path from the root of the project.
    name: String,
    text: String,
}

/// The Markdown files in these folders of the project.
fn documents_in(folders: &[&str]) -> Vec<Document> {
    let root = project_root();
    let mut documents = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(root.join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(&root).expect("in the project").display().to_string();
                let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
                documents.push(Document { name, text });
            }
        }
    }
    documents.sort_by(|one, other| one.name.cmp(&other.name));
    documents
}

/// What is run: README.md and docs/*.md. The decisions are history and need not hold any more.
fn documents() -> Vec<Document> {
    let mut documents = documents_in(&["", "docs"]);
    documents.retain(|document| document.name == "README.md" || document.name.starts_with("docs/"));
    documents
}

/// One line of a document: what it says, and the language of the block it is in.
struct Line<'a> {
    text: &'a str,
    language: Option<&'a str>,
    /// Whether it is the first of its block.
    first: bool,
}

impl Document {
    fn lines(&self) -> Vec<Line<'_>> {
        let mut language = None;
        let mut first = false;
        let mut lines = Vec::new();
        for text in self.text.lines() {
            if let Some(fence) = text.trim_start().strip_prefix("```") {
                language = if language.is_some() { None } else { Some(fence.trim()) };
                first = true;
                lines.push(Line { text: "", language: None, first: false });
            } else {
                lines.push(Line { text, language, first: first && language.is_some() });
                first = false;
            }
        }
        assert!(language.is_none(), "{}: a block is not closed", self.name);
        lines
    }

    /// The blocks of a language as one program. Everything else is an empty line in it, so that a
    /// line has the number that it has in the document. None: there is no such block.
    fn program(&self, wanted: &str) -> Option<String> {
        let mut program = String::new();
        let mut skipping = false;
        let mut found = false;
        for line in self.lines() {
            if line.first || line.language.is_none() {
                skipping = line.text == NOT_RUN;
            }
            if line.language == Some(wanted) && !skipping {
                found = true;
                program.push_str(line.text);
            }
            program.push('\n');
        }
        found.then_some(program)
    }

    fn blocks(&self, language: &str) -> usize {
        self.lines().iter().filter(|line| line.first && line.language == Some(language)).count()
    }
}

#[test]
fn the_sql_of_every_document_runs_as_printed() {
    let mut failures = Vec::new();
    for document in documents() {
        let Some(script) = document.program("sql") else { continue };
        let db = database();
        let ended = run(program("psql", &db).args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]), script.as_bytes());
        if !ended.ok {
            failures.push(format!("{}:\n{}", document.name, ended.stderr));
        }
        db.assert_sound();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_readme_shows_sql_and_hardly_a_block_is_not_run() {
    let documents = documents();
    let readme = documents.iter().find(|document| document.name == "README.md").expect("a README.md");
    assert_ne!(readme.blocks("sql"), 0, "README.md shows how to begin");
    let skipped: usize = documents
        .iter()
        .map(|document| document.lines().iter().filter(|line| line.first && line.text == NOT_RUN).count())
        .sum();
    assert!(skipped <= FEW, "{skipped} blocks are not run");
}

#[test]
fn the_python_of_every_document_runs_as_printed() {
    let psycopg = Command::new(PYTHON).args(["-I", "-c", "import psycopg"]).output();
    assert!(
        psycopg.is_ok_and(|output| output.status.success()),
        "{PYTHON} has no psycopg 3: install the Debian package python3-psycopg, or run scripts/bootstrap --test"
    );
    let mut failures = Vec::new();
    for document in documents() {
        let Some(script) = document.program("python") else { continue };
        let db = database();
        // A loop that does not end must not hang the tests.
        let mut python = Command::new("timeout");
        python.args(["120", PYTHON, "-I", "-"]);
        connected(&mut python, &db);
        let ended = run(&mut python, script.as_bytes());
        if !ended.ok {
            failures.push(format!("{}:\n{}", document.name, ended.stderr));
        }
        db.assert_sound();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The targets of the links in a document, outside its blocks.
fn links(document: &Document) -> Vec<String> {
    let mut links = Vec::new();
    for line in document.lines().iter().filter(|line| line.language.is_none()) {
        let parts = line.text.split("](").skip(1);
        links.extend(parts.filter_map(|part| part.split_once(')')).map(|(target, _)| target.to_owned()));
    }
    links
}

/// The anchors of a document's headings, as they are made of them on the web.
fn anchors(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_link_within_the_project_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents_in(&["", "docs", "docs/decisions"]) {
        let own = project_root().join(&document.name);
        for link in links(&document) {
            if ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { own.clone() } else { own.with_file_name(file) };
            let has_anchor = || anchor.is_empty() || anchors(&target).iter().any(|found| found == anchor);
            if !target.exists() || !has_anchor() {
                broken.push(format!("{}: {link}", document.name));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_proof_that_a_document_names_is_a_module_of_the_tests() {
    let mut missing = Vec::new();
    for document in documents() {
        // Written as `tests/queue`: `lease`, or with several modules after the colon.
        for mention in document.text.split("`tests/").skip(1) {
            let Some((suite, rest)) = mention.split_once("`: ") else { continue };
            for module in
                rest.split(", ").map_while(|part| part.strip_prefix('`')).filter_map(|part| part.split('`').next())
            {
                if !project_root().join(format!("tests/{suite}/{module}.rs")).exists() {
                    missing.push(format!("{}: tests/{suite}/{module}.rs", document.name));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
