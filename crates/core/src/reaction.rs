//! Which events call for a reaction: patterns on type, tags and source, and chance.
//!
//! Conditions on the data, cooldown and dedupe need the server, and are checked after these.

use crate::error::{Refusal, shown};
use crate::input;
use crate::jsonb::Item;
use crate::policy::{LONGEST_GLOB, MOST_GLOBS, REACTION_MATRIX};
use crate::reader::{Member, Reader};
use serde_json::Value;

/// The largest number of patterns: each event is held against all of them.
const MOST_PATTERNS: usize = crate::bounds::PATTERNS;
/// An object with this key alone stands for a value of the event.
const REFERENCE: &str = "$event";

/// A rule: which events, how often, and what is then proposed.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    pub name: String,
    pub enabled: bool,
    types: Vec<String>,
    any_tags: Vec<String>,
    all_tags: Vec<String>,
    sources: Vec<String>,
    /// A predicate in SQL/JSON path on the event's data.
    pub when: Option<String>,
    pub probability: f64,
    pub cooldown_seconds: f64,
    pub dedupe: Vec<Piece>,
    pub template: Value,
    /// Where it stands in the matrix, for messages.
    pub path: String,
}

/// A piece of a dedupe key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// A path to a value of the event.
    Path(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    pub patterns: Vec<Pattern>,
}

const KEYS: [&str; 12] = [
    "id",
    "name",
    "description",
    "enabled",
    "type",
    "tags",
    "source",
    "when",
    "probability",
    "cooldown_seconds",
    "dedupe",
    "template",
];

impl Matrix {
    pub fn read(value: Item<'_>) -> Result<Matrix, Refusal> {
        let at = Reader::open(REACTION_MATRIX, value)?;
        let at = at.hint("Join patterns: type and source may be lists, and * stands for anything.");
        let items = at.list("patterns", 0..=MOST_PATTERNS)?;
        let mut patterns: Vec<Pattern> = Vec::with_capacity(items.len());
        for item in items {
            let pattern = Pattern::read(&item)?;
            if patterns.iter().any(|other| other.name == pattern.name) {
                return Err(item.refuse(
                    format!("there is another pattern \"{}\" before it", pattern.name),
                    "Give each pattern another id: cooldown and dedupe go by it.",
                ));
            }
            patterns.push(pattern);
        }
        Ok(Matrix { patterns })
    }

    /// The patterns that an event fits by its type, tags and source.
    pub fn fitting<'a>(
        &'a self,
        kind: &'a str,
        tags: &'a [String],
        source: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Pattern> {
        self.patterns.iter().filter(move |pattern| pattern.enabled && pattern.fits(kind, tags, source))
    }

    pub fn is_idle(&self) -> bool {
        !self.patterns.iter().any(|pattern| pattern.enabled)
    }
}

impl Pattern {
    fn read(at: &Reader<'_>) -> Result<Pattern, Refusal> {
        at.object(&KEYS)?;
        let name = at.member("id").reader().or_else(|| at.member("name").reader()).ok_or_else(|| {
            at.refuse("a pattern needs an id", "Give it an \"id\" (or \"name\") that no other pattern has.")
        })?;
        let types = at.member("type").reader().ok_or_else(|| {
            at.refuse("a pattern needs a type", "Give it a \"type\" such as \"user:*\", or \"*\" for every event.")
        })?;
        let globs = |list: Member<'_>| list.names(MOST_GLOBS, LONGEST_GLOB).map(Option::unwrap_or_default);
        let (any_tags, all_tags) = match at.member("tags").reader() {
            Some(tags) if tags.is_object() => {
                tags.object(&["any", "all"])?;
                (globs(tags.member("any"))?, globs(tags.member("all"))?)
            }
            tags => (globs(tags.into())?, Vec::new()),
        };
        let template = at.member("template").reader().ok_or_else(|| {
            at.refuse("a pattern needs a template", "Give it the mission template that is to be proposed.")
        })?;
        template.map()?;
        Ok(Pattern {
            name: name.name(input::LONGEST_NAME)?.to_owned(),
            enabled: at.member("enabled").flag()?.unwrap_or(true),
            types: types.names(MOST_GLOBS, LONGEST_GLOB)?,
            any_tags,
            all_tags,
            sources: globs(at.member("source"))?,
            when: at.member("when").name(usize::MAX)?.map(str::to_owned),
            probability: at.member("probability").number(0.0..=1.0)?.unwrap_or(1.0),
            cooldown_seconds: at.member("cooldown_seconds").number(0.0..=315_360_000.0)?.unwrap_or(0.0),
            dedupe: at.member("dedupe").read(|dedupe| pieces(&dedupe))?.unwrap_or_default(),
            template: template.value()?,
            path: at.path().to_owned(),
        })
    }

