//! The documents are true: their SQL and Python runs as printed, and runs again, their links lead somewhere, and
//! their lists are whole.

use agentq_tests::programs::{Ended, connected, program, run};
use agentq_tests::{Database, database, project_root};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PYTHON: &str = "/usr/bin/python3";
/// A block that begins with this line is shown but not run: it would stop the server, for example.
const NOT_RUN: &str = "-- not run";
/// At most this many blocks are not run, or the documents would soon be fiction.
const FEW: usize = 5;
/// Each document runs as often as this in one database: a reader who pastes it again gets no error.
const RUNS: [&str; 2] = ["the first time", "the second time"];
/// The front page has at most this many lines.
const FRONT_PAGE: usize = 130;

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

/// The unfinished jobs of a database. The engine has some seconds to end what it is at.
fn left_behind(db: &Database<'_>) -> Vec<String> {
    let mut session = db.session();
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let left = session.texts("SELECT job_kind || ' ' || state FROM agentq.job_queue WHERE finished_at IS NULL");
        if left.is_empty() || Instant::now() > until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs the blocks of a language of every document, each document twice in a database of its own. Fails with the names
/// of the documents that failed or left jobs behind, which a later run would meet, and at which run.
fn run_every_document(language: &str, interpret: impl Fn(&Database<'_>, &str) -> Ended) {
    let mut failures = Vec::new();
    for document in documents() {
        let Some(script) = document.program(language) else { continue };
        let db = database();
        for time in RUNS {
            let ended = interpret(&db, &script);
            if !ended.ok {
                failures.push(format!("{}, {time}:\n{}", document.name, ended.stderr));
                break;
            }
            let left = left_behind(&db);
            if !left.is_empty() {
                failures.push(format!("{}, {time}: it leaves jobs behind: {left:?}", document.name));
                break;
            }
        }
        db.assert_sound();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_sql_of_every_document_runs_as_printed_and_again_in_the_same_database() {
    run_every_document("sql", |db, script| {
        run(program("psql", db).args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]), script.as_bytes())
    });
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
fn the_python_of_every_document_runs_as_printed_and_again_in_the_same_database() {
    let psycopg = Command::new(PYTHON).args(["-I", "-c", "import psycopg"]).output();
    assert!(
        psycopg.is_ok_and(|output| output.status.success()),
        "{PYTHON} has no psycopg 3: install the Debian package python3-psycopg, or run scripts/bootstrap --test"
    );
    run_every_document("python", |db, script| {
        // A loop that does not end must not hang the tests.
        let mut python = Command::new("timeout");
        python.args(["120", PYTHON, "-I", "-"]);
        connected(&mut python, db);
        run(&mut python, script.as_bytes())
    });
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
    for document in documents_in(&["", "docs", "docs/decisions", "benches", "benches/peers", "torture"]) {
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
            // Not the next cell of a table.
            let rest = rest.split('|').next().unwrap_or_default();
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

/// Finds the row about a file in the tables of a list, as its cells.
fn rows_of(list: &Document) -> impl Fn(&str) -> Option<Vec<String>> {
    let rows: Vec<Vec<String>> = list
        .text
        .lines()
        .filter(|line| line.starts_with("| ["))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect();
    move |file| rows.iter().find(|cells| cells[0].ends_with(&format!("]({file})"))).cloned()
}

/// The names of the Markdown files in a folder, without its list.
fn pages_beside(folder: &str) -> (Document, Vec<String>) {
    let (lists, pages): (Vec<_>, Vec<_>) =
        documents_in(&[folder]).into_iter().partition(|document| document.name.ends_with("/README.md"));
    let names = pages.iter().filter_map(|page| page.name.rsplit('/').next()).map(str::to_owned).collect();
    (lists.into_iter().next().unwrap_or_else(|| panic!("{folder} has no README.md")), names)
}

#[test]
fn every_page_is_in_the_list_of_documents_with_what_it_gives() {
    let (list, pages) = pages_beside("docs");
    let row = rows_of(&list);
    let missing: Vec<_> =
        pages.iter().filter(|page| row(page).is_none_or(|cells| cells.get(1).is_none_or(String::is_empty))).collect();
    assert!(missing.is_empty(), "docs/README.md does not say what these give: {missing:?}");
}

#[test]
fn every_decision_is_in_the_list_of_decisions_with_its_status() {
    let (list, pages) = pages_beside("docs/decisions");
    let row = rows_of(&list);
    let known = ["accepted", "amended by [", "superseded by ["];
    let missing: Vec<_> = pages
        .iter()
        .filter(|page| {
            let cells = row(page).unwrap_or_default();
            let [number, decision, status] = cells.as_slice() else { return true };
            let is_its_own = number.starts_with(&format!("[{}]", &page[..4]));
            !is_its_own || decision.is_empty() || !known.iter().any(|word| status.starts_with(word))
        })
        .collect();
    assert!(missing.is_empty(), "docs/decisions/README.md has no number, decision and status of these: {missing:?}");
}

/// The token stands at another place in each function, so that nobody should have to count.
#[test]
fn documents_pass_the_token_of_a_lease_by_its_name() {
    let mut by_place = Vec::new();
    for document in documents() {
        for line in document.text.lines().filter(|line| line.contains("agentq.fn_")) {
            for (at, _) in line.match_indices(":'token'").chain(line.match_indices(":'lease'")) {
                if !line[..at].ends_with("p_lease_token => ") {
                    by_place.push(format!("{}: {line}", document.name));
                }
            }
        }
    }
    assert!(by_place.is_empty(), "{}", by_place.join("\n"));
}

#[test]
fn the_front_page_is_short() {
    let documents = documents();
    let readme = documents.iter().find(|document| document.name == "README.md").expect("a README.md");
    let lines = readme.text.lines().count();
    assert!(lines <= FRONT_PAGE, "README.md has {lines} lines, {} too many", lines - FRONT_PAGE);
}
