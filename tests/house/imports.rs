//! Who may name whom: rooms name only rooms below them, and the parts of the queue only parts below them.
//!
//! The sources are read as text. Every path that begins with `crate::` or `super::` counts, in a `use` and in the middle
//! of an expression alike.

use crate::sources::files;
use agentq_tests::project_root;

/// What stands beside the rooms, on which all of them build. It may name base, and no other room.
const FOUNDATION: [&str; 12] =
    ["error", "server", "commands", "journal", "memory", "pg", "prepared", "room", "db", "json", "shared", "table"];
/// The parts of the queue, from the lowest to the highest.
const PARTS: [&str; 16] = [
    "settings",
    "rows",
    "rules",
    "answer",
    "batch_list",
    "capabilities",
    "waking",
    "counting",
    "storage",
    "capacity",
    "ends",
    "intake",
    "claim",
    "redrive",
    "admin",
    "chores",
];

/// The rooms, from the lowest to the highest, as lib.rs lists them.
fn rooms() -> Vec<String> {
    let lib = std::fs::read_to_string(project_root().join("src/lib.rs")).expect("src/lib.rs");
    let (_, list) = lib.split_once("static ROOMS").expect("lib.rs lists the rooms");
    let list = list.split_once(';').map_or(list, |(list, _)| list);
    let names = list.split('&').filter_map(|part| part.split_once("::ROOM")).map(|(name, _)| name.to_owned());
    let rooms: Vec<String> = names.collect();
    assert!(rooms.len() >= 6 && rooms[0] == "base", "{rooms:?}");
    rooms
}

/// The text without comments and without what stands in quotes.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let mut in_quotes = false;
        let mut letters = line.chars().peekable();
        let mut before = ' ';
        while let Some(letter) = letters.next() {
            if !in_quotes && letter == '/' && letters.peek() == Some(&'/') {
                break;
            }
            if letter == '"' && before != '\\' && before != '\'' {
                in_quotes = !in_quotes;
            } else if !in_quotes {
                code.push(letter);
            }
            before = if before == '\\' { ' ' } else { letter };
        }
        code.push('\n');
    }
    code
}

/// The module of a file, by its segments: src/queue/claim/mod.rs is queue, claim.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut segments: Vec<String> = path.split('/').map(str::to_owned).collect();
    if segments.last().is_some_and(|last| last == "mod" || last == "lib") {
        segments.pop();
    }
    segments
}

