//! What becomes of a dead letter when the job ends that was made of it.
//!
//! Such a job names its letter in its hook. Until it has ended, the letter is under investigation; when it ends well, the
//! letter is resolved, and with it the letters of the runs before that one. When it ends in any other way, the letter is
//! pending again.

use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use crate::queue::ends::hooks::{self, Ended};
use pgrx::Uuid;

statements!("letter_end.sql": LETTER_ENDED);

const HOOK: &str = "letter";

pub fn init() {
    hooks::register(HOOK, jobs_ended);
}

/// The hook of a job that is another run of the job of a letter.
pub fn hook_of(job_id: Uuid) -> String {
    format!("{HOOK}:{job_id}")
}

fn jobs_ended(db: &Db, ended: &[Ended], now: Micros) {
    let letter = |job: &Ended| Some((crate::base::ids::parse_id(&job.about)?, job.job_id, job.state == "succeeded"));
    let mut letters: Vec<(Uuid, Uuid, bool)> = ended.iter().filter_map(letter).collect();
    // In one order, whoever ends them.
    letters.sort_by_key(|(of, ..)| *of.as_bytes());
    for (of, job_id, well) in letters {
        db.run(&LETTER_ENDED, &[of.into(), job_id.into(), well.into(), timestamp(now).into()]);
    }
}
