//! Reading the members of a JSON object, and saying where in the template one is wrong.

use super::template::Join;
use crate::Refusal;
use crate::error::shown;
use serde_json::{Map, Value};

/// A refusal that begins with the place in the JSON.
pub fn refuse(place: &str, problem: impl AsRef<str>, hint: impl Into<String>) -> Refusal {
    if place.is_empty() {
        return Refusal::new(problem.as_ref(), hint);
    }
    Refusal::new(format!("{place}: {}", problem.as_ref()), hint)
}

/// A place in the JSON.
pub struct At(String);

fn short(value: &Value) -> String {
    shown(&value.to_string())
}

impl At {
    pub fn root(place: &str) -> At {
        At(place.to_owned())
    }

    pub fn member(&self, key: &str) -> String {
        if self.0.is_empty() { key.to_owned() } else { format!("{}.{key}", self.0) }
    }

    /// What someone else has to say about a member.
    pub fn inside(&self, key: &str, refusal: Refusal) -> Refusal {
        refuse(&self.member(key), refusal.message, refusal.hint)
    }

    pub fn object<'v>(&self, value: &'v Value, what: &str, example: &str) -> Result<&'v Map<String, Value>, Refusal> {
        self.object_at(&self.0, value, what, example)
    }

    pub fn object_at<'v>(
        &self,
        place: &str,
        value: &'v Value,
        what: &str,
        example: &str,
    ) -> Result<&'v Map<String, Value>, Refusal> {
        value.as_object().ok_or_else(|| {
            let example = format!("For example: {example}.");
            // What it is, and not what is in it: it may be what a job is to carry.
            let found = match value {
                Value::String(_) => "a text".to_owned(),
                Value::Array(items) if !items.is_empty() => "a list".to_owned(),
                other => short(other),
            };
            refuse(place, format!("{what} must be a JSON object, not {found}"), example)
        })
    }

    pub fn known_keys(&self, map: &Map<String, Value>, known: &[&str]) -> Result<(), Refusal> {
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(refuse(
                &self.member(&shown(key)),
                "this key is not known",
                format!("These are: {}.", known.join(", ")),
            )),
        }
    }

    fn present<'v>(map: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
        map.get(key).filter(|value| !value.is_null())
    }

    pub fn text(&self, map: &Map<String, Value>, key: &str) -> Result<Option<String>, Refusal> {
        match Self::present(map, key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(refuse(
                &self.member(key),
                format!("this must be a text, not {}", short(other)),
                "Put it in double quotes.",
            )),
        }
    }

    pub fn flag(&self, map: &Map<String, Value>, key: &str) -> Result<bool, Refusal> {
        match Self::present(map, key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(refuse(
                &self.member(key),
                format!("this must be true or false, not {}", short(other)),
                "Leave it out, or say true.",
            )),
        }
    }

    pub fn word(&self, value: &Value, key: &str, known: &[&'static str]) -> Result<&'static str, Refusal> {
        let found = value.as_str().and_then(|word| known.iter().find(|known| **known == word));
        found.copied().ok_or_else(|| {
            refuse(
                &self.member(key),
                format!("{} is not known", short(value)),
                format!("Use one of: {}.", known.join(", ")),
            )
        })
    }

    pub fn whole(&self, map: &Map<String, Value>, key: &str, least: i64, most: i64) -> Result<Option<i64>, Refusal> {
        let Some(value) = Self::present(map, key) else { return Ok(None) };
        let number = value.as_i64().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| {
            let range = format!("a whole number from {least} to {most}");
            refuse(
                &self.member(key),
                format!("this must be {range}, not {}", short(value)),
                "Leave it out, or give a number.",
            )
        })
    }

    pub fn seconds(&self, map: &Map<String, Value>, key: &str, most: f64) -> Result<Option<f64>, Refusal> {
        let Some(value) = Self::present(map, key) else { return Ok(None) };
        let number = value.as_f64().filter(|number| *number > 0.0 && *number <= most);
        number.map(Some).ok_or_else(|| {
            let problem = format!("this must be a number of seconds above 0 and up to {most}, not {}", short(value));
            refuse(&self.member(key), problem, "Leave it out for no time-out.")
        })
    }

    pub fn join(&self, map: &Map<String, Value>) -> Result<Join, Refusal> {
        let wrong = |value: &Value| {
            let hint = "Use \"all\", \"any\" or {\"quorum\": 2}.";
            refuse(&self.member("join"), format!("this is no way to join: {}", short(value)), hint)
        };
        match Self::present(map, "join") {
            None => Ok(Join::All),
            Some(Value::String(word)) if word == "all" => Ok(Join::All),
            Some(Value::String(word)) if word == "any" => Ok(Join::Any),
            Some(value @ Value::Object(join)) if join.len() == 1 => {
                let quorum = join.get("quorum").and_then(Value::as_i64).filter(|n| (1..=1_000_000).contains(n));
                quorum.map(Join::Quorum).ok_or_else(|| wrong(value))
            }
            Some(value) => Err(wrong(value)),
        }
    }
}