    fn fits(&self, kind: &str, tags: &[String], source: Option<&str>) -> bool {
        self.types.iter().any(|pattern| glob(pattern, kind))
            && (self.any_tags.is_empty() || self.any_tags.iter().any(|tag| tags.contains(tag)))
            && self.all_tags.iter().all(|tag| tags.contains(tag))
            && (self.sources.is_empty()
                || source.is_some_and(|source| self.sources.iter().any(|pattern| glob(pattern, source))))
    }

    /// Whether chance lets this event through. An event always gets one answer.
    pub fn is_lucky(&self, event: &[u8; 16]) -> bool {
        draw(event, &self.name) < self.probability
    }

    /// Every path into the event that the pattern has, and where it has it.
    pub fn paths(&self) -> Vec<(String, String)> {
        let mut paths = Vec::new();
        if let Some(when) = &self.when {
            paths.push((format!("{}.when", self.path), when.clone()));
        }
        for piece in &self.dedupe {
            if let Piece::Path(path) = piece {
                paths.push((format!("{}.dedupe", self.path), path.clone()));
            }
        }
        collect(&self.template, &format!("{}.template", self.path), &mut paths);
        paths
    }
}

/// Whether a text fits a pattern in which * stands for any letters, and ? for one.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Where to go on if what follows the last star does not fit.
    let mut again: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (here, there) = (pattern.clone(), text.clone());
        match (pattern.next(), text.next()) {
            (Some('*'), _) => {
                again = Some((pattern.clone(), there.clone()));
                text = there;
            }
            (None, None) => return true,
            (Some('?'), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => {
                drop(here);
                let Some((after_star, mut rest)) = again.take() else { return false };
                if rest.next().is_none() {
                    return false;
                }
                (pattern, text) = (after_star.clone(), rest.clone());
                again = Some((after_star, rest));
            }
        }
    }
}

/// A number from 0 to 1, 1 excluded, that depends on nothing but the event and the name.
fn draw(event: &[u8; 16], name: &str) -> f64 {
    // FNV-1a, and the last rounds of splitmix64 to spread it: both written down for good, so that
    // another version of agentq decides the same.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in event.iter().chain(name.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((hash ^ (hash >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A key is a path, or a text in which {path} stands for what the path leads to.
fn pieces(at: &Reader<'_>) -> Result<Vec<Piece>, Refusal> {
    let mut rest = at.name(usize::MAX)?;
    if rest.starts_with('$') {
        return Ok(vec![Piece::Path(rest.to_owned())]);
    }
    let mut pieces = Vec::new();
    while let Some(begin) = rest.find("{$") {
        let Some(length) = rest[begin..].find('}') else {
            return Err(at.refuse("a { is not closed", "Write it as in \"user:{$.user_id}\"."));
        };
        if begin > 0 {
            pieces.push(Piece::Text(rest[..begin].to_owned()));
        }
        pieces.push(Piece::Path(rest[begin + 1..begin + length].to_owned()));
        rest = &rest[begin + length + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// The path that an object stands for, if it is a reference to the event.
fn reference(value: &Value) -> Option<&str> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    map.get(REFERENCE)?.as_str()
}

fn collect(value: &Value, at: &str, paths: &mut Vec<(String, String)>) {
    if let Some(path) = reference(value) {
        paths.push((at.to_owned(), path.to_owned()));
        return;
    }
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| collect(value, &format!("{at}.{}", shown(key)), paths))
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(n, value)| collect(value, &format!("{at}[{n}]"), paths));
        }
        _ => {}
    }
}

/// A template with the event's values in place of the references to them.
pub fn resolve(template: &Value, value_of: &mut dyn FnMut(&str) -> Result<Value, Refusal>) -> Result<Value, Refusal> {
    if let Some(path) = reference(template) {
        let value = value_of(path)?;
        if has_reference(&value) {
            return Err(Refusal::new(
                format!("the event's data at {path} holds a reference"),
                "Data must not have objects whose only key begins with $: they would be taken for references.",
            ));
        }
        return Ok(value);
    }
    Ok(match template {
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| Ok((key.clone(), resolve(value, value_of)?)));
            Value::Object(members.collect::<Result<_, Refusal>>()?)
        }
        Value::Array(list) => {
            Value::Array(list.iter().map(|value| resolve(value, value_of)).collect::<Result<_, Refusal>>()?)
        }
        other => other.clone(),
    })
}

