//! Which dead letters are meant: a JSON object of conditions, all of which must hold.

use crate::base::clock::parse_moment;
use crate::base::ids::parse_id;
use agentq_core::Refusal;
use agentq_core::reader::Reader;

const KEYS: [&str; 10] = [
    "job_kind",
    "queue",
    "reason",
    "error_class",
    "triage_status",
    "resolution_status",
    "assigned_to",
    "moved_after",
    "moved_before",
    "job_ids",
];

/// Ids that one filter lists.
const MOST_IDS: usize = agentq_core::bounds::IDS;

/// Refuses a filter that cannot be understood. The statements read it as it is, and a null would not mean that the
/// condition is left out.
pub fn check(filter: Reader<'_>) -> Result<(), Refusal> {
    filter.object(&KEYS)?;
    for (key, at) in filter.members()? {
        match key {
            "moved_after" | "moved_before" => parse_moment(at).map(drop)?,
            "job_ids" => {
                at.list("ids", 0..=MOST_IDS)?.try_for_each(|id| id.parsed("the id of a job", parse_id).map(drop))?;
            }
            _ => at.hint("Texts are compared as they are.").text().map(drop)?,
        }
    }
    Ok(())
}