/// The modules that a text names, each by its segments.
fn named(path: &str, text: &str) -> Vec<Vec<String>> {
    let (code, module) = (code(text), module_of(path));
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(at) = ["crate::", "super::"].iter().filter_map(|start| rest.find(start)).min() {
        let is_word = rest[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$');
        let mut tail = &rest[at..];
        let mut base = if tail.starts_with("crate::") { Vec::new() } else { module.clone() };
        if tail.starts_with("crate::") {
            tail = &tail["crate::".len()..];
        }
        while let Some(up) = tail.strip_prefix("super::") {
            base.pop();
            tail = up;
        }
        if !is_word {
            read_tree(&base, tail, &mut found);
        }
        rest = tail;
    }
    found
}

/// Reads a path, or a tree of paths in braces, that goes on from `base`; returns what follows it.
fn read_tree<'a>(base: &[String], text: &'a str, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut inside) = text.strip_prefix('{') {
        loop {
            inside = read_tree(base, inside, found).trim_start();
            match inside.strip_prefix(',') {
                Some(more) if !more.trim_start().starts_with('}') => inside = more,
                Some(end) => return end.trim_start().trim_start_matches('}'),
                None => return inside.strip_prefix('}').unwrap_or(inside),
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut path = base.to_vec();
    if name != "self" && !name.is_empty() {
        path.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(more) if !name.is_empty() => read_tree(&path, more, found),
        _ => {
            found.push(path);
            // A name that a `use` gives: `a as b`.
            match rest.trim_start().strip_prefix("as ") {
                Some(alias) => alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
                None => rest,
            }
        }
    }
}

/// What a file names that it may not.
fn violations(rooms: &[String], path: &str, text: &str) -> Vec<String> {
    let module = module_of(path);
    let Some(own) = module.first() else { return Vec::new() };
    let level = |room: &str| rooms.iter().position(|other| other == room);
    let part = |segments: &[String]| {
        let part = segments.first().filter(|room| *room == "queue").and_then(|_| segments.get(1))?;
        PARTS.iter().position(|other| other == part)
    };
    let mut found = Vec::new();
    for named in named(path, text) {
        let Some(room) = named.first() else { continue };
        let is_upward = match (level(own), level(room)) {
            (Some(own), Some(other)) => other > own,
            // What stands beside the rooms knows base and no other.
            (None, Some(other)) => FOUNDATION.contains(&own.as_str()) && other > 0,
            _ => false,
        };
        let is_upward_in_queue = matches!((part(&module), part(&named)), (Some(own), Some(other)) if other > own);
        if is_upward || is_upward_in_queue {
            found.push(format!("{path} names {}", named.join("::")));
        }
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn rooms_and_parts_of_the_queue_name_only_what_is_below_them() {
    let rooms = rooms();
    let found: Vec<String> =
        files("src", ".rs").iter().flat_map(|(path, text)| violations(&rooms, path, text)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_folder_has_its_place_in_the_order() {
    let rooms = rooms();
    for (path, _) in files("src", ".rs") {
        let module = module_of(&path);
        let Some(first) = module.first() else { continue };
        let is_known = rooms.contains(first) || FOUNDATION.contains(&first.as_str()) || first == "schema";
        assert!(is_known, "{path} is in no room");
        if let [room, part, ..] = module.as_slice()
            && room == "queue"
        {
            assert!(PARTS.contains(&part.as_str()), "{path} is in no part of the queue");
        }
    }
}

#[test]
fn nobody_but_the_lists_names_the_highest_room_below_the_engine() {
    let rooms = rooms();
    let highest = &rooms[rooms.len() - 2];
    let lists = ["src/lib.rs", "src/schema.rs"];
    let named: Vec<String> = files("src", ".rs")
        .into_iter()
        .filter(|(path, text)| {
            !path.starts_with(&format!("src/{highest}/")) && !lists.contains(&path.as_str()) && text.contains(highest)
        })
        .map(|(path, _)| path)
        .collect();
    assert!(named.is_empty(), "{highest} is named in {named:?}: a new room would have to be, too");
}

#[test]
fn planted_violations_are_found() {
    let rooms = rooms();
    let is_found = |path: &str, text: &str| !violations(&rooms, path, text).is_empty();
    for (path, text) in [
        ("src/base/clock.rs", "use crate::queue::rules::Rulebook;"),
        ("src/events/seal.rs", "fn f() { crate::flow::missions::check(); }"),
        ("src/queue/mod.rs", "use crate::{base::clock, governance::proposals};"),
        ("src/queue/storage/place.rs", "use crate::queue::claim::Claimed;"),
        ("src/queue/storage/marks/mod.rs", "use crate::queue::{rules::Rulebook, ends::{ack, settle}};"),
        ("src/queue/capacity/gates.rs", "let x = super::super::claim::one_of();"),
        ("src/queue/rules/mod.rs", "use super::storage::Place;"),
        ("src/queue/claim/lanes.rs", "use super::super::admin::{\n    handlers,\n};"),
        ("src/db/plan.rs", "use crate::events::emit;"),
        ("src/table/mod.rs", "crate :: x; crate::engine::worker::run()"),
    ] {
        assert!(is_found(path, text), "{path}: {text}");
    }
    for (path, text) in [
        ("src/flow/mod.rs", "use crate::queue::redrive::replay::{self, Steps};"),
        ("src/queue/claim/search.rs", "use super::lanes::Lane; use crate::queue::ends::{hooks, reap};"),
        ("src/queue/ends/ack.rs", "// crate::queue::claim is above\nlet text = \"crate::queue::claim\";"),
        ("src/queue/storage/place.rs", "use super::marks::{self, LaneName};"),
        ("src/db/plan.rs", "use crate::base::clock; use super::rows::Rows;"),
    ] {
        assert!(!is_found(path, text), "{path}: {text}");
    }
}
