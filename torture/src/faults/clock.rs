//! The clock of the whole database jumps ten seconds ahead, or back, and then to where it was. Leases run out early or late by that
//! much; who had one is told so, and nothing is done twice.

use crate::Failure;
use crate::dice::Dice;
use crate::ledger::{Micros, now};
use crate::stage::{Scene, Stage};
use std::time::Duration;

/// Several times as long as a lease.
const JUMP_SECONDS: i64 = 10;

pub fn jump(stage: &mut Stage, scene: &mut Scene, dice: &mut Dice) -> Result<(), Failure> {
    let offset = if dice.percent(60) { JUMP_SECONDS } else { -JUMP_SECONDS };
    let started = now();
    set(stage, scene, &format!("SET agentq.clock_offset = {offset}"))?;
    std::thread::sleep(Duration::from_secs(2));
    set(stage, scene, "RESET agentq.clock_offset")?;
    // Leases that were given by the other clock are off by as much.
    let reach = (JUMP_SECONDS + 5) * 1_000_000;
    scene.moved.add(started - reach as Micros, now() + reach as Micros);
    Ok(())
}

/// Changes it for every session, the engine's too: they are ended, and come back with the new setting.
fn set(stage: &Stage, scene: &Scene, how: &str) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    client.batch_execute(&format!("ALTER DATABASE {} {how}", scene.database))?;
    // Twice: a session that is just being opened may have read the old setting, and not be listed yet.
    for _ in 0..2 {
        client.batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'",
        )?;
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
