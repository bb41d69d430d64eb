//! Every index of the hot tables is built anew under load, and the tables are frozen, for as long as the round lasts. Then every row must
//! be in every index: the server's own check looks.

use crate::Failure;
use crate::stage::{Scene, Stage};
use postgres::Client;
use std::time::{Duration, Instant};

pub const HOT: [&str; 9] =
    ["job", "job_ready", "job_waiting", "job_line", "job_lease", "job_done", "job_attempt_log", "job_key", "job_order"];

/// Drops whatever index an interrupted REINDEX has left.
const INVALID: &str = "
    SELECT coalesce(string_agg(format('DROP INDEX %s', i.indexrelid::regclass), ';'), '')
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE NOT i.indisvalid AND c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)";

pub fn strike(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    let until = Instant::now() + Duration::from_secs(4);
    // At least once each, however long that takes.
    let mut first = true;
    while first || Instant::now() < until {
        for table in HOT {
            client.batch_execute(&format!("REINDEX TABLE CONCURRENTLY agentq_internal.{table}"))?;
            client.batch_execute(&format!("VACUUM (FREEZE, INDEX_CLEANUP ON) agentq_internal.{table}"))?;
            if !first && Instant::now() > until {
                break;
            }
        }
        first = false;
    }
    Ok(())
}

/// Removes what interrupted rebuilds have left, as an operator would.
pub fn tidy(client: &mut Client) -> Result<(), Failure> {
    let drops: String = client.query_one(INVALID, &[])?.get(0);
    Ok(client.batch_execute(&drops)?)
}

/// What the server's own check says of the indexes: each is in order, and every row is in it.
pub fn verify(client: &mut Client) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    let indexes = client.query(
        "SELECT i.indexrelid::regclass::text, i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
         JOIN pg_am a ON a.oid = (SELECT relam FROM pg_class WHERE oid = i.indexrelid)
         WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND c.relkind = 'r' AND a.amname = 'btree' AND i.indisvalid",
        &[],
    )?;
    for row in indexes {
        let (name, oid): (String, u32) = (row.get(0), row.get(1));
        if let Err(error) = client.execute("SELECT bt_index_check($1::oid::regclass, true)", &[&oid]) {
            problems.push(format!("{name}: {error}"));
        }
    }
    Ok(problems)
}
