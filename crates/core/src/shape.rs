//! Reading a JSON value that must have a certain shape. What does not fit is named by its path.

use crate::error::{Refusal, shown};
use serde_json::{Map, Value};

/// A value, and where it stands in what was handed in.
#[derive(Clone)]
pub struct At<'a> {
    pub path: String,
    pub value: &'a Value,
}

impl<'a> At<'a> {
    pub fn root(name: &str, value: &'a Value) -> At<'a> {
        At { path: name.to_owned(), value }
    }

    /// That it must be something else.
    pub fn must_be(&self, what: &str) -> Refusal {
        Refusal::new(
            format!("{} must be {what}, not {}", self.path, shown(&self.value.to_string())),
            format!("Give {} {what}, or leave it out where it may be left out.", self.path),
        )
    }

    pub fn refuse(&self, what: &str, hint: &str) -> Refusal {
        Refusal::new(format!("{}: {what}", self.path), hint)
    }

    /// An object with no other keys than these.
    pub fn object(&self, accepted: &[&str]) -> Result<&'a Map<String, Value>, Refusal> {
        let map = self.map()?;
        match map.keys().find(|key| !accepted.contains(&key.as_str())) {
            Some(key) => Err(Refusal::new(
                format!("{} has the unknown key \"{}\"", self.path, shown(key)),
                format!("It accepts: {}.", accepted.join(", ")),
            )),
            None => Ok(map),
        }
    }

    /// An object with any keys.
    pub fn map(&self) -> Result<&'a Map<String, Value>, Refusal> {
        self.value.as_object().ok_or_else(|| self.must_be("an object"))
    }

    /// A member that is there and not null.
    pub fn member(&self, key: &str) -> Option<At<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(At { path: format!("{}.{key}", self.path), value })
    }

    pub fn members(&self) -> impl Iterator<Item = (&'a str, At<'a>)> {
        let path = self.path.clone();
        let members = self.value.as_object().into_iter().flatten();
        members.map(move |(key, value)| (key.as_str(), At { path: format!("{path}.{}", shown(key)), value }))
    }

    pub fn list(&self) -> Result<Vec<At<'a>>, Refusal> {
        let items = self.value.as_array().ok_or_else(|| self.must_be("a list"))?;
        let at = |(number, value)| At { path: format!("{}[{number}]", self.path), value };
        Ok(items.iter().enumerate().map(at).collect())
    }

    /// A text that says something.
    pub fn text(&self) -> Result<&'a str, Refusal> {
        let text = self.value.as_str().filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| self.must_be("a text that is not blank"))
    }

    /// A text, or a list of texts.
    pub fn texts(&self) -> Result<Vec<String>, Refusal> {
        if self.value.is_string() {
            return Ok(vec![self.text()?.to_owned()]);
        }
        if !self.value.is_array() {
            return Err(self.must_be("a text or a list of texts"));
        }
        self.list()?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    pub fn flag(&self) -> Result<bool, Refusal> {
        self.value.as_bool().ok_or_else(|| self.must_be("true or false"))
    }

    pub fn whole(&self, low: i64, high: i64) -> Result<i64, Refusal> {
        let number = self.value.as_i64().filter(|number| (low..=high).contains(number));
        number.ok_or_else(|| self.must_be(&format!("a whole number from {low} to {high}")))
    }

    pub fn number(&self, low: f64, high: f64) -> Result<f64, Refusal> {
        let number = self.value.as_f64().filter(|number| (low..=high).contains(number));
        number.ok_or_else(|| self.must_be(&format!("a number from {low} to {high}")))
    }

    pub fn one_of(&self, words: &[&str]) -> Result<&'a str, Refusal> {
        let word = self.value.as_str().filter(|word| words.contains(word));
        word.ok_or_else(|| self.must_be(&format!("one of {}", words.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_fit_is_named_by_its_path() {
        let value = json!({"a": [{"b": "x"}], "c": null});
        let root = At::root("p", &value);
        assert!(root.member("c").is_none());
        let items = root.member("a").unwrap().list().unwrap();
        let refusal = items[0].member("b").unwrap().whole(0, 5).unwrap_err();
        assert_eq!(refusal.message, "p.a[0].b must be a whole number from 0 to 5, not \"x\"");
        assert!(root.object(&["a"]).unwrap_err().message.contains("unknown key \"c\""));
        assert_eq!(items[0].member("b").unwrap().texts().unwrap(), ["x"]);
    }
}
