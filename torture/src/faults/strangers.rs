//! Strangers: sessions that have done something and do not commit, one for each kind of row that a producer, a worker or an operator can
//! hold. Whoever needs none of these very rows goes on, and leases run out in time.

use crate::Failure;
use crate::check::{self, Problem, Rule};
use crate::stage::{Scene, Stage};
use postgres::Client;
use std::time::{Duration, Instant};

/// How long a lease that nobody has locked may be over, in seconds.
const LONGEST_OVERDUE: f64 = 5.0;
/// Rows at random, each as an expression for the call that holds it; a stranger that finds none has nothing to hold.
const ANY_READY: &str = "(SELECT job_id FROM agentq_internal.job_ready ORDER BY random() LIMIT 1)";
const ANY_LINE: &str = "(SELECT job_id FROM agentq_internal.job_line ORDER BY random() LIMIT 1)";
const ANY_LETTER: &str = "(SELECT dead_letter_id FROM agentq.job_dead_letter ORDER BY random() LIMIT 1)";
const ANY_MISSION: &str = "(SELECT mission_id FROM agentq.mission WHERE status = 'running' ORDER BY random() LIMIT 1)";

fn calls() -> Vec<String> {
    let mut calls: Vec<String> = (0..5)
        .map(|key| format!("fn_job_enqueue('ordered', p_options => '{{\"ordering_key\": \"o{key}\"}}')"))
        .collect();
    calls.extend((0..3).map(|_| format!("fn_job_change({ANY_READY}, '{{\"priority\": 7}}')")));
    calls.extend([
        format!("fn_job_cancel({ANY_LINE}, 'no')"),
        format!("fn_job_move_to_dead_letter({ANY_READY}, 'no')"),
        // One lease: its holder has to wait.
        "fn_job_heartbeat(l.job_id, l.lease_owner, 60) FROM (SELECT job_id, lease_owner FROM agentq_internal.job_lease
            ORDER BY random() LIMIT 1) l"
            .to_owned(),
        format!("fn_mission_pause({ANY_MISSION})"),
        format!("fn_mission_cancel({ANY_MISSION}, 'no')"),
        format!("fn_dead_letter_triage({ANY_LETTER}, 'acknowledged')"),
        "fn_schedule_pause('torture')".to_owned(),
        "fn_signal_send('stranger', 'key')".to_owned(),
        "fn_queue_set('stranger')".to_owned(),
        "fn_config_set('queue.retry.backoff_max_sec', '7')".to_owned(),
        "fn_queue_heartbeat_tick('stranger', 'Agent')".to_owned(),
        "fn_event_emit('stranger', 's', '{}', '{\"dedupe_key\": \"stranger\"}')".to_owned(),
        "fn_proposal_create('stranger', 'api', '{\"title\": \"t\", \"steps\": [{\"name\": \"a\", \"kind\": \"x\"}]}')"
            .to_owned(),
        "fn_retry_policy_set('kind', 'stranger', '{\"max_attempts\": 3}')".to_owned(),
    ]);
    calls
}

pub fn strike(stage: &mut Stage, scene: &Scene, hold: Duration) -> Result<Vec<Problem>, Failure> {
    let mut strangers = Vec::new();
    for call in calls() {
        let mut stranger = stage.connect_patiently(&scene.database)?;
        // What it needs may be another stranger's; then there is one less.
        stranger.batch_execute("SET lock_timeout = '300ms'; BEGIN")?;
        if stranger.batch_execute(&format!("SELECT agentq.{call}")).is_ok() {
            strangers.push(stranger);
        }
    }
    if strangers.len() < 10 {
        return Err(format!("only {} strangers hold something", strangers.len()).into());
    }
    let mut looker = stage.connect_patiently(&scene.database)?;
    let (until, mut worst, mut unsealed) = (Instant::now() + hold, 0.0_f64, 0.0_f64);
    while Instant::now() < until {
        worst = worst.max(check::overdue(&mut looker)?);
        unsealed = unsealed.max(oldest_unsealed(&mut looker)?);
        std::thread::sleep(Duration::from_millis(100));
    }
    for mut stranger in strangers {
        stranger.batch_execute("ROLLBACK")?;
    }
    let late = |what: &str, seconds: f64| {
        let text = format!("{what} {seconds:.1} s while strangers held rows");
        (seconds > LONGEST_OVERDUE).then(|| Problem::new(Rule::NoStall, text))
    };
    Ok(late("a lease was over for", worst).into_iter().chain(late("an event had no place for", unsealed)).collect())
}

/// For how many seconds the oldest committed event has had no place.
fn oldest_unsealed(client: &mut Client) -> Result<f64, postgres::Error> {
    let sql =
        "SELECT coalesce(max(extract(epoch FROM agentq.fn_clock_now() - e.event_at)), 0)::float8 FROM agentq.event e
        WHERE e.event_at > agentq.fn_clock_now() - interval '2 min'
          AND NOT EXISTS (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id)";
    Ok(client.query_one(sql, &[])?.get(0))
}
