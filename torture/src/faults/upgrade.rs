//! The load runs on the schema of an older version, with today's library, and the schema is brought up to date meanwhile.

use crate::Failure;
use crate::stage::{Scene, Stage};
use postgres::error::SqlState;

/// The versions from which a database can be upgraded, the newest first.
pub fn versions(stage: &Stage) -> Result<Vec<String>, Failure> {
    let rows = stage.connect("postgres")?.query(
        "SELECT source FROM pg_extension_update_paths('agentq')
         WHERE target = (SELECT default_version FROM pg_available_extensions WHERE name = 'agentq')
           AND path IS NOT NULL AND source <> target AND source <> '0.1.0' AND source NOT LIKE '%snapshot%'
         ORDER BY string_to_array(source, '.')::int[] DESC",
        &[],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// The update takes strong locks on many tables, and may meet sessions that have some and want others. Then the server ends one of the
/// two; if that is the update, nothing of it has happened, and it is run again.
pub fn strike(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    for _ in 0..50 {
        match client.batch_execute("ALTER EXTENSION agentq UPDATE") {
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
            outcome => return Ok(outcome?),
        }
    }
    Err("the update meets a deadlock every time".into())
}
