//! Enqueues jobs of every sort, one or many, with keys that tell them apart. What it was not told the end of, it asks again.

use super::Manner;
use super::client::{Client, Trouble};
use crate::dice::Dice;
use crate::ledger::Entry;
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

const MISSION: &str = r#"{"steps": [{"name": "a", "kind": "step"},
    {"name": "b", "kind": "step", "depends_on": ["a"]}, {"name": "c", "kind": "step", "depends_on": ["a"]},
    {"name": "d", "kind": "step", "depends_on": ["b", "c"]}]}"#;

/// Books a room outside and pays for it; if it cannot be paid, the room is given back.
const TRIP: &str = r#"{"title": "trip", "on_failure": "compensate", "steps": [
    {"name": "book", "kind": "book", "retry": {"max_attempts": 30, "backoff": "fixed", "seconds": 0}},
    {"name": "pay", "kind": "pay", "depends_on": ["book"], "retry": {"max_attempts": 30, "backoff": "fixed", "seconds": 0}}]}"#;

/// The wishes; what is meant for soon gets its time from the server's clock.
const JOBS: &str = "(SELECT jsonb_agg(CASE WHEN d ? 'soon'
    THEN (d - 'soon') || jsonb_build_object('scheduled_at', agentq.fn_clock_now() + '0.3 s') ELSE d END)
    FROM jsonb_array_elements($1) d)";

pub struct Producer<'m> {
    client: Client,
    dice: Dice,
    manner: &'m Manner,
    count: u64,
}

/// One job that is to be.
pub struct Wish {
    pub key: String,
    pub order: Option<String>,
    pub document: Value,
}

