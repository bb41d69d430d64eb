//! Configuration keys: what one accepts, and how a value is checked. Each room of the extension lists its own keys.

use crate::error::{Refusal, shown};
use crate::jsonb;
use crate::reader::Reader;
use serde_json::Value;

/// What a key accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    /// A whole number between the two bounds, both included.
    Integer(i64, i64),
}

#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// The default as JSON text, as the table stores it.
    pub default: &'static str,
    pub description: &'static str,
}

impl Kind {
    fn accepts(self) -> String {
        match self {
            Kind::Boolean => "true or false".to_owned(),
            Kind::Integer(low, high) => format!("a whole number from {low} to {high}"),
        }
    }
}

/// The key of this name, or a refusal that lists all keys.
pub fn find(keys: impl Iterator<Item = &'static Key> + Clone, name: &str) -> Result<&'static Key, Refusal> {
    keys.clone().find(|key| key.name == name).ok_or_else(|| {
        let names: Vec<_> = keys.map(|key| key.name).collect();
        Refusal::new(
            format!("there is no configuration key \"{}\"", shown(name)),
            format!("The keys are: {}.", names.join(", ")),
        )
    })
}

impl Key {
    /// Accepts a value, or says what the key accepts. None: a value that cannot be read.
    pub fn check(&self, value: Option<Reader<'_>>) -> Result<(), Refusal> {
        let fits = value.as_ref().is_some_and(|value| match self.kind {
            Kind::Boolean => value.flag().is_ok(),
            Kind::Integer(low, high) => value.whole(low..=high).is_ok(),
        });
        if fits {
            return Ok(());
        }
        Err(Refusal::new(
            format!(
                "configuration key \"{}\" does not accept {}",
                self.name,
                value.map_or("this value".to_owned(), |value| jsonb::shown(value.item()))
            ),
            format!("It accepts {}. {}", self.kind.accepts(), self.description),
        ))
    }

    /// The default as a value.
    pub fn default_value(&self) -> Value {
        serde_json::from_str(self.default).unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::reader::document;
    use serde_json::{Value, json};

    fn check(key: &Key, value: &Value) -> Result<(), Refusal> {
        key.check(Some(Reader::at("p_value", document(value))))
    }

    pub static KEYS: &[Key] = &[
        Key { name: "door.open", kind: Kind::Boolean, default: "true", description: "Whether the door is open." },
        Key { name: "door.width", kind: Kind::Integer(1, 300), default: "90", description: "Its width." },
    ];

    #[test]
    fn a_default_is_acceptable_to_its_own_key() {
        for key in KEYS {
            assert_eq!(check(key, &key.default_value()), Ok(()), "{}", key.name);
        }
    }

    #[test]
    fn an_unknown_key_lists_the_known_ones() {
        let refusal = find(KEYS.iter(), "door.wide").unwrap_err();
        assert!(refusal.message.contains("door.wide"));
        for key in KEYS {
            assert!(refusal.hint.contains(key.name));
            assert_eq!(find(KEYS.iter(), key.name).unwrap().name, key.name);
        }
    }

    #[test]
    fn a_value_of_the_wrong_kind_or_out_of_bounds_is_refused() {
        for (key, value) in [
            (0, json!("true")),
            (0, json!(1)),
            (1, json!(true)),
            (1, json!(0)),
            (1, json!(1.5)),
            (1, json!("300")),
            (1, json!(null)),
            (1, json!(-1)),
        ] {
            let key = &KEYS[key];
            assert!(check(key, &value).is_err() && key.check(None).is_err(), "{} = {value}", key.name);
        }
    }
}
