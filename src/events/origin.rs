//! Whose transactions the numbers of a database mean: its server, and the database there.
//!
//! Whoever writes the first events of a database writes its origin down with them, so that the engine finds them after a
//! crash. Dumps leave that table out, and a restore writes events without this module: so a database that is being restored
//! has no origin here. Nothing is unique in the table: of several first writers each adds a row, and none waits for another.

use crate::base::settings::is_schema_previous;
use crate::db::{Db, statements};
use crate::server;
use crate::shared::is_preloaded;
use crate::shared::news::{self, News};
use std::cell::Cell;

statements!("origin.sql": ORIGIN_NOTE, ORIGIN_IS_KNOWN);

// Whether this transaction has noted it.
thread_local!(static WRITTEN: Cell<bool> = const { Cell::new(false) });

/// The origin of what is written here and now.
pub fn origin() -> String {
    format!("{} {}", server::system_identifier(), server::my_database())
}

/// Says, with the caller's transaction, that events of this origin are here. What the engine writes of itself does not count.
/// Without shared memory there is no engine to be told.
pub fn note(db: &Db) {
    let is_of_use = is_preloaded() && !server::is_background_worker() && !is_schema_previous();
    if is_of_use && !news::is_there(News::OriginNoted) {
        db.run(&ORIGIN_NOTE, &[origin().as_str().into()]);
        WRITTEN.set(true);
    }
}

/// The transaction has ended. `is_kept`: with all that it had noted.
pub fn ended(is_kept: bool) {
    if WRITTEN.take() && is_kept {
        news::bring(News::OriginNoted);
    }
}

/// Whether events are here, sealed or not, that were written here or have come with the files, but not by a dump.
pub fn is_known(db: &Db) -> bool {
    db.run(&ORIGIN_IS_KNOWN, &[origin().as_str().into()]).only()
}
