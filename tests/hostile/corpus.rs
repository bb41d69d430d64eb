//! Values for arguments, as SQL: those that make sense, so that a call gets far, and those that make none.

use crate::catalog::{Argument, Function};
use crate::world::{LARGE_VALUES, OWNER, World};
use agentq_tests::dice::Dice;
use std::collections::{BTreeMap, BTreeSet};

const TEXTS: [&str; 24] = [
    "",
    " ",
    "'",
    "''; DROP SCHEMA agentq CASCADE; --",
    "\"",
    "\\",
    "\\x00",
    "$$",
    "$1",
    "%s%n%%d",
    "{}",
    "a\nb\r\tc",
    "\u{1}\u{7f}\u{85}",
    "\u{202e}drowssap\u{200f}",
    "\u{1f980}\u{10ffff}\u{feff}",
    "e\u{301}\u{300}\u{302}",
    "NULL",
    "*",
    "a*b?c**",
    "$.a ? (@ > 1)",
    "fair:1|a|b",
    "budget:usd:day:2026-01-01:k",
    "00000000-0000-0000-0000-000000000000",
    "0 0 30 2 *",
];
const INTEGERS: [&str; 9] = ["-2147483648", "-1", "0", "1", "2", "100", "1000", "86400", "2147483647"];
const BIGINTS: [&str; 7] = ["-9223372036854775808", "-1", "0", "1", "1000000", "4294967296", "9223372036854775807"];
const NUMERICS: [&str; 9] = [
    "'NaN'",
    "'Infinity'",
    "'-Infinity'",
    "-1",
    "0",
    "0.5",
    "1e400",
    "1e-400",
    "('1' || repeat('0', 100000))::numeric",
];
const INTERVALS: [&str; 11] = [
    "'0 s'",
    "'-1 s'",
    "'1 us'",
    "'1 day'",
    "'178000000 years'",
    "'-178000000 years'",
    "'2147483647 days'",
    "'-2147483648 days'",
    "'1 mon -1 day 1 us'",
    "make_interval(0, 2147483647, 0, 2147483647)",
    "'9223372036854775807 us'",
];
const MOMENTS: [&str; 8] = [
    "'infinity'",
    "'-infinity'",
    "'294276-12-31 23:59:59.999999+00'",
    "'4713-01-01 00:00:00+00 BC'",
    "'epoch'",
    "now()",
    "now() + interval '1 hour'",
    "'2000-01-01 00:00:00+00'",
];
const IDS: [&str; 3] =
    ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "gen_random_uuid()"];