/// Whether something that comes from outside would be read as a reference later.
fn has_reference(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            (map.len() == 1 && map.keys().all(|key| key.starts_with('$'))) || map.values().any(has_reference)
        }
        Value::Array(list) => list.iter().any(has_reference),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::document;
    use proptest::prelude::*;
    use serde_json::json;

    fn matrix(patterns: Value) -> Matrix {
        Matrix::read(document(&patterns)).unwrap()
    }

    fn names(matrix: &Matrix, kind: &str, tags: &[&str], source: Option<&str>) -> Vec<String> {
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        matrix.fitting(kind, &tags, source).map(|pattern| pattern.name.clone()).collect()
    }

    #[test]
    fn an_event_fits_by_type_tags_and_source() {
        let matrix = matrix(json!([
            {"id": "a", "type": "user:*", "template": {}},
            {"id": "b", "type": ["user:request", "step.?ailed"], "tags": ["x", "y"], "template": {}},
            {"id": "c", "type": "*", "tags": {"all": ["x", "y"]}, "template": {}},
            {"id": "d", "type": "*", "source": ["web*"], "template": {}},
            {"id": "e", "type": "*", "enabled": false, "template": {}},
        ]));
        assert_eq!(names(&matrix, "user:request", &[], None), ["a"]);
        assert_eq!(names(&matrix, "user:request", &["y"], None), ["a", "b"]);
        assert_eq!(names(&matrix, "step.failed", &["x", "y"], Some("web-1")), ["b", "c", "d"]);
        assert_eq!(names(&matrix, "user", &["x"], Some("api")), Vec::<String>::new());
    }

    #[test]
    fn a_pattern_that_does_not_fit_is_refused_with_its_path() {
        for (patterns, message) in [
            (json!({}), "reaction_matrix must be a list"),
            (json!([1]), "reaction_matrix[0] must be a JSON object"),
            (json!([{"type": "x", "template": {}}]), "reaction_matrix[0]: a pattern needs an id"),
            (json!([{"id": "a", "template": {}}]), "reaction_matrix[0]: a pattern needs a type"),
            (json!([{"id": "a", "type": "x"}]), "reaction_matrix[0]: a pattern needs a template"),
            (json!([{"id": "a", "type": "x", "template": {}, "colour": 1}]), "reaction_matrix[0] has the unknown key"),
            (
                json!([{"id": "a", "type": "x", "template": {}, "probability": 2}]),
                "reaction_matrix[0].probability must be",
            ),
            (
                json!([{"id": "a", "type": "x", "template": {}, "dedupe": "a{$.b"}]),
                "reaction_matrix[0].dedupe: a { is not",
            ),
            (
                json!([{"id": "a", "type": "x", "template": {}}, {"id": "a", "type": "y", "template": {}}]),
                "reaction_matrix[1]: there is another pattern \"a\"",
            ),
        ] {
            let found = Matrix::read(document(&patterns)).unwrap_err().message;
            assert!(found.starts_with(message), "{found}");
        }
    }

    #[test]
    fn paths_into_the_event_are_found_and_followed() {
        let matrix = matrix(json!([{"id": "a", "type": "x", "when": "$.n > 1", "dedupe": "u:{$.u}:{$.v}!",
            "template": {"title": "t", "steps": [{"kind": "k", "params": {"who": {"$event": "$.who"}}}]}}]));
        let pattern = &matrix.patterns[0];
        let paths: Vec<String> = pattern.paths().into_iter().map(|(at, path)| format!("{at} {path}")).collect();
        assert_eq!(
            paths,
            [
                "reaction_matrix[0].when $.n > 1",
                "reaction_matrix[0].dedupe $.u",
                "reaction_matrix[0].dedupe $.v",
                "reaction_matrix[0].template.steps[0].params.who $.who",
            ]
        );
        let resolved = resolve(&pattern.template, &mut |path| Ok(json!([path]))).unwrap();
        assert_eq!(resolved["steps"][0]["params"], json!({"who": ["$.who"]}));
        // What comes from outside is data, and never a reference.
        for bad in [json!({"$from": "$.secret"}), json!([{"a": {"$event": "$"}}])] {
            let refused = resolve(&pattern.template, &mut |_| Ok(bad.clone())).unwrap_err();
            assert!(refused.message.contains("$.who holds a reference"), "{refused}");
        }
    }

    #[test]
    fn chance_is_the_same_for_the_same_event_and_spreads_over_others() {
        let pattern = &matrix(json!([{"id": "a", "type": "x", "probability": 0.25, "template": {}}])).patterns[0];
        let event = |n: u32| {
            let mut id = [7_u8; 16];
            id[12..].copy_from_slice(&n.to_be_bytes());
            id
        };
        let lucky = (0..10_000).filter(|n| pattern.is_lucky(&event(*n))).count();
        assert!((2_300..2_700).contains(&lucky), "{lucky}");
        // Written down for good: an event that was decided on must not be decided otherwise.
        assert_eq!(format!("{:.6}", draw(&[0; 16], "a")), format!("{:.6}", draw(&[0; 16], "a")));
        let never = Pattern { probability: 0.0, ..pattern.clone() };
        let always = Pattern { probability: 1.0, ..pattern.clone() };
        assert!((0..1_000).all(|n| !never.is_lucky(&event(n)) && always.is_lucky(&event(n))));
    }

    /// The plainest way to say it.
    fn slow_glob(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|skip| slow_glob(rest, &text[skip..])),
            Some((one, rest)) => {
                text.split_first().is_some_and(|(other, more)| (*one == '?' || one == other) && slow_glob(rest, more))
            }
        }
    }

    proptest! {
        #[test]
        fn a_glob_means_what_the_plainest_reading_says(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(glob(&pattern, &text), slow_glob(&chars(&pattern), &chars(&text)));
        }
    }
}
