//! Tells the listeners of `agentq_job_ready` what has come, many commits at a time. No chore of the
//! list: it runs when there is something to tell.

use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::shared::notices;
use serde_json::json;

statement!(NOTIFY, "../sql/notify.sql", [TEXTOID, TEXTOID]);

/// Where listeners hear of jobs that have become ready.
const CHANNEL: &str = "agentq_job_ready";

pub fn send() {
    let settings = Settings::current();
    let notices = notices::take();
    if !settings.notify_enabled {
        return;
    }
    db::connect(|db| {
        for notice in notices {
            let queue = settings.queue_by_id(notice.queue_id).map(|queue| queue.queue.as_str());
            let text = json!({"queue": queue, "kind": notice.kind(), "count": notice.jobs}).to_string();
            db.run(&NOTIFY, &[CHANNEL.into(), text.into()]);
        }
    });
}
