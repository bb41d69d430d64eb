//! The description of an installation that tools/schema.sql makes, and how two of them differ.

use agentq_tests::{Session, project_root};

/// The lines of tools/schema.sql for the extension in this database.
pub fn describe(s: &mut Session) -> Vec<String> {
    let path = project_root().join("tools/schema.sql");
    let query = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = s.texts(&query);
    s.run("RESET search_path");
    assert!(lines.len() > 100, "tools/schema.sql describes next to nothing: {lines:?}");
    lines
}

/// The lines that only one of the two has, marked with - and +.
pub fn differences(expected: &[String], found: &[String]) -> Vec<String> {
    let missing = expected.iter().filter(|line| !found.contains(line)).map(|line| format!("- {line}"));
    let extra = found.iter().filter(|line| !expected.contains(line)).map(|line| format!("+ {line}"));
    missing.chain(extra).collect()
}

/// Whether the caller asked to write the generated files instead of comparing them.
pub fn blessing() -> bool {
    std::env::var("AGENTQ_BLESS").is_ok_and(|value| value == "1")
}

/// The lines of a file that is committed; none if it is not there.
pub fn committed(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(project_root().join(path)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Compares a generated file with what is committed, or writes it when blessing.
#[track_caller]
pub fn assert_generated(path: &str, lines: &[String]) {
    let file = project_root().join(path);
    if blessing() {
        std::fs::write(&file, lines.join("\n") + "\n").unwrap_or_else(|error| panic!("{path}: {error}"));
        return;
    }
    let committed = committed(path);
    if committed != lines {
        let differences = differences(&committed, lines).join("\n");
        panic!("{path} is not what the catalog says. If the change is meant: AGENTQ_BLESS=1 make test\n{differences}");
    }
}
