//! The load runs on one version of the schema, and the schema is brought to the next meanwhile.

use crate::Failure;
use crate::stage::{Scene, Stage};
use agentq_tests::{CURRENT, next_version};

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

/// The update takes strong locks on many tables. It steps aside while others are at work, and is ended for nobody's sake.
pub fn strike(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    let target = scene.upgrades_to.as_deref().unwrap_or(CURRENT);
    client.batch_execute(&format!("ALTER EXTENSION agentq UPDATE TO '{target}'"))?;
    Ok(())
}
