//! kill -9: of the load's processes, of a session, of the engine, of the server.

#![allow(unsafe_code, reason = "killing processes of the server")]

use crate::Failure;
use crate::dice::Dice;
use crate::ledger::now;
use crate::load::Role;
use crate::load::fleet::Fleet;
use crate::stage::{GOING_DOWN_US, Regime, Scene, Stage};
use agentq_tests::{PATIENCE, Stop, children};
use std::time::{Duration, Instant};

pub fn workers(fleet: &mut Fleet, dice: &mut Dice) -> Result<(), Failure> {
    for n in 0..10 {
        let role = if n % 5 == 4 { Role::Producer } else { Role::Worker };
        fleet.kill_one(role, dice.below(100));
        std::thread::sleep(Duration::from_millis(60 + dice.below(120)));
    }
    Ok(())
}

/// Several kills of every sort, one as soon as work goes on after the other, and now and then one in the middle of a recovery.
pub fn barrage(stage: &mut Stage, scene: &mut Scene, dice: &mut Dice, count: u64) -> Result<(), Failure> {
    for _ in 0..count {
        let before = scene.acks()?;
        // Whom it asks for a victim may be the one that goes down with the last.
        let patience = Instant::now() + PATIENCE;
        while let Err(error) = one_of_all(stage, scene, dice) {
            if Instant::now() > patience || error.downcast_ref::<postgres::Error>().is_none() {
                return Err(error);
            }
        }
        let patience = Instant::now() + PATIENCE;
        while scene.acks()? == before {
            if Instant::now() > patience {
                return Err("nobody works any more".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // Without synchronous commits the answers before a kill say nothing: there some have to be older.
        let calm = if stage.regime == Regime::Async { 2_500 } else { 50 };
        std::thread::sleep(Duration::from_millis(calm + dice.below(400)));
    }
    Ok(())
}

fn one_of_all(stage: &mut Stage, scene: &Scene, dice: &mut Dice) -> Result<(), Failure> {
    match dice.below(10) {
        0..3 => server(stage, Stop::KillAll),
        3..5 => server(stage, Stop::KillPostmaster),
        5 => {
            let at = now();
            stage.cluster.end(Stop::KillAll);
            stage.cluster.start_and_end(Duration::from_millis(dice.below(300)));
            stage.cluster.start_again();
            stage.crashes.push((at, now()));
            stage.kills += 2;
            Ok(())
        }
        6 | 7 => backend(stage, scene),
        _ if stage.regime == Regime::Bare => backend(stage, scene),
        8 => engine(stage, scene, "worker_pid"),
        _ => engine(stage, scene, "launcher_pid"),
    }
}

/// Kills a process of this server: nothing else is killed, whatever number it was given.
fn kill(stage: &mut Stage, pid: i32) -> Result<(), Failure> {
    let postmaster = stage.cluster.pid().ok_or("the server does not run")?;
    if !children(postmaster).contains(&pid) {
        return Err(format!("{pid} is no process of the server").into());
    }
    stage.crashes.push((now(), now() + GOING_DOWN_US));
    // SAFETY: signals a process of the server that this program has started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    stage.kills += 1;
    Ok(())
}

/// A session in the middle of a claim, if one is found in time; else any worker's.
pub fn backend(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    let patience = Instant::now() + Duration::from_secs(2);
    loop {
        let rows = client.query(
            "SELECT pid, state = 'active' AND query LIKE '%claim%' FROM pg_stat_activity
             WHERE application_name LIKE 'torture %worker%' AND backend_type = 'client backend'
             ORDER BY 2 DESC NULLS LAST, random() LIMIT 1",
            &[],
        )?;
        let found = rows.first().map(|row| (row.get::<_, i32>(0), row.get::<_, Option<bool>>(1) == Some(true)));
        let victim = found.filter(|(_, claiming)| *claiming || Instant::now() > patience);
        // It may have gone by itself; then there is another.
        if victim.is_some_and(|(pid, _)| kill(stage, pid).is_ok()) && has_ended(&mut client) {
            break;
        }
        if Instant::now() > patience + PATIENCE {
            return Err("there is no worker's session".into());
        }
    }
    stage.connect_patiently(&scene.database).map(drop)
}

/// The engine's worker or the launcher.
pub fn engine(stage: &mut Stage, scene: &Scene, which: &str) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    let patience = Instant::now() + PATIENCE;
    loop {
        let row = client.query_one(&format!("SELECT {which} FROM agentq.v_engine_status"), &[])?;
        // It may have gone by itself; then there is another.
        if row.get::<_, Option<i32>>(0).is_some_and(|pid| kill(stage, pid).is_ok()) && has_ended(&mut client) {
            break;
        }
        if Instant::now() > patience {
            return Err("the engine does not run".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut client = stage.connect_patiently(&scene.database)?;
    // Another takes its place, by itself.
    loop {
        let running = client.query_one("SELECT mode = 'running' FROM agentq.v_engine_status", &[]);
        match running {
            Ok(row) if row.get::<_, bool>(0) => return Ok(()),
            _ if Instant::now() > patience + PATIENCE => {
                return Err("the engine does not come back".into());
            }
            Err(_) => client = stage.connect_patiently(&scene.database)?,
            Ok(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The server ends every session when one of its processes was killed; until then it looks as if nothing had happened. False: nothing
/// has, because that process was at its end anyway.
fn has_ended(client: &mut postgres::Client) -> bool {
    let patience = Instant::now() + Duration::from_secs(10);
    while client.simple_query("SELECT 1").is_ok() {
        if Instant::now() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

pub fn server(stage: &mut Stage, how: Stop) -> Result<(), Failure> {
    let at = now();
    stage.cluster.end(how);
    stage.kills += u64::from(matches!(how, Stop::KillAll | Stop::KillPostmaster));
    stage.cluster.start_again();
    // Without a postmaster its sessions go on for a while, and nobody writes the WAL for them.
    stage.crashes.push((at, now()));
    Ok(())
}
