//! Many databases, each with a lease that has run out and a schedule that is due, on a server that is killed: afterwards an engine comes
//! to each of them by itself, the one that has waited longest first.

use super::kills;
use crate::Failure;
use crate::check::{Problem, Rule};
use crate::stage::Stage;
use agentq_tests::{PATIENCE, Stop};
use postgres::{Client, NoTls};
use std::time::{Duration, Instant};

/// What an engine has to do in each, as soon as it comes.
const DUE: &str = "
    SELECT agentq.fn_job_enqueue('lost');
    SELECT agentq.fn_job_claim('gone', 'lost', 1);
    SELECT agentq.fn_schedule_set('due', '@every 1s', '{\"job_kind\": \"due\"}')";
/// Looks without a call of agentq's, which would tell the launcher that somebody is there.
const UNDONE: &str = "SELECT EXISTS (SELECT FROM agentq_internal.job_lease)
    OR NOT EXISTS (SELECT FROM agentq_internal.job WHERE job_kind = 'due' AND created_at > $1)";
/// How long the last of them may have to wait.
const LONGEST: Duration = Duration::from_secs(60);

pub fn strike(stage: &mut Stage, count: u64) -> Result<Vec<Problem>, Failure> {
    let names: Vec<String> = (0..count).map(|number| format!("one_of_many_{number}")).collect();
    let mut admin = stage.connect_patiently("postgres")?;
    admin.batch_execute("CREATE DATABASE many_template")?;
    stage.connect("many_template")?.batch_execute("CREATE EXTENSION agentq")?;
    for name in &names {
        // The engine may have a turn in the template, whose sessions nobody can copy around.
        let patience = Instant::now() + PATIENCE;
        while let Err(error) = admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE many_template")) {
            if Instant::now() > patience {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        stage.connect_patiently(name)?.batch_execute(DUE)?;
    }
    // Making them is no part of what the server has to recover from.
    admin.batch_execute("CHECKPOINT")?;
    kills::server(stage, Stop::KillAll)?;
    let up = Instant::now();
    let began = std::time::SystemTime::now();
    let mut undone = names.clone();
    while !undone.is_empty() && up.elapsed() < LONGEST {
        undone.retain(|name| is_undone(&stage.url(name), began).unwrap_or(true));
        std::thread::sleep(Duration::from_millis(100));
    }
    println!(
        "         the last of {count} databases had its turn {:.1} s after the server came up",
        up.elapsed().as_secs_f64()
    );
    let mut admin = stage.connect_patiently("postgres")?;
    for name in names.iter().map(String::as_str).chain(["many_template"]) {
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))?;
    }
    Ok(undone.into_iter().map(|name| Problem::new(Rule::NoStall, format!("no engine came to {name}"))).collect())
}

fn is_undone(url: &str, since: std::time::SystemTime) -> Result<bool, postgres::Error> {
    Client::connect(url, NoTls)?.query_one(UNDONE, &[&since]).map(|row| row.get(0))
}
