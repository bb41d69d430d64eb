//! Who acts.

use crate::db;
use crate::server;

/// What the engine does by itself has this name.
const ENGINE: &str = "agentq";

/// Who acts in this session: the role that opened it, whatever rights the function has that is called. In the server's own
/// workers this is the role of the handler that runs, or else agentq.
pub fn actor() -> String {
    if server::is_background_worker() && !db::is_acting() { ENGINE.to_owned() } else { db::session_user() }
}
