//! Too many connections, cancelled statements, ended sessions, and rings of waiting transactions.

use crate::Failure;
use crate::dice::Dice;
use crate::stage::{Scene, Stage};
use agentq_tests::PATIENCE;
use postgres::{Client, NoTls};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Two hundred connections at once to a server that has room for sixty, again and again.
pub fn storm(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    const CLIENTS: usize = 20;
    let url = stage.url(&scene.database);
    let (refused, all_at_once) = (AtomicUsize::new(0), Barrier::new(CLIENTS));
    let connect = || {
        let held: Vec<Client> = (0..10).filter_map(|_| Client::connect(&url, NoTls).ok()).collect();
        refused.fetch_add(10 - held.len(), SeqCst);
        held
    };
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                // Nobody lets go of the first ones before everybody has tried.
                let held = connect();
                all_at_once.wait();
                drop(held);
                let until = Instant::now() + Duration::from_secs(2);
                while Instant::now() < until {
                    connect();
                }
            });
        }
    });
    match refused.load(SeqCst) {
        0 => Err("the storm was a breeze: every connection was let in".into()),
        _ => stage.connect_patiently(&scene.database).map(drop),
    }
}

pub fn cancels(stage: &mut Stage, scene: &Scene, dice: &mut Dice) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let function = if dice.percent(15) { "pg_terminate_backend" } else { "pg_cancel_backend" };
        client.batch_execute(&format!(
            "SELECT {function}(pid) FROM (SELECT pid FROM pg_stat_activity
                WHERE application_name LIKE 'torture %' AND state = 'active' ORDER BY random() LIMIT 1) one"
        ))?;
        std::thread::sleep(Duration::from_millis(dice.below(15)));
    }
    Ok(())
}

/// The meddlers of this round make them; the server counts what it had to break.
pub fn deadlocks(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    let mut count = || -> Result<i64, Failure> {
        let row = client.query_one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()", &[])?;
        Ok(row.get(0))
    };
    let (before, patience) = (count()?, Instant::now() + PATIENCE);
    while count()? < before + 3 {
        if Instant::now() > patience {
            return Err("nobody waited for anybody in a ring".into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