/// JSON that is odd as a whole or in its parts.
const JSON: [&str; 28] = [
    "null",
    "true",
    "0",
    "-1",
    "\"\"",
    "\"a\"",
    "[]",
    "{}",
    "[null]",
    "[[]]",
    "[1, \"a\", null, {}]",
    "1e400",
    "-1e400",
    "1e-400",
    "123456789012345678901234567890.123456789",
    "18446744073709551615",
    "-9223372036854775809",
    "0.1",
    "2147483648",
    "\"\\ud83e\\udd80\"",
    "\"infinity\"",
    "\"2026-01-01\"",
    "{\"\": \"\"}",
    "{\"$from\": \"$.a\"}",
    "{\"$event\": \"$\"}",
    "{\"a\": 1, \"a\": 2}",
    "[\"a\", \"a\"]",
    "\"a,b|c\"",
];
/// What an argument of this name is about, where the name of a column does not say it.
const SENSIBLE: &[(&str, &[&str])] = &[
    ("p_definition", &[r#"{"of": "a", "produces": ["x.undo"], "counter_effects": true}"#, r#"{"produces": ["z.do"]}"#]),
    ("p_operation", &["c", "z"]),
    ("p_compensation", &["undo", "undo too"]),
    ("p_from_step", &["one", "two"]),
    ("p_budget", &[r#"{"amount": 5}"#]),
    ("p_unit", &["usd", "tokens"]),
    ("p_job_kind", &["a", "b", "k", "sum"]),
    (
        "p_template",
        &[
            r#"{"title": "t", "steps": [{"name": "one", "kind": "a"}, {"name": "two", "kind": "b", "depends_on": ["one"]}]}"#,
            r#"{"steps": [{"kind": "a", "params": {"x": {"$from": "$.input.x"}}, "for_each": "$.input.list"}]}"#,
            r#"{"sequential": true, "steps": [{"kind": "a", "timeout_seconds": 1}, {"mission": {"steps": [{"kind": "b"}]}}]}"#,
        ],
    ),
    ("p_jobs", &[r#"[{"job_kind": "a"}, {"job_kind": "b", "idempotency_key": "x", "cost": {"usd": 1}}]"#]),
    ("p_job", &[r#"{"job_kind": "a"}"#, r#"{"job_kind": "a", "limit_keys": ["tenant:1"]}"#]),
    ("p_payload_json", &[r#"{"a": 1}"#, r#"{"token": 1}"#]),
    ("p_changes", &[r#"{"priority": 5}"#, r#"{"scheduled_at": "2026-01-01", "payload_json": {"a": 1}}"#]),
    ("p_cron", &["*/5 * * * *", "@every 90s", "0 0 L 2 5#5", "59 23 31 12 *"]),
    ("p_timezone", &["UTC", "Europe/Berlin"]),
    ("p_level", &["producer", "proposer", "worker", "reader", "operator"]),
    ("p_role", &["postgres", "pg_monitor"]),
    ("p_sql", &["SELECT 1", "SELECT $1"]),
    ("p_executor_kind", &["Agent", "PG_worker"]),
    ("p_from", &["beginning", "last_checkpoint", "specific_step"]),
    ("p_verdict", &["retry", "cancel", "discard", "succeeded", "failed"]),
    ("p_scope", &["tenant:1", "default", "kind", "queue"]),
    ("p_manifest", &[r#"{"operations": {"b": {"produces": ["y.do"]}}}"#]),
    ("p_effects", &[r#"["x.do"]"#, r#"[{"effect_type": "x.do"}]"#]),
    ("p_usage", &[r#"{"usd": 1}"#]),
    ("p_filter", &[r#"{"job_kind": "a"}"#, r#"{"reason": "manual"}"#]),
    (
        "p_value",
        &["true", "5", r#"{"enabled": true}"#, r#"[{"id": "a", "type": "*", "template": {"steps": [{"kind": "a"}]}}]"#],
    ),
    ("p_policy", &[r#"{"max_attempts": 3}"#, r#"{"backoff": "fixed", "base_seconds": 1}"#]),
    ("p_source", &["api", "manual", "trigger"]),
    ("p_period", &["day", "total", "hour"]),
    ("p_class", &["usual", "audit"]),
];

/// Words that the functions themselves have told of in their hints.
#[derive(Default)]
pub struct Lexicon(BTreeMap<String, BTreeSet<String>>);

impl Lexicon {
    /// Learns from a hint such as "It accepts: queue, unique." or "Use one of: ok, warn, error."
    pub fn learn(&mut self, function: &str, hint: &str) {
        for list in hint.split(": ").skip(1) {
            let list = list.split(['.', ';']).next().unwrap_or_default();
            let plain = |word: &&str| {
                !word.is_empty()
                    && word.len() < 40
                    && word.chars().all(|c| c.is_ascii_alphanumeric() || "_$.".contains(c))
            };
            let words = list.split(", ").map(|word| word.trim_matches('"')).filter(plain).map(str::to_owned);
            self.0.entry(function.to_owned()).or_default().extend(words);
        }
    }

    fn word(&self, function: &str, dice: &mut Dice) -> Option<String> {
        let words: Vec<&String> = self.0.get(function)?.iter().collect();
        (!words.is_empty()).then(|| (*dice.one_of(&words)).clone())
    }
}

/// One call in the making.
pub struct Maker<'a> {
    pub world: &'a World,
    pub lexicon: &'a Lexicon,
    pub dice: &'a mut Dice,
}

pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Maker<'_> {
    /// The arguments of a call, as SQL.
    pub fn arguments(&mut self, function: &Function) -> String {
        let held = self.world.held(self.dice);
        // Mostly one thing is wrong at a time: a call with everything wrong gets nowhere.
        let hostile = *self.dice.one_of(&[0, 0, 10, 10, 10, 25, 25, 50, 100]);
        let mut list = Vec::new();
        for argument in &function.arguments {
            // A wait that is left out may be a long one.
            if argument.has_default && argument.name != "p_wait" && self.dice.chance(45) {
                continue;
            }
            let value = match argument.name.as_str() {
                "p_wait" => self.word(&["'50 ms'", "'0 s'", "'-1 s'", "'1 year'", "NULL", "'1 us'"]),
                _ if self.dice.chance(hostile) => self.hostile(function, argument),
                name => match (&held, name) {
                    (Some((job, ..)), "p_job_id") if self.dice.chance(60) => quoted(job),
                    (Some((job, ..)), "p_jobs") if function.name.contains("ack") => {
                        format!("'[\"{job}\", {{\"job_id\": \"{job}\"}}]'")
                    }
                    (Some((_, owner, _)), "p_lease_owner" | "p_holder") => quoted(owner),
                    (Some((.., token)), "p_lease_token") if self.dice.chance(70) => quoted(token),
                    _ => self.sensible(function, argument),
                },
            };
            list.push(format!("{} => ({value})::{}", argument.name, argument.kind));
        }
        list.join(", ")
    }

    /// The arguments of a call that makes sense but for one of them.
    pub fn sensible_but(&mut self, function: &Function, place: usize, value: &str) -> String {
        let held = self.world.held(self.dice);
        let mut list = Vec::new();
        for (number, argument) in function.arguments.iter().enumerate() {
            let value = match (argument.name.as_str(), &held) {
                _ if number == place => value.to_owned(),
                ("p_wait", _) => "'0 s'".to_owned(),
                _ if argument.has_default => continue,
                ("p_job_id", Some((job, ..))) => quoted(job),
                ("p_lease_owner" | "p_holder", Some((_, owner, _))) => quoted(owner),
                _ => self.sensible(function, argument),
            };
            list.push(format!("{} => ({value})::{}", argument.name, argument.kind));
        }
        list.join(", ")
    }

    fn word(&mut self, words: &[&str]) -> String {
        (*self.dice.one_of(words)).to_owned()
    }

    fn sensible(&mut self, function: &Function, argument: &Argument) -> String {
        let example = SENSIBLE.iter().find(|(name, _)| *name == argument.name).map(|(_, examples)| *examples);
        let example = example.filter(|_| self.dice.chance(70)).map(|examples| self.word(examples));
        match argument.kind.as_str() {
            "text" => {
                let name = self.dice.chance(60).then(|| self.world.name(&argument.name, self.dice)).flatten();
                let text = example.or(name).or_else(|| self.lexicon.word(&function.name, self.dice));
                quoted(&text.unwrap_or_else(|| OWNER.to_owned()))
            }
            "jsonb" => quoted(&example.unwrap_or_else(|| self.object(function, 1))),
            "uuid" => match self.world.id(&argument.name, self.dice) {
                Some(id) => quoted(&id),
                None => "gen_random_uuid()".to_owned(),
            },
            "integer" | "bigint" | "numeric" => self.word(&["1", "2", "5", "60"]),
            "interval" => self.word(&["'1 s'", "'1 hour'"]),
            "timestamp with time zone" => self.word(&["now()", "now() + interval '1 hour'"]),
            "boolean" => self.word(&["true", "false"]),
            "text[]" => "ARRAY['a', 'b']".to_owned(),
            _ => self.hostile(function, argument),
        }
    }

    fn hostile(&mut self, function: &Function, argument: &Argument) -> String {
        if self.dice.chance(12) {
            return "NULL".to_owned();
        }
        let large = self.dice.chance(4).then(|| self.dice.below(LARGE_VALUES));
        let column = |column: &str, n: usize| format!("(SELECT {column} FROM hostile.large WHERE n = {n})");
        match (argument.kind.as_str(), large) {
            ("text", Some(n)) => column("t", n),
            ("text", None) => quoted(&self.word(&TEXTS)),
            ("jsonb", Some(n)) => column("j", n),
            ("jsonb", None) => quoted(&match self.dice.below(4) {
                0 => self.word(&JSON),
                1 => self.object(function, 3),
                2 => format!("[{}, {}]", self.object(function, 2), self.object(function, 2)),
                _ => self.spoilt(argument),
            }),
            ("uuid", _) => self.word(&IDS),
            ("integer", _) => format!("({})", self.dice.one_of(&INTEGERS)),
            ("bigint", _) => format!("({})", self.dice.one_of(&BIGINTS)),
            ("numeric" | "double precision", _) => format!("({})", self.dice.one_of(&NUMERICS)),
            ("interval", _) => self.word(&INTERVALS),
            ("timestamp with time zone", _) => self.word(&MOMENTS),
            ("boolean", _) => self.word(&["true", "false"]),
            ("text[]", _) => (*self.dice.one_of(&[
                "'{}'",
                "'{NULL}'",
                "'{\"\"}'",
                "'{{a,b},{c,d}}'",
                "'[5:6]={a,b}'",
                "array_fill('x'::text, ARRAY[10000])",
            ]))
            .to_owned(),
            (other, _) => panic!("the corpus has no values of the type {other}: add some"),
        }
    }

    /// An object with keys that the function knows, and values of any kind.
    fn object(&mut self, function: &Function, most: usize) -> String {
        let members: Vec<String> = (0..self.dice.below(most + 1))
            .map(|_| {
                let key = self.lexicon.word(&function.name, self.dice).unwrap_or_else(|| "a".to_owned());
                let value = match self.dice.below(5) {
                    0 => "1".to_owned(),
                    1 => format!("\"{}\"", self.lexicon.word(&function.name, self.dice).unwrap_or_default()),
                    2 if most > 1 => self.object(function, most - 1),
                    _ => self.word(&JSON),
                };
                format!("\"{key}\": {value}")
            })
            .collect();
        format!("{{{}}}", members.join(", "))
    }

    /// Sensible JSON with one value in it that is not.
    fn spoilt(&mut self, argument: &Argument) -> String {
        let Some((_, examples)) = SENSIBLE.iter().find(|(name, _)| *name == argument.name) else {
            return self.word(&JSON);
        };
        let text = *self.dice.one_of(examples);
        let places: Vec<usize> = text.match_indices(": ").map(|(place, _)| place + 2).collect();
        if places.is_empty() {
            return self.word(&JSON);
        }
        let place = *self.dice.one_of(&places);
        let end = end_of_value(&text[place..]);
        format!("{}{}{}", &text[..place], self.dice.one_of(&JSON), &text[place + end..])
    }
}

/// How long the JSON value is with which a text begins.
fn end_of_value(text: &str) -> usize {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    values.next();
    values.byte_offset()
}
