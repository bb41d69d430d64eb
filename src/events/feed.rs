//! Whether events are used in this database, and whether there are some that nobody has sealed yet.

use crate::server;
use crate::shared::news::{self, News};

/// Says that a session uses events. What the engine writes of itself does not count.
pub fn use_it() {
    if !server::is_background_worker() {
        go_on();
    }
}

/// Says that events were used here before.
pub fn go_on() {
    news::bring(News::EventsUsed);
}

/// Whether a session has used events since the server started.
pub fn is_used() -> bool {
    news::is_there(News::EventsUsed)
}

/// Says that events have been committed. True: the sealer does not know it yet.
pub fn bring_news() -> bool {
    use_it();
    news::bring(News::Events)
}

pub fn has_news() -> bool {
    news::is_there(News::Events)
}

/// Takes note of the news. To be called before the look for what they are about.
pub fn take_news() {
    news::take(News::Events);
}
