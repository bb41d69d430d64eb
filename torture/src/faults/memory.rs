//! Processes of the server that get no more memory than they have and a little, for three seconds: sessions of the load, the engine,
//! and sessions that make large calls. A call fails then; nothing else does.

use crate::Failure;
use crate::dice::Dice;
use crate::stage::{Scene, Stage};
use agentq_tests::{PATIENCE, as_server_user, children};
use postgres::Client;
use postgres::error::SqlState;
use std::time::{Duration, Instant};

/// Every process keeps this much room, in bytes: with less, the system cannot even let its stack grow, and kills it.
const ROOM: u64 = 2 << 20;
/// Large calls, of which nothing is kept.
const LARGE: [&str; 4] = [
    "SELECT agentq.fn_job_enqueue_batch((SELECT jsonb_agg(jsonb_build_object('job_kind', 'x', 'payload_json', jsonb_build_object('a', repeat('x', 900))))
        FROM generate_series(1, 3000)))",
    "SELECT agentq.fn_mission_start((SELECT jsonb_build_object('steps', jsonb_agg('{\"kind\": \"x\"}'::jsonb)) FROM generate_series(1, 5000)))",
    "SELECT agentq.fn_event_emit('x', 'y', jsonb_build_object('a', repeat('x', 200000))) FROM generate_series(1, 20)",
    "SELECT agentq.fn_job_enqueue('x', p_payload_json => (SELECT jsonb_object_agg(n::text, n) FROM generate_series(1, 8000) n))",
];

pub fn strike(stage: &mut Stage, scene: &Scene, dice: &mut Dice) -> Result<(), Failure> {
    let mut client = stage.connect_patiently(&scene.database)?;
    let (until, mut refused) = (Instant::now() + Duration::from_secs(3), 0);
    let patience = until + PATIENCE;
    while Instant::now() < until || refused == 0 && Instant::now() < patience {
        refused += usize::from(large_call(&mut stage.connect_patiently(&scene.database)?, dice)?);
        let rows = client.query(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
               AND (application_name LIKE 'torture %' OR backend_type LIKE 'agentq%') ORDER BY random() LIMIT 3",
            &[],
        )?;
        for row in rows {
            limit(row.get(0), Some(ROOM + dice.below(4 << 20)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if refused == 0 {
        return Err("no call met a lack of memory".into());
    }
    // All of them, also those that have ended their work in this database.
    children(stage.cluster.pid().ok_or("the server does not run")?).into_iter().for_each(|pid| limit(pid, None));
    Ok(())
}

/// Makes a large call with little memory. True: it was refused for that.
fn large_call(client: &mut Client, dice: &mut Dice) -> Result<bool, Failure> {
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let call = *dice.one_of(&LARGE);
    limit(pid, Some(ROOM + dice.below(8 << 20)));
    let outcome = client.batch_execute(&format!("BEGIN; {call}; ROLLBACK"));
    match outcome.map_err(|error| error.code().cloned()) {
        Ok(()) => Ok(false),
        Err(Some(code)) if code == SqlState::OUT_OF_MEMORY => Ok(true),
        // The server itself gives a session up that cannot even say so.
        Err(None) => Ok(true),
        Err(Some(code)) => Err(format!("{call} met {}", code.code()).into()),
    }
}

/// Lets a process have this many bytes beside what it has; None: as many as it can get. One that has ended needs none.
fn limit(pid: i32, more: Option<u64>) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let size =
        status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let Some(size) = size else { return };
    let most = more.map_or("unlimited".to_owned(), |more| ((size << 10) + more).to_string());
    // As the user of the server: root need not have the right. The hard limit stays, so that the soft one can be lifted again.
    as_server_user("prlimit").args(["--pid", &pid.to_string(), &format!("--as={most}:")]).output().ok();
}
