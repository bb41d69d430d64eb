//! Proposals that schedules make. The gate and the policies decide about them as about any other.

use super::proposals::{self, New};
use crate::base::actor::actor;
use crate::base::clock::Micros;
use crate::db::{Db, statements};
use crate::flow::missions;
use crate::queue::admin::starters::{self, Slot, Starter};
use agentq_core::Refusal;
use agentq_core::context::{Context, GIVEN};
use agentq_core::input::OWN_KEYS;
use agentq_core::proposal;
use agentq_core::reader::{Member, Reader};
use pgrx::Uuid;
use serde_json::Value;

statements!("scheduled.sql": PROPOSAL_OPEN);

pub fn init() {
    starters::register(Starter {
        name: "proposal",
        keys: &["template", "options"],
        check: |at| {
            let template = template(at)?;
            proposal::risk(&template, Member::ABSENT)?;
            context(at)?;
            missions::check(&proposal::bare(&template))
        },
        start,
        is_open: |db, id| !db.run(&PROPOSAL_OPEN, &[id.into()]).is_empty(),
    });
}

fn template(at: &Reader<'_>) -> Result<Value, Refusal> {
    at.needed("template").value()
}

fn context(at: &Reader<'_>) -> Result<Context, Refusal> {
    match at.member("options").object(&GIVEN)? {
        Some(options) => Context::given(|key| Ok(options.member(key))),
        None => Ok(Context::default()),
    }
}

fn start(db: &Db, at: &Reader<'_>, slot: &Slot<'_>, now: Micros) -> Result<Option<Uuid>, Refusal> {
    let (template, by) = (template(at)?, actor());
    // One slot makes one proposal, whoever fires it.
    let key = format!("{OWN_KEYS}{}:{}", slot.source(), slot.at);
    let new = New {
        dedupe_key: Some(&key),
        source: "trigger",
        template: &template,
        risk: proposal::risk(&template, Member::ABSENT)?,
        requested_by: &by,
        origin: None,
        context: context(at)?,
    };
    proposals::create(db, &new, now).map(|made| Some(made.proposal_id))
}
