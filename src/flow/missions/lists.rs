//! Steps that work through a list: the ends of their items. The end of the last item ends the step.
//!
//! Lists are counted as missions are (`counts`). Lock order: the items by number, the rows of the counts by number, the row
//! of the step.

use super::counts;
use super::ended::StepEnd;
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::json::Jsonb;
use agentq_core::context::Context;
use agentq_core::mission::plan;
use agentq_core::mission::status::StepStatus;
use pgrx::Uuid;
use std::collections::BTreeMap;

statements!("lists.sql": ITEM_END, ITEMS_LOCK, ITEMS_RESULT);

/// How an item is to end.
pub struct ItemEnd {
    pub item: i32,
    pub status: StepStatus,
    pub result: Option<Jsonb>,
    pub error: Option<String>,
    /// The job, or the mission, that was its work.
    pub by: Uuid,
    /// What that job belonged to, if it is known.
    pub context: Option<Context>,
}

/// Ends items of a list, and returns the end of the step if they were the last ones.
pub fn end_items(db: &Db, step: Uuid, items: &[ItemEnd], now: Micros) -> Option<StepEnd> {
    let mut items: Vec<&ItemEnd> = items.iter().collect();
    items.sort_by_key(|end| end.item);
    let mut deltas: BTreeMap<i32, i32> = BTreeMap::new();
    for shard in items.iter().filter_map(|end| end_item(db, step, end, now)) {
        *deltas.entry(shard).or_default() -= 1;
    }
    let context = items.first().and_then(|end| end.context.clone());
    let end = if counts::add_all(db, step, &deltas) { end_list(db, step) } else { None };
    end.map(|end| StepEnd { context, ..end })
}

/// Ends an item, and answers in which row it is counted. None: it has ended, or has other work by now.
fn end_item(db: &Db, step: Uuid, end: &ItemEnd, now: Micros) -> Option<i32> {
    let args = [
        step.into(),
        end.item.into(),
        end.status.name().into(),
        end.result.into(),
        end.error.as_deref().into(),
        timestamp(now).into(),
        end.by.into(),
    ];
    let row = db.run(&ITEM_END, &args);
    (!row.is_empty()).then(|| end.item % plan::shards(row.only::<i32>() as usize))
}

/// The end of a step that works through a list, if all its items have ended.
pub fn end_list(db: &Db, step: Uuid) -> Option<StepEnd> {
    // Of those who end the last items, the last to come here sees that there are none.
    if db.run(&ITEMS_LOCK, &[step.into()]).is_empty() || !counts::are_all_nothing(step) {
        return None;
    }
    counts::remove(db, step);
    // All results together may be more than the server can hold. Whoever ends the last item must not suffer from it.
    let read = db::attempt(|| {
        let row = db.run(&ITEMS_RESULT, &[step.into()]);
        let numbers = (row.must::<i64>("succeeded"), row.must::<i64>("items"), row.get::<i64>("needed"));
        (row.get::<Jsonb>("result"), numbers, row.get::<String>("first_error"), row.must::<bool>("was_cancelled"))
    });
    let (result, (well, all, needed), first, cancelled) = match read {
        Ok(read) => read,
        Err(failure) => {
            let error = Some(format!("its results cannot be put together: {}", failure.message));
            return Some(StepEnd {
                step,
                item: None,
                status: StepStatus::Failed,
                result: None,
                error,
                by: None,
                context: None,
            });
        }
    };
    let needed = needed.unwrap_or(all);
    let error = (well < needed)
        .then(|| format!("{well} of {all} items succeeded, and {needed} were needed: {}", first.unwrap_or_default()));
    let status = StepStatus::of_list(error.is_none(), cancelled);
    Some(StepEnd { step, item: None, status, result, error, by: None, context: None })
}
