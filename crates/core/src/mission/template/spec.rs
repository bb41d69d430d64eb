//! What holds for few steps, and is kept with them as JSON.

use crate::jsonb::{self, Container, Item, TooLarge};
use crate::reader::Reader;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    pub when: Option<String>,
    pub for_each: Option<String>,
    /// How many items must succeed; None: all.
    pub items_needed: Option<i64>,
    pub timeout_seconds: Option<f64>,
    /// A holder that makes no progress for this long loses its job.
    pub stall_seconds: Option<i32>,
    pub max_attempts: Option<i32>,
    /// How its jobs are tried again, beside their number.
    pub retry: Option<Value>,
    pub queue: Option<String>,
    pub priority: Option<i32>,
    /// The template of the mission that is its work, in the server's form.
    pub mission: Option<Vec<u8>>,
    /// What it waits for, without a worker.
    pub wait: Option<Wait>,
    /// Steps whose results it reads.
    pub reads: Vec<String>,
}

/// What a step without a worker waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// So many seconds.
    Sleep(f64),
    /// A moment, or the path to one.
    Until(String),
    /// A signal; the key may be a path, too.
    Signal { name: String, key: String },
}

impl Wait {
    /// Whether a word of a wait is a path, and not the thing itself.
    pub fn is_path(word: &str) -> bool {
        word.starts_with("$.")
    }

    fn to_value(&self) -> Value {
        match self {
            Wait::Sleep(seconds) => json!({"seconds": seconds}),
            Wait::Until(until) => json!({"until": until}),
            Wait::Signal { name, key } => json!({"name": name, "key": key}),
        }
    }

    fn read(at: &Reader<'_>) -> Option<Wait> {
        let text = |key: &str| at.member(key).text().ok().flatten().map(str::to_owned);
        match (text("name"), text("until")) {
            (Some(name), _) => Some(Wait::Signal { name, key: text("key").unwrap_or_default() }),
            (None, Some(until)) => Some(Wait::Until(until)),
            _ => at.member("seconds").number(f64::MIN..=f64::MAX).ok().flatten().map(Wait::Sleep),
        }
    }
}

impl Spec {
    /// As it is kept, in the server's form.
    pub fn to_jsonb(&self) -> Result<Vec<u8>, TooLarge> {
        let mut map = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        put("when", self.when.clone().map(Value::from));
        put("for_each", self.for_each.clone().map(Value::from));
        put("items_needed", self.items_needed.map(Value::from));
        put("timeout_seconds", self.timeout_seconds.map(Value::from));
        put("stall_seconds", self.stall_seconds.map(Value::from));
        put("max_attempts", self.max_attempts.map(Value::from));
        put("retry", self.retry.clone());
        put("queue", self.queue.clone().map(Value::from));
        put("priority", self.priority.map(Value::from));
        put("wait", self.wait.as_ref().map(Wait::to_value));
        put("reads", (!self.reads.is_empty()).then(|| json!(self.reads)));
        let rest = jsonb::from_value(&Value::Object(map))?;
        match &self.mission {
            None => Ok(rest),
            Some(mission) => jsonb::with(Container::new(&rest), &[("mission", Item::Container(mission))]),
        }
    }

    /// Reads what was kept. What does not fit is passed over: it was checked when the mission was submitted.
    pub fn from_jsonb(item: Item<'_>) -> Spec {
        let at = Reader::at("spec", item);
        let text = |key: &str| at.member(key).text().ok().flatten().map(str::to_owned);
        let mission = at.member("mission").reader().filter(Reader::is_object);
        let reads = at.member("reads").reader().filter(Reader::is_list);
        let reads = reads.iter().filter_map(|reads| reads.elements().ok()).flatten();
        Spec {
            when: text("when"),
            for_each: text("for_each"),
            items_needed: at.member("items_needed").whole(i64::MIN..=i64::MAX).ok().flatten(),
            timeout_seconds: at.member("timeout_seconds").number(f64::MIN..=f64::MAX).ok().flatten(),
            stall_seconds: at.member("stall_seconds").whole(i32::MIN..=i32::MAX).ok().flatten(),
            max_attempts: at.member("max_attempts").whole(i32::MIN..=i32::MAX).ok().flatten(),
            retry: at.member("retry").reader().and_then(|retry| retry.value().ok()),
            queue: text("queue"),
            priority: at.member("priority").whole(i32::MIN..=i32::MAX).ok().flatten(),
            mission: mission.and_then(|mission| jsonb::root(mission.item()).ok()),
            wait: at.member("wait").reader().filter(Reader::is_object).and_then(|wait| Wait::read(&wait)),
            reads: reads.filter_map(|name| name.text().ok().map(str::to_owned)).collect(),
        }
    }
}
