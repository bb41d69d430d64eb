//! The load runs on the schema of an older version, with today's library, and the schema is brought up to date meanwhile.

use crate::Failure;
use crate::stage::{Scene, Stage};

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

pub fn strike(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    Ok(client.batch_execute("ALTER EXTENSION agentq UPDATE")?)
}
