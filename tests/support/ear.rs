//! What a session that listens hears.

use crate::database::Session;
use crate::patience::PATIENCE;
use postgres::fallible_iterator::FallibleIterator;
use serde_json::Value;
use std::time::{Duration, Instant};

/// After what was waited for, nothing more must come for this long to count as silence.
const SILENCE: Duration = Duration::from_secs(1);

/// Everything that is heard in this channel until it is enough, and what follows closely.
#[track_caller]
pub fn heard(listener: &mut Session, channel: &str, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    let mut found = Vec::new();
    loop {
        let is_enough = enough(&found);
        let wait = if is_enough { SILENCE } else { deadline.saturating_duration_since(Instant::now()) };
        match listener.0.notifications().timeout_iter(wait).next().expect("the connection holds") {
            Some(notification) => {
                assert_eq!(notification.channel(), channel);
                found.push(serde_json::from_str(notification.payload()).expect("it is JSON"));
            }
            None if is_enough => return found,
            None => panic!("too little was heard: {found:?}"),
        }
    }
}
