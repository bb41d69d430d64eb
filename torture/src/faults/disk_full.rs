//! The disk with data and WAL is full for two seconds. A session that cannot extend a table gets an error; when WAL cannot be written,
//! the server goes down, and cannot come up before there is space.

use crate::Failure;
use crate::ledger::now;
use crate::stage::Stage;
use agentq_tests::PATIENCE;
use std::time::{Duration, Instant};

pub fn strike(stage: &mut Stage) -> Result<(), Failure> {
    let disk = stage.disk.as_ref().ok_or("there is no disk of its own")?;
    disk.fill()?;
    // From now on it may crash at any instant.
    stage.crashes.push((now(), now() + 3_000_000));
    std::thread::sleep(Duration::from_secs(2));
    disk.empty()?;
    // It has gone down for good, is about to, goes down and up, or has never stopped.
    let patience = Instant::now() + PATIENCE;
    while stage.connect("postgres").is_err() {
        if !stage.cluster.is_running() {
            stage.cluster.start_again();
        }
        if Instant::now() > patience {
            return Err("the server does not come up again".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