impl<'m> Producer<'m> {
    pub fn new(client: Client, dice: Dice, manner: &'m Manner) -> Producer<'m> {
        Producer { client, dice, manner, count: 0 }
    }

    pub fn run(&mut self) {
        while !self.client.is_over() {
            match self.dice.below(100) {
                _ if self.manner.plainly => self.one(),
                0..70 => self.one(),
                70..82 => self.many(),
                82..87 => self.undone(),
                87..93 => self.twice(),
                93..96 => self.trip(),
                _ => self.mission(),
            }
            // About as fast as the workers.
            let pause = self.dice.below(14);
            self.client.rest(Duration::from_millis(pause));
        }
    }

    fn new_key(&mut self) -> String {
        self.count += 1;
        format!("{}/{}", self.client.name, self.count)
    }

    fn wish(&mut self) -> Wish {
        let key = self.new_key();
        let tenant = self.dice.below(6);
        let mut order = None;
        let mut document = json!({"job_kind": "plain", "idempotency_key": key, "max_attempts": 30,
            "priority": *self.dice.one_of(&[5, 100, 100, 100, 900])});
        if !self.manner.plainly {
            match self.dice.below(10) {
                0 | 1 => {
                    let name = format!("o{}", self.dice.below(5));
                    document["job_kind"] = json!("ordered");
                    document["ordering_key"] = json!(name);
                    // Order is by priority first, so that all of a key have the same.
                    document["priority"] = json!(100);
                    order = Some(name);
                }
                2 | 3 => {
                    document["job_kind"] = json!("limited");
                    document["limit_keys"] = json!([format!("tenant:{tenant}")]);
                    document["cost"] = json!({"usd": 1});
                }
                4 => document["fairness_key"] = json!(format!("turn:{tenant}")),
                5 => document["soon"] = json!(true),
                6 if self.dice.below(25) == 0 => document["job_kind"] = json!("deadly"),
                7 if self.dice.below(25) == 0 => {
                    (document["job_kind"], document["max_attempts"]) = (json!("hopeless"), json!(2));
                }
                _ => {}
            }
        }
        Wish { key, order, document }
    }

    /// Asks for these jobs in one transaction, until the answer is known.
    pub fn enqueue(&mut self, wishes: &[Wish], again: bool) {
        let keys: Vec<String> = wishes.iter().map(|wish| wish.key.clone()).collect();
        let documents = Value::Array(wishes.iter().map(|wish| wish.document.clone()).collect());
        loop {
            self.client.write(&[Entry::Enqueueing { keys: keys.clone() }]);
            let answer = match self.manner.plainly {
                false => self.client.ask(
                    &format!("SELECT agentq.fn_job_enqueue_batch({JOBS}, '{{\"all_or_nothing\": true}}')->'jobs'"),
                    &[&documents],
                ),
                true => self.client.ask(
                    "SELECT jsonb_build_array(agentq.fn_job_enqueue('plain', $1, p_max_attempts => 30))",
                    &[&keys[0]],
                ),
            };
            match answer {
                Ok(row) => {
                    let told = row.get::<_, Option<Value>>(0);
                    self.client.write(&enqueued(wishes, told.as_ref()));
                    return;
                }
                Err(Trouble::Unknown) if again => {}
                Err(Trouble::Unknown | Trouble::Over) => return,
                Err(Trouble::Refused) => {
                    self.client.write(&[Entry::NotEnqueued { keys: keys.clone() }]);
                    return;
                }
            }
        }
    }

    fn one(&mut self) {
        let wish = self.wish();
        self.enqueue(&[wish], true);
    }

    fn many(&mut self) {
        let wishes: Vec<Wish> = (0..2 + self.dice.below(8)).map(|_| self.wish()).collect();
        self.enqueue(&wishes, true);
    }

    /// The same job asked for twice. The second time it is a duplicate, or the first has finished meanwhile.
    fn twice(&mut self) {
        let wish = self.wish();
        let wishes = [wish];
        self.enqueue(&wishes, true);
        self.enqueue(&wishes, true);
    }

    /// Enqueues and rolls back: there must never be such a job.
    fn undone(&mut self) {
        let wish = self.wish();
        let entry = Entry::NotEnqueued { keys: vec![wish.key.clone()] };
        self.client.write(&[Entry::Enqueueing { keys: vec![wish.key.clone()] }]);
        let savepoint = self.dice.percent(50);
        let begun = self.client.begin(if savepoint { "SAVEPOINT a" } else { "" });
        let documents = Value::Array(vec![wish.document.clone()]);
        let sql = format!("SELECT agentq.fn_job_enqueue_batch({JOBS})");
        let asked = begun.and_then(|()| self.client.ask(&sql, &[&documents]));
        let undone = asked.and_then(|_| self.client.run(if savepoint { "ROLLBACK TO a" } else { "SELECT 1" }));
        match (undone, savepoint) {
            (Ok(()), true) => drop(self.client.commit()),
            (Ok(()), false) | (Err(_), _) => self.client.roll_back(),
        }
        self.client.write(&[entry]);
    }

    /// Starts a mission of four steps.
    pub fn mission(&mut self) {
        self.start(MISSION);
    }

    /// Starts a trip.
    pub fn trip(&mut self) {
        self.start(TRIP);
    }

    fn start(&mut self, template: &str) {
        let key = self.new_key();
        let options = json!({"idempotency_key": key});
        loop {
            self.client.write(&[Entry::Starting { key: key.clone() }]);
            let template: Value = serde_json::from_str(template).expect("valid JSON");
            match self.client.ask("SELECT agentq.fn_mission_start($1, $2)->>'mission_id'", &[&template, &options]) {
                Ok(row) => {
                    let id = row.get::<_, Option<String>>(0).and_then(|id| id.parse::<Uuid>().ok());
                    self.client.write(&[match id {
                        Some(mission) => Entry::Started { key, mission },
                        None => Entry::NotStarted { key },
                    }]);
                    return;
                }
                Err(Trouble::Unknown) => {}
                Err(Trouble::Over) => return,
                Err(Trouble::Refused) => {
                    self.client.write(&[Entry::NotStarted { key }]);
                    return;
                }
            }
        }
    }
}

/// What the answer says of each wish.
fn enqueued(wishes: &[Wish], told: Option<&Value>) -> Vec<Entry> {
    let told = told.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of = |n: usize| {
        let answer = told.get(n)?;
        let job = answer["job_id"].as_str()?.parse().ok()?;
        Some((job, answer["duplicate"].as_bool().unwrap_or(false)))
    };
    wishes
        .iter()
        .enumerate()
        .map(|(n, wish)| match of(n) {
            Some((job, duplicate)) => {
                Entry::Enqueued { key: wish.key.clone(), job, order: wish.order.clone(), duplicate }
            }
            None => Entry::NotEnqueued { keys: vec![wish.key.clone()] },
        })
        .collect()
}
