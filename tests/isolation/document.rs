//! What `docs/isolation.md` says is what the schedules have shown.

use crate::operations::OPERATIONS;
use crate::oracle::Exception;
use agentq_tests::project_root;
use std::collections::BTreeSet;

fn document() -> String {
    std::fs::read_to_string(project_root().join("docs/isolation.md")).expect("docs/isolation.md")
}

/// Every exception has its reason there.
pub fn has_the_exceptions() {
    let document = document();
    for exception in Exception::ALL {
        assert!(document.contains(exception.reason()), "docs/isolation.md does not say: {}", exception.reason());
    }
}

/// The functions that never fail because another session was quicker are listed as such, and no others.
pub fn names_who_is_told(told: &BTreeSet<&str>) {
    let document = document();
    let list = document.split("<!-- never told -->").nth(1).expect("the list of those who are never told");
    let listed: BTreeSet<String> =
        list.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches("()").to_owned()).collect();
    let never = OPERATIONS.iter().filter(|op| !told.contains(op.name));
    let mut functions: BTreeSet<String> = never.map(|op| op.function().to_owned()).collect();
    // One form of the call is enough to be told.
    OPERATIONS.iter().filter(|op| told.contains(op.name)).for_each(|op| {
        functions.remove(&op.function());
    });
    assert_eq!(listed, functions, "docs/isolation.md: between the two marks");
}
