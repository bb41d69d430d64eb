//! The check before a release refuses a version about which the files of the project disagree.

use agentq_tests::{CURRENT, previous_version, project_root};
use std::path::Path;
use std::process::Command;

/// What the check reads.
const READ: [&str; 16] = [
    "Cargo.lock",
    "Cargo.toml",
    "benches/Cargo.toml",
    "crates/core/Cargo.toml",
    "crates/model/Cargo.toml",
    "tests/Cargo.toml",
    "torture/Cargo.toml",
    "META.json",
    "agentq.control",
    "CHANGELOG.md",
    "README.md",
    "SECURITY.md",
    "docs",
    "scripts/lib.sh",
    "sql",
    "src/base/version.rs",
];

/// What may disagree: the file, what stands there, what stands there instead, and what the check says of it. Where nothing
/// stands there, the file is gone. {V} is this version, {P} the one before, {M} and {N} their minor versions.
const DISAGREEMENTS: [(&str, &str, &str, &str); 25] = [
    ("Cargo.toml", "version = \"{V}\"", "version = \"{V}.next\"", "which is no release"),
    ("crates/core/Cargo.toml", "version.workspace = true", "version = \"{V}\"", "has a version of its own"),
    (
        "Cargo.lock",
        "name = \"agentq\"\nversion = \"{V}\"",
        "name = \"agentq\"\nversion = \"{P}\"",
        "Cargo.lock about agentq",
    ),
    ("agentq.control", "@CARGO_VERSION@", "{P}", "default_version in agentq.control"),
    ("agentq.control", "module_pathname = 'agentq'", "module_pathname = 'other'", "module_pathname in agentq.control"),
    ("CHANGELOG.md", "## {V}", "## Unreleased", "the first heading of CHANGELOG.md"),
    ("CHANGELOG.md", "## {V}", "## {V}\n\n## {P}", "does not say what is new in {V}"),
    ("src/base/version.rs", "Some(\"{P}\")", "Some(\"0.0.1\")", "PREVIOUS in src/base/version.rs"),
    ("sql/install/agentq--{P}.sql", "", "", "sql/install has no agentq--{P}.sql"),
    ("sql/upgrade/agentq--{P}--{V}.sql", "", "", "sql/upgrade has no agentq--{P}--{V}.sql"),
    ("sql/upgrade/agentq--{P}--{V}.sql", "-- include: sql/", "-- include: sql/not/", "which is not there"),
    ("scripts/lib.sh", "majors=(15 ", "majors=(14 15 ", "the features of Cargo.toml"),
    ("scripts/lib.sh", "[18]=", "[19]=", "the table of releases of Debian"),
    ("Cargo.toml", "pg18 = ", "pg19 = ", "the features of Cargo.toml"),
    ("docs/support.md", "| 18 |", "| 19 |", "the table in docs/support.md"),
    ("README.md", "| 15, 16, 17, 18 |", "| 15, 16, 17 |", "the table in README.md"),
    ("META.json", "< 19.0.0", "< 20.0.0", "PostgreSQL in META.json"),
    (
        "META.json",
        "\"version\": \"{V}\",\n    \"maintainer\"",
        "\"version\": \"{P}\",\n    \"maintainer\"",
        "version in META.json",
    ),
    ("META.json", "\"version\": \"{V}\"\n", "\"version\": \"{P}\"\n", "provides.agentq.version in META.json"),
    ("META.json", "\"abstract\": ", "\"summary\": ", "META.json has summary, which the spec does not know"),
    ("META.json", "{", "", "it is no JSON"),
    ("docs/support.md", "| {M} | fixes", "| {M} | nothing", "does not say that {M} gets fixes"),
    ("docs/support.md", "| {N} |", "| older than {N} |", "does not say what {N} gets"),
    ("README.md", "## Quickstart", "## Quickstart of agentq {P}", "names agentq {P}, not {V}"),
    ("SECURITY.md", "", "", "there is no SECURITY.md"),
];

/// What the check says of the project in a folder; None: that it may be released.
fn refused(folder: &Path) -> Option<String> {
    let check = project_root().join("scripts/release-check");
    let out = Command::new(check).arg(folder).output().expect("scripts/release-check");
    (!out.status.success()).then(|| String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn nothing_in_the_project_stands_in_the_way_of_a_release() {
    assert_eq!(refused(&project_root()), None);
}

#[test]
fn a_version_about_which_two_files_disagree_is_refused_with_a_sentence_that_names_both() {
    let copy = std::env::temp_dir().join(format!("agentq-release-{}", std::process::id()));
    std::fs::create_dir_all(&copy).expect("a folder");
    let copied =
        Command::new("cp").args(["-r", "--parents"]).args(READ).arg(&copy).current_dir(project_root()).status();
    assert!(copied.expect("cp").success());
    assert_eq!(refused(&copy), None, "the copy is whole");

    let previous = previous_version();
    let minor = |version: &str| version.rsplit_once('.').expect("three numbers").0.to_owned();
    let (its_minor, previous_minor) = (minor(CURRENT), minor(previous));
    let names = [("{V}", CURRENT), ("{P}", previous), ("{M}", its_minor.as_str()), ("{N}", previous_minor.as_str())];
    let filled = |text: &str| names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));

    let mut unseen = Vec::new();
    for (file, from, to, said) in DISAGREEMENTS {
        let (path, from, said) = (copy.join(filled(file)), filled(from), filled(said));
        let whole = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if from.is_empty() {
            std::fs::remove_file(&path).expect("it goes");
        } else {
            assert!(whole.contains(&from), "{file} does not say {from:?}");
            std::fs::write(&path, whole.replacen(&from, &filled(to), 1)).expect("it is written");
        }
        match refused(&copy) {
            Some(text) if text.contains(&said) => {}
            other => unseen.push(format!("{file}: not {said:?} but {other:?}")),
        }
        std::fs::write(&path, whole).expect("it is written");
    }
    std::fs::remove_dir_all(&copy).expect("it goes");
    assert!(unseen.is_empty(), "{}", unseen.join("\n"));
}
