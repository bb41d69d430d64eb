//! The load runs on one version of the schema, and the schema is brought to the next meanwhile.

use crate::Failure;
use crate::stage::{Scene, Stage};
use agentq_tests::{CURRENT, next_version};
use postgres::error::SqlState;

/// The versions with which a database can begin, each with the one to which it is brought.
pub fn ways(stage: &Stage) -> Result<Vec<(String, String)>, Failure> {
    next_version();
    let rows = stage.connect("postgres")?.query(
        "SELECT source, target FROM pg_extension_update_paths('agentq')
         WHERE path IS NOT NULL AND source <> target AND (target = $1 OR source = $1)
           AND source IN (SELECT version FROM pg_available_extension_versions WHERE name = 'agentq')",
        &[&CURRENT],
    )?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The update takes strong locks on many tables, and may meet sessions that have some and want others. Then the server ends one of the
/// two; if that is the update, nothing of it has happened, and it is run again.
pub fn strike(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    let target = scene.upgrades_to.as_deref().unwrap_or(CURRENT);
    for _ in 0..50 {
        match client.batch_execute(&format!("ALTER EXTENSION agentq UPDATE TO '{target}'")) {
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
            outcome => return Ok(outcome?),
        }
    }
    Err("the update meets a deadlock every time".into())
}
