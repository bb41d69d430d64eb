//! What an SQL/JSON path refers to: which steps, and which variables.
//!
//! The server parses and runs paths. Here only the beginnings are read: `$.draft.score` is about the step draft,
//! `$item` about the item of a list. So a step is given the results it names, and no more, and a name that does not
//! exist is found when the mission is submitted.

use crate::Refusal;
use crate::error::shown;
use std::collections::BTreeSet;

/// What a path refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    pub steps: BTreeSet<String>,
    pub variables: BTreeSet<String>,
}

impl References {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.variables.is_empty()
    }
}

const SPECIAL: &str = "?%$.[]{}()|&!=<>@#,*:-+/\\\"' \t\r\n";

fn is_plain(c: char) -> bool {
    !SPECIAL.contains(c)
}

/// Reads what a path refers to.
pub fn references(path: &str) -> Result<References, Refusal> {
    let mut found = References::default();
    let mut rest = path;
    let mut after_dot = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            // A literal, or the name of a member deeper inside.
            '"' => rest = quoted(rest, path)?.1,
            // A member whose name contains $ must be quoted; one that follows a dot is not the root.
            '$' if !after_dot => rest = root(rest, path, &mut found)?,
            _ => {}
        }
        after_dot = c == '.' || (after_dot && c.is_whitespace());
    }
    Ok(found)
}

/// The beginnings of a path, the longest first: `$.a.list`, `$.a` and `$` of `$.a.list ? (@ > 1)`. A beginning ends behind a
/// member or a subscript; what follows the first that is neither belongs to none.
pub fn beginnings(path: &str) -> Vec<&str> {
    let Some(root) = path.find('$') else { return Vec::new() };
    let mut rest = &path[root + 1..];
    let mut ends = vec![root + 1];
    loop {
        let at = rest.trim_start();
        let next = if let Some(member) = at.strip_prefix('.') {
            let member = member.trim_start();
            match member.strip_prefix('"') {
                Some(name) => quoted(name, path).ok().map(|(_, rest)| rest),
                None => Some(&member[member.find(|c| !is_plain(c)).unwrap_or(member.len())..]),
            }
            // A call, such as .size(), or one of .* and .**.
            .filter(|rest| rest.len() < member.len() && !rest.trim_start().starts_with('('))
        } else {
            at.strip_prefix('[').and_then(|subscript| Some(&subscript[subscript.find(']')? + 1..]))
        };
        let Some(next) = next else { break };
        rest = next;
        ends.push(path.len() - rest.len());
    }
    ends.into_iter().rev().map(|end| &path[..end]).collect()
}

/// Reads what follows a `$`; returns the rest.
fn root<'a>(rest: &'a str, path: &str, found: &mut References) -> Result<&'a str, Refusal> {
    let name_end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
    if name_end > 0 {
        found.variables.insert(rest[..name_end].to_owned());
        return Ok(&rest[name_end..]);
    }
    if let Some(variable) = rest.strip_prefix('"') {
        let (name, rest) = quoted(variable, path)?;
        found.variables.insert(name);
        return Ok(rest);
    }
    let member = rest.trim_start().strip_prefix('.').map(str::trim_start).ok_or_else(|| whole(path))?;
    if let Some(member) = member.strip_prefix('"') {
        let (name, rest) = quoted(member, path)?;
        found.steps.insert(name);
        return Ok(rest);
    }
    let end = member.find(|c| !is_plain(c)).unwrap_or(member.len());
    if end == 0 || member[end..].trim_start().starts_with('(') {
        return Err(whole(path));
    }
    found.steps.insert(member[..end].to_owned());
    Ok(&member[end..])
}

/// Reads a quoted text whose opening quote has been read.
fn quoted<'a>(rest: &'a str, path: &str) -> Result<(String, &'a str), Refusal> {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                let text = serde_json::from_str(&format!("\"{}\"", &rest[..at]));
                return Ok((text.unwrap_or_else(|_| rest[..at].to_owned()), &rest[at + 1..]));
            }
            _ => {}
        }
    }
    Err(Refusal::new(
        format!("the path \"{}\" has a quote that is not closed", shown(path)),
        "Close it, as in $.\"a step\".url.",
    ))
}

fn whole(path: &str) -> Refusal {
    Refusal::new(
        format!("the path \"{}\" does not name the step whose result it is about", shown(path)),
        "Begin with a step, as in $.draft.score > 0.8; a name with blanks or signs is quoted, as in $.\"my step\".score.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &str) -> Vec<String> {
        references(path).unwrap().steps.into_iter().collect()
    }

    #[test]
    fn the_beginnings_of_a_path_end_behind_members_and_subscripts() {
        assert_eq!(beginnings("$.a.list[*] ? (@.x > 1).y"), ["$.a.list[*]", "$.a.list", "$.a", "$"]);
        assert_eq!(
            beginnings("strict $ . \"a b\" [0 to 2]"),
            ["strict $ . \"a b\" [0 to 2]", "strict $ . \"a b\"", "strict $"]
        );
        assert_eq!(beginnings("$.a.size()"), ["$.a", "$"]);
        assert_eq!(beginnings("$.a.**"), ["$.a", "$"]);
        assert_eq!(beginnings("$.größe"), ["$.größe", "$"]);
        assert_eq!(beginnings("7"), Vec::<&str>::new());
    }

    #[test]
    fn steps_and_variables_are_found() {
        assert_eq!(steps("$.draft.score > 0.8"), ["draft"]);
        assert_eq!(steps("$.a.x == $.b.y && exists($ . c ? (@.z like_regex \"^$.no\"))"), ["a", "b", "c"]);
        assert_eq!(steps("strict $.\"my step\".list[*]"), ["my step"]);
        assert_eq!(steps("$.\"a\\\"b\".x"), ["a\"b"]);
        assert_eq!(steps("$.a.\"$.b\".c == \"$.d\""), ["a"]);
        assert_eq!(steps("$.größe.x"), ["größe"]);
        let found = references("$item.url != $.seen.url || $index > 3").unwrap();
        assert_eq!(found.variables.into_iter().collect::<Vec<_>>(), ["index", "item"]);
        assert_eq!(found.steps.into_iter().collect::<Vec<_>>(), ["seen"]);
    }

    #[test]
    fn a_path_about_everything_is_refused() {
        for path in ["$", "$.*", "$[*]", "$ ? (@.a > 1)", "$.size()", "$.keyvalue ( )", "$.**.x"] {
            assert!(references(path).unwrap_err().message.contains("does not name the step"), "{path}");
        }
        assert!(references("$.\"a").unwrap_err().message.contains("not closed"));
    }
}
