//! A tenant that floods, in the database of the load and in one of its own on the same server: jobs each with a fairness key, a limit key
//! or an ordering key of its own, events, missions, and reports on keys that nobody knows. Others are served as ever.

use crate::Failure;
use crate::dice::Dice;
use crate::load::Manner;
use crate::load::client::Client;
use crate::load::producer::{Producer, Wish};
use crate::stage::{Scene, Stage};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The database of the tenant who floods.
const DATABASE: &str = "flooder";
/// Rules that a flood of keys meets, of which nobody ever gets a slot.
const RULES: &str = "
    SELECT agentq.fn_limit_set('none:*', '{\"max_concurrent\": 0}');
    SELECT agentq.fn_limit_set('rate:*', '{\"rate\": 1, \"per_seconds\": 1}')";

pub fn strike(stage: &mut Stage, scene: &Scene, size: u64) -> Result<(), Failure> {
    let mut admin = stage.connect_patiently("postgres")?;
    admin.batch_execute(&format!("CREATE DATABASE {DATABASE}"))?;
    let flooded = std::thread::scope(|scope| -> Result<(), Failure> {
        let elsewhere = scope.spawn(|| elsewhere(stage, size).map_err(|error| error.to_string()));
        here(stage, scene, size)?;
        Ok(elsewhere.join().map_err(|_| "the flood ended early")??)
    });
    // It may just be the engine's turn there.
    admin.batch_execute(&format!("DROP DATABASE {DATABASE} WITH (FORCE)"))?;
    flooded
}

/// In the database of the load, with a ledger: these jobs are to be done as any.
fn here(stage: &Stage, scene: &Scene, size: u64) -> Result<(), Failure> {
    let manner = Manner::default();
    // A name is never used again.
    let mut name = (1..).map(|number| format!("flood-{number}"));
    let (name, ledger) = name
        .find_map(|name| Some((scene.ledgers.join(format!("{name}.ledger")), name)).filter(|(path, _)| !path.exists()))
        .map(|(path, name)| (name, path))
        .ok_or("no name is left")?;
    let client = Client::new(&stage.url(&scene.database), &name, &ledger, Arc::new(AtomicBool::new(false)))?;
    let mut producer = Producer::new(client, Dice::new(size), &manner);
    for part in 0..size {
        for (what, option) in [("turn", "fairness_key"), ("tenant", "limit_keys"), ("order", "ordering_key")] {
            let wish = |n: u64| {
                let (key, own) = (format!("{name}/{part}/{what}/{n}"), format!("{what}:{name}-{part}-{n}"));
                let mut document = json!({"job_kind": "plain", "idempotency_key": key, "max_attempts": 30});
                document[option] = if option == "limit_keys" { json!([own]) } else { json!(own) };
                Wish { key, order: (option == "ordering_key").then_some(own), document }
            };
            producer.enqueue(&(0..100).map(wish).collect::<Vec<_>>(), true);
        }
        let mut client = stage.connect_patiently(&scene.database)?;
        client.batch_execute(
            "SELECT count(agentq.fn_event_emit('flood', 'f', jsonb_build_object('text', repeat('x', 20000)))) FROM generate_series(1, 200);
             SELECT count(agentq.fn_limit_report('junk:' || n, agentq.fn_clock_now() + '1 min')) FROM generate_series(1, 500) n",
        )?;
    }
    Ok(())
}

/// In a database of its own: nobody does these jobs.
fn elsewhere(stage: &Stage, size: u64) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(DATABASE)?;
    client.batch_execute("CREATE EXTENSION agentq")?;
    client.batch_execute(RULES)?;
    for part in 0..size * 5 {
        for option in ["fairness_key", "ordering_key", "limit_keys", "rate"] {
            let value = match option {
                "limit_keys" => "jsonb_build_array('none:' || n)",
                "rate" => "jsonb_build_array('rate:' || n)",
                _ => "to_jsonb('key:' || n)",
            };
            let member = if option == "rate" { "limit_keys" } else { option };
            client.batch_execute(&format!(
                "SELECT agentq.fn_job_enqueue_batch(jsonb_agg(jsonb_build_object('job_kind', '{option}', '{member}', {value})))
                 FROM generate_series({part} * 1000, {part} * 1000 + 999) n"
            ))?;
        }
        client.batch_execute(
            "SELECT agentq.fn_job_claim_batch('flooder', 1000);
             SELECT count(agentq.fn_event_emit('flood', 'f', jsonb_build_object('text', repeat('x', 100000)))) FROM generate_series(1, 50)",
        )?;
        let steps: Vec<Value> = (0..200).map(|_| json!({"kind": "never"})).collect();
        let template = json!({"title": "x".repeat(900), "steps": steps});
        client.execute("SELECT count(agentq.fn_mission_start($1)) FROM generate_series(1, 5)", &[&template])?;
    }
    Ok(())
}
