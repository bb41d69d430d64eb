//! What docs/bounds.md says of bounds is what the core's table says.

use crate::catalog::blessing;
use agentq_core::bounds::{self, Bound, grouped};
use agentq_tests::{database, project_root};

const PAGE: &str = "docs/bounds.md";

fn numbers(all: &[usize]) -> String {
    all.iter().map(|number| grouped(*number)).collect::<Vec<_>>().join("; ")
}

/// The tables of the page, each under its title.
fn tables() -> [(&'static str, Vec<String>); 3] {
    let sizes = bounds::SIZES.iter().map(|(what, bound, setting)| {
        let words = bound.words() + if matches!(bound, Bound::Cut(_)) { ", not refused" } else { "" };
        let setting = if setting.is_empty() { String::new() } else { format!("`{setting}` ") };
        format!("| {what} | {words} | {setting}|")
    });
    let row = |(what, most): &(&str, &[usize])| format!("| {what} | {} |", numbers(most));
    let head = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    [
        (
            "## Sizes of documents",
            [head(&["| What | At most | Where to change it |", "| --- | --- | --- |"]), sizes.collect()].concat(),
        ),
        (
            "## Lengths of names and keys",
            [head(&["| What | At most, in bytes |", "| --- | --- |"]), bounds::LENGTHS.iter().map(row).collect()]
                .concat(),
        ),
        (
            "## Numbers of elements",
            [head(&["| What | At most |", "| --- | --- |"]), bounds::NUMBERS.iter().map(row).collect()].concat(),
        ),
    ]
}

/// The page with these tables in the place of those that it has.
fn with_tables(page: &str) -> String {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    for (title, table) in tables() {
        let at = lines.iter().position(|line| line == title).unwrap_or_else(|| panic!("{PAGE} has no {title}"));
        let first = at + lines[at..].iter().position(|line| line.starts_with('|')).expect("a table");
        let count = lines[first..].iter().take_while(|line| line.starts_with('|')).count();
        lines.splice(first..first + count, table);
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_page_on_bounds_says_what_the_table_says() {
    let path = project_root().join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let expected = with_tables(&page);
    if blessing() {
        std::fs::write(&path, expected).expect("the page can be written");
        return;
    }
    assert!(
        page == expected,
        "{PAGE} is not what the table says. If the change is meant: AGENTQ_BLESS=1 make test\n{expected}"
    );
}

#[test]
fn the_bounds_that_are_settings_have_the_defaults_that_the_page_names() {
    let db = database();
    let mut s = db.session();
    for (what, bound, setting) in bounds::SIZES.iter().filter(|(.., setting)| !setting.is_empty()) {
        let Bound::Document(bytes) = bound else { panic!("{what} is no document") };
        assert_eq!(s.call(&format!("fn_config_get('{setting}')")), serde_json::json!(bytes), "{setting}");
    }
}
