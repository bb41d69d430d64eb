//! Who is woken when there is work: claims that wait inside the server, and listeners outside it.

pub mod ends;
pub mod listeners;
pub mod notices;
pub mod waiters;

use crate::base::settings::Settings;
use crate::shared::seats;

pub fn init() {
    notices::init();
    waiters::init();
}

/// Whether listeners are told of anything: the engine tells them, if it is at work and nobody has switched that off.
pub fn tells_listeners() -> bool {
    Settings::loaded().is_none_or(|settings| settings.notify_enabled) && seats::engine_runs()
}

/// Tells listeners that there may be jobs to run, and not of which queue and kind they are.
pub fn tell_of_jobs_anywhere() {
    if tells_listeners() && notices::add(1, 0, "", 1) {
        seats::wake_engine();
    }
}
