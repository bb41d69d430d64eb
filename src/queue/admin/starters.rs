//! What a schedule can start beside jobs. Upper rooms register theirs when the library is loaded; this room knows none of
//! them.

use crate::base::clock::Micros;
use crate::db::Db;
use crate::events;
use crate::json::Jsonb;
use agentq_core::Refusal;
use agentq_core::reader::Reader;
use pgrx::Uuid;
use std::sync::Mutex;

/// The slot that fires.
pub struct Slot<'a> {
    pub schedule: &'a str,
    pub at: Micros,
}

impl Slot<'_> {
    /// Where what it starts comes from.
    pub fn source(&self) -> String {
        format!("schedule:{}", self.schedule)
    }
}

/// The id of what was started, if it has one that can be under way; or why it was not.
pub type Started = Result<Option<Uuid>, Refusal>;

/// How something is started. What it is to be stands in the object beside the key `start`.
#[derive(Clone, Copy)]
pub struct Starter {
    pub name: &'static str,
    /// The keys that it reads.
    pub keys: &'static [&'static str],
    /// Refuses what could not be started.
    pub check: fn(&Reader<'_>) -> Result<(), Refusal>,
    /// Starts it.
    pub start: fn(&Db, &Reader<'_>, &Slot<'_>, Micros) -> Started,
    /// Whether it is still under way.
    pub is_open: fn(&Db, Uuid) -> bool,
}

static STARTERS: Mutex<Vec<Starter>> = Mutex::new(Vec::new());

/// Makes a starter known. Called when the library is loaded.
pub fn register(starter: Starter) {
    if let Ok(mut starters) = STARTERS.lock() {
        starters.push(starter);
    }
}

/// The events that schedules emit.
pub fn init() {
    register(Starter {
        name: "event",
        keys: &["kind", "subject", "payload", "options"],
        check: |at| Emission::read(at).map(drop),
        start: |db, at, _, now| {
            let emission = Emission::read(at)?;
            let event = (emission.kind, emission.subject, emission.payload);
            events::emit_given(db, event, &emission.options, now);
            Ok(None)
        },
        is_open: |_, _| false,
    });
}

/// An event that is to be emitted.
struct Emission<'a> {
    kind: &'a str,
    subject: &'a str,
    payload: Jsonb,
    options: agentq_core::event::Options,
}

impl<'a> Emission<'a> {
    fn read(at: &Reader<'a>) -> Result<Emission<'a>, Refusal> {
        let payload = at.member("payload").read(|payload| payload.map().map(|_| Jsonb::from_item(payload.item())))?;
        Ok(Emission {
            kind: at.needed("kind").name(agentq_core::input::LONGEST_NAME)?,
            subject: at.needed("subject").name(agentq_core::input::LONGEST_KEY)?,
            payload: payload.unwrap_or_else(Jsonb::empty_object),
            options: at
                .member("options")
                .read(|options| agentq_core::event::Options::read(&options))?
                .unwrap_or_default(),
        })
    }
}

/// The starter that an object names. None: it is a job.
pub fn of(at: &Reader<'_>) -> Result<Option<Starter>, Refusal> {
    let Some(start) = at.member("start").reader() else { return Ok(None) };
    let name = start.text()?;
    let starters = STARTERS.lock().map(|starters| starters.clone()).unwrap_or_default();
    match starters.iter().find(|starter| starter.name == name) {
        Some(starter) => {
            let keys: Vec<&str> = starter.keys.iter().copied().chain(["start"]).collect();
            at.object(&keys)?;
            Ok(Some(*starter))
        }
        None => {
            let known: Vec<&str> = starters.iter().map(|starter| starter.name).collect();
            let problem = format!("a schedule cannot start \"{}\"", agentq_core::error::shown(name));
            Err(start.refuse(problem, format!("It starts: {}; or a job, without \"start\".", known.join(", "))))
        }
    }
}
