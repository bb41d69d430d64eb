//! Queued reactions become proposals, in batches. Each is made in its own subtransaction: what goes wrong is written
//! into that reaction, and the others go on.

use super::proposals::{self, New, Origin};
use super::reactions::{Failed, pass_on};
use super::settings::REACTION_BATCH;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, Budget, Db, Rows, statements};
use crate::error::OrRaise;
use crate::json::Jsonb;
use crate::memory;
use crate::room::Outcome;
use agentq_core::context::Context;
use agentq_core::input::OWN_KEYS;
use agentq_core::jsonb::Item;
use agentq_core::proposal;
use agentq_core::reader::Member;
use pgrx::Uuid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

statements!("propose.sql": REACTIONS_QUEUED, REACTION_END);

/// A turn that has worked for this long leaves the rest of its batch to the next.
const TURN: Duration = Duration::from_millis(1_000);

/// What a batch came to.
#[derive(Default)]
pub struct Proposed {
    pub processed: i64,
    /// Those of them that have made a proposal which passed the gate.
    pub created: i64,
    /// Whether there may be more.
    pub more: bool,
}

/// A reaction that waits.
struct Queued {
    id: Uuid,
    event_id: Uuid,
    pattern: String,
    /// Its template, and its event.
    payload: Jsonb,
    dedupe_key: Option<String>,
    depth: i32,
    matrix_version: i32,
}

impl Queued {
    fn from_row(row: &Rows) -> Queued {
        Queued {
            id: row.must("reaction_id"),
            event_id: row.must("event_id"),
            pattern: row.must("pattern"),
            payload: row.must::<Jsonb>("payload").copied(),
            dedupe_key: row.get("dedupe_key"),
            depth: row.must("depth"),
            matrix_version: row.must("matrix_version"),
        }
    }
}

impl Queued {
    /// The trace and the correlation of its event.
    fn context(&self) -> Context {
        let event = self.payload.member("event");
        let text = |key: &str| match event?.container().get(key)? {
            Item::Text(text) => std::str::from_utf8(text).ok().map(str::to_owned),
            _ => None,
        };
        Context { trace_id: text("trace_id"), correlation_id: text("correlation_id"), ..Context::default() }
    }
}

// Reactions that could not become proposals because somebody was in the way.
thread_local!(static LEFT: db::PutOff<[u8; 16]> = db::PutOff::new());

/// One turn of the engine's.
pub fn turn() -> Outcome {
    let proposed = propose(clock::now());
    Outcome::and_more(proposed.processed, proposed.more)
}

/// Turns one batch of reactions into proposals.
pub fn propose(now: Micros) -> Proposed {
    let settings = Settings::current();
    let batch = settings.number(REACTION_BATCH);
    // Somebody has switched the queue off: no mission could start.
    if !settings.substrate_enabled {
        return Proposed::default();
    }
    db::connect(|db| {
        let mut queued = Vec::new();
        let left: Vec<Uuid> = db::PutOff::current(&LEFT).into_iter().map(Uuid::from_bytes).collect();
        let mut budget = Budget::of_a_turn();
        db.walk(&REACTIONS_QUEUED, &[batch.into(), left.into()], |row| {
            let reaction = Queued::from_row(row);
            let size = reaction.payload.size();
            queued.push(reaction);
            budget.take(size)
        });
        // Somebody who proposes in a long transaction must not keep the engine from its other chores, nor others from theirs.
        let (patience, began) = (db::Patience::of_a_turn(), Instant::now());
        // What is done by then is kept, whatever the hook of the policy takes for the rest.
        let in_time = || began.elapsed() < TURN;
        let settle = |reaction| memory::given_back(|| settle(db, reaction, &patience, now));
        let made: Vec<bool> = queued.iter().take_while(|_| in_time()).filter_map(settle).collect();
        let (processed, created) = (made.len() as i64, made.iter().filter(|passed| **passed).count() as i64);
        Proposed { processed, created, more: queued.len() as i64 == batch || budget.is_spent() || !in_time() }
    })
}

/// Makes the proposal of a reaction, or writes down why there is none. Whether one passed the gate; None: somebody is in
/// the way, and it is tried again later.
fn settle(db: &Db, reaction: &Queued, patience: &db::Patience, now: Micros) -> Option<bool> {
    let made = patience.attempt(|| {
        let template = reaction.payload.member("template");
        let template = template.map_or(Ok(Value::Null), |template| template.parse("the template")).or_raise();
        let risk = proposal::risk(&template, Member::ABSENT).or_raise();
        let event_id = reaction.event_id.to_string();
        let key =
            format!("{OWN_KEYS}reaction:{}:{}", reaction.pattern, reaction.dedupe_key.as_ref().unwrap_or(&event_id));
        let matrix = json!({"version": reaction.matrix_version, "pattern": reaction.pattern});
        let new = New {
            dedupe_key: Some(&key),
            source: "reaction",
            template: &template,
            risk,
            requested_by: &format!("pattern:{}", reaction.pattern),
            origin: Some(Origin { reaction_id: reaction.id, depth: reaction.depth, matrix }),
            context: reaction.context(),
        };
        proposals::create(db, &new, now).or_raise()
    });
    let (status, reason, command) = match &made {
        Ok(made) => {
            let reason =
                if made.code == "duplicate" { Some("its key has a proposal already") } else { made.reason.as_deref() };
            ("done", reason, Some(made.proposal_id))
        }
        Err(error) if error.is_in_the_way() => {
            db::PutOff::add(&LEFT, *reaction.id.as_bytes());
            return None;
        }
        Err(error) => {
            pass_on(error);
            let failed = Failed { pattern: &reaction.pattern, event_id: reaction.event_id, depth: reaction.depth };
            failed.tell(db, &error.message, reaction.context(), now);
            ("failed", Some(error.message.as_str()), None)
        }
    };
    db.run(&REACTION_END, &[reaction.id.into(), status.into(), reason.into(), command.into(), timestamp(now).into()]);
    Some(made.is_ok_and(|made| matches!(made.code, "pending" | "auto_approved")))
}
