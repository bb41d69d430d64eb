//! What limits cost: claims with acks under limits that are never full, as a share of those without, in
//! turns on copies of one database, in which every job has the key of one of 100 tenants.

use crate::cluster::RUN;
use crate::pgbench::{Length, Pgbench};
use crate::progress::Task;
use crate::results::Results;
use crate::stats::median;
use crate::workloads::Step;
use crate::{Bench, Failure};

pub const NAME: &str = "limits";
const SECONDS: u32 = 3;
const JOBS: u32 = 60_000;
const RULES: [Option<&str>; 3] = [None, Some("global"), Some("tenant:*")];

pub struct Limits {
    pub global: f64,
    pub tenants: f64,
}

pub fn task(bench: &Bench) -> Task {
    let rounds = rounds(bench);
    Task {
        name: NAME.to_owned(),
        title: format!("{:<54}", "limits: global, and for each tenant"),
        seconds: 20.0 + (rounds * 3) as f64 * f64::from(SECONDS + 2),
        of_peer: false,
        run: Box::new(|bench, results: &mut Results| {
            let found = measure(bench)?;
            let words = format!(
                "{:.2} of the speed under a global limit, {:.2} under one per tenant",
                found.global, found.tenants
            );
            results.limits = Some(found);
            Ok(words)
        }),
    }
}

fn rounds(bench: &Bench) -> usize {
    if bench.options.is_full() { 7 } else { 2 }
}

fn measure(bench: &Bench) -> Result<Limits, Failure> {
    let (cluster, agentq) = (&bench.cluster, bench.agentq());
    let few = bench.databases.few(cluster, agentq)?;
    let tenants = format!("{few}, tenants");
    bench.databases.once(&tenants, || {
        cluster.copy_database(&few, &tenants)?;
        let fill = "SELECT agentq.fn_job_enqueue_batch((SELECT jsonb_agg(jsonb_build_object('job_kind', 'k',
                        'payload_json', jsonb_build_object('filler', repeat('x', 180)),
                        'limit_keys', jsonb_build_array('tenant:' || n % 100))) FROM generate_series(1, 1000) n))
                    FROM generate_series(1, $1::integer)";
        cluster.client(&tenants)?.execute(fill, &[&(JOBS as i32 / 1000)])?;
        cluster.seal_database(&tenants)
    })?;
    let script = Step::ClaimAck.script(agentq).ok_or("no script")?;
    let (mut global, mut each) = (Vec::new(), Vec::new());
    for round in 0..rounds(bench) {
        let mut speeds = [0.0; 3];
        for turn in 0..RULES.len() {
            let number = (turn + round) % RULES.len();
            cluster.copy_database(&tenants, RUN)?;
            if let Some(key) = RULES[number] {
                let set = "SELECT agentq.fn_limit_set($1, '{\"max_concurrent\": 1000}')";
                cluster.client(RUN)?.execute(set, &[&key])?;
            }
            speeds[number] = Pgbench::new(&script, 4, Length::Seconds(SECONDS)).run(cluster)?.tps;
        }
        global.push(speeds[1] / speeds[0]);
        each.push(speeds[2] / speeds[0]);
    }
    Ok(Limits { global: median(global).ok_or("no round")?, tenants: median(each).ok_or("no round")? })
}
