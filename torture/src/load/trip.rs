//! The two sides of an effect: a room is booked outside, under a key, and given back. Before and after, agentq is told; in
//! between a worker may die, and the next one asks outside what has become of it.

use super::worker::{Held, Worker};
use crate::outside::State;
use uuid::Uuid;

/// What a worker may do, and what compensates it.
pub const MANIFEST: &str = r#"{
    "operations": {"book": {"produces": ["room.book"], "requires_compensation": true, "job_kind": "book"}},
    "compensations": {"unbook": {"of": "book", "produces": ["room.cancel"], "counter_effects": true, "job_kind": "unbook", "max_attempts": 100}},
    "inverse_of": {"room.book": "room.cancel"},
    "idempotent": {"room.cancel": true}}"#;

/// An effect that is planned.
struct Effect {
    id: Uuid,
    key: String,
}

impl Worker<'_> {
    /// Books a room, if it is not booked yet. What goes wrong on the way is left to the next attempt.
    pub fn book(&mut self, held: &Held) {
        let Some(effect) = self.plan(held, "room.book") else { return };
        let mut code = self.begin(held, &effect);
        if code.as_deref() == Some("unknown_outcome") {
            if self.outside.state(&effect.key) == State::Done {
                return self.finish(held, &effect);
            }
            self.tell(held, &effect, "fn_effect_fail", ", 'it did not happen'");
            code = self.begin(held, &effect);
        }
        if code.as_deref() != Some("run") {
            return;
        }
        self.outside.do_it(&effect.key).expect("the outside works");
        // Now and then nobody says that it has happened.
        if self.manner.dutifully || !self.dice.percent(5) {
            self.finish(held, &effect);
        }
    }

    /// Gives a room back.
    pub fn unbook(&mut self, held: &Held, key: &str) {
        let effect = self.plan(held, "room.cancel");
        if let Some(effect) = &effect {
            self.begin(held, effect);
        }
        self.outside.undo(key).expect("the outside works");
        if let Some(effect) = &effect {
            self.finish(held, effect);
        }
    }

    fn plan(&mut self, held: &Held, effect_type: &str) -> Option<Effect> {
        let (me, wanted) = (self.client.name.clone(), serde_json::json!([{"effect_type": effect_type}]));
        let sql = "SELECT p->'effects'->0->>'effect_id', p->'effects'->0->>'idempotency_key'
                   FROM agentq.fn_effect_plan($1, $2, $3, p_lease_token => $4) p";
        let row = self.client.ask(sql, &[&held.job, &me, &wanted, &held.token]).ok()?;
        let (id, key): (Option<String>, Option<String>) = (row.get(0), row.get(1));
        Some(Effect { id: id?.parse().ok()?, key: key? })
    }

    fn begin(&mut self, held: &Held, effect: &Effect) -> Option<String> {
        self.tell(held, effect, "fn_effect_begin", "")
    }

    fn finish(&mut self, held: &Held, effect: &Effect) {
        self.tell(held, effect, "fn_effect_finish", ", '{}'");
    }

    /// Calls a function about the effect, and returns the code of its answer.
    fn tell(&mut self, held: &Held, effect: &Effect, function: &str, more: &str) -> Option<String> {
        let me = self.client.name.clone();
        let sql = format!("SELECT agentq.{function}($1, $2{more}, p_lease_token => $3)->>'code'");
        self.client.ask(&sql, &[&effect.id, &me, &held.token]).ok()?.get(0)
    }
}
