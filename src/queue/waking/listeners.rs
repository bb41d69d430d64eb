//! Telling the listeners of `agentq_job_ready` what has come, many commits at a time.

use super::notices;
use crate::db;
use crate::queue::rules::Rulebook;
use serde_json::json;

/// Where listeners hear of jobs that have become ready.
const CHANNEL: &str = "agentq_job_ready";

/// Tells what has been noted since the last time. The engine calls it when there is something to tell.
pub fn tell() {
    let rules = Rulebook::current();
    let notices = notices::take();
    if !rules.notify_enabled {
        return;
    }
    db::connect(|db| {
        for notice in notices {
            let queue = rules.queues.by_id(notice.queue_id).map(|queue| queue.queue.as_str());
            let text = json!({"queue": queue, "kind": notice.kind(), "count": notice.jobs}).to_string();
            db.notify(CHANNEL, &text);
        }
    });
}
