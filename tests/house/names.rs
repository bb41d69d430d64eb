//! The page of names: every object on it exists, and the tests that it names call that object.

use agentq_tests::{database, project_root};

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The texts of the test modules that a cell names, as in `tests/queue`: `waits`, `lease`; `tests/flow`: `children`.
fn tests_of(cell: &str) -> String {
    let mut text = String::new();
    for suite in cell.split(';') {
        let mut names = quoted(suite).into_iter();
        let Some(folder) = names.next() else { continue };
        for module in names {
            let path = project_root().join(folder).join(format!("{module}.rs"));
            text += &std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    text
}

#[test]
fn every_name_on_the_page_is_there_and_is_called_by_its_tests() {
    let db = database();
    let mut objects = db.session().texts(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'agentq'::regnamespace
         UNION SELECT relname FROM pg_class WHERE relnamespace = 'agentq'::regnamespace AND relkind IN ('r', 'p', 'v')",
    );
    objects.sort();
    let page = std::fs::read_to_string(project_root().join("docs/names.md")).expect("docs/names.md");
    let (mut rows, mut wrong) = (0, Vec::new());
    for line in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [_, here, called_by] = cells[..] else { panic!("a row has three cells: {line}") };
        if here.trim() == "Here" {
            continue;
        }
        rows += 1;
        let tests = tests_of(called_by);
        for name in quoted(here) {
            let is_there = objects.binary_search_by(|object| object.as_str().cmp(name)).is_ok();
            if !is_there && (name.starts_with("fn_") || name.starts_with("v_")) {
                wrong.push(format!("there is no {name}"));
            } else if is_there && !tests.contains(name) {
                wrong.push(format!("the tests of its row do not name {name}"));
            }
        }
    }
    assert!(rows > 40, "{rows} rows");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
