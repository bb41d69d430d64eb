//! What turns are worth, and what they cost: one tenant with 100,000 jobs, and 99 that come after it with 10 each. How
//! many jobs are begun until the last of the small tenants' is, how long that takes, and the speed of claims with acks
//! beside that of the same jobs without fairness keys, in turns on copies of two databases.

use crate::cluster::RUN;
use crate::pgbench::{Length, Pgbench};
use crate::progress::Task;
use crate::results::Results;
use crate::stats::median;
use crate::workloads::Step;
use crate::{Bench, Failure};

pub const NAME: &str = "fairness";
const SECONDS: u32 = 4;
const SMALL_TENANTS: i32 = 99;
const JOBS_EACH: i32 = 10;
/// What the small tenants have, and as many of the large one as each of them.
pub const FAIR_SHARE: f64 = ((SMALL_TENANTS + 1) * JOBS_EACH) as f64;

pub struct Fairness {
    /// Jobs begun until all of the small tenants' were.
    pub begun: f64,
    /// How long that took, in milliseconds; and how long it takes without turns, by the speed that was measured.
    pub drained_ms: f64,
    pub without_ms: f64,
    /// The speed with turns, as a share of that without.
    pub speed: f64,
}

pub fn task(bench: &Bench) -> Task {
    let rounds = rounds(bench);
    Task {
        name: NAME.to_owned(),
        title: format!("{:<54}", "fairness: 1 tenant with 100,000 jobs, 99 with 10"),
        seconds: 40.0 + (rounds * 2) as f64 * f64::from(SECONDS + 3),
        of_peer: false,
        run: Box::new(|bench, results: &mut Results| {
            let found = measure(bench)?;
            let words = format!(
                "the small ones are through after {:.0} jobs, {:.0} ms (without turns {:.0} ms), at {:.2} of the speed",
                found.begun, found.drained_ms, found.without_ms, found.speed
            );
            results.fairness = Some(found);
            Ok(words)
        }),
    }
}

fn rounds(bench: &Bench) -> usize {
    if bench.options.is_full() { 5 } else { 2 }
}

fn large_tenant(bench: &Bench) -> i32 {
    if bench.options.is_full() { 100_000 } else { 40_000 }
}

/// Fills a copy of the database, the large tenant first.
fn fill(bench: &Bench, from: &str, name: &str, key: &str) -> Result<(), Failure> {
    let cluster = &bench.cluster;
    bench.databases.once(name, || {
        cluster.copy_database(from, name)?;
        let fill = format!(
            "SELECT agentq.fn_job_enqueue_batch((SELECT jsonb_agg(jsonb_build_object('job_kind', 'k',
                 'payload_json', jsonb_build_object('filler', repeat('x', 180)), {key}, 'source_ref', t.name))
                 FROM generate_series(1, $1) n CROSS JOIN unnest($2::text[]) AS t (name)))
             FROM generate_series(1, $3::integer)"
        );
        let mut client = cluster.client(name)?;
        client.execute(&fill, &[&1_000, &vec!["large"], &(large_tenant(bench) / 1_000)])?;
        let small: Vec<String> = (1..=SMALL_TENANTS).map(|number| format!("small{number}")).collect();
        client.execute(&fill, &[&JOBS_EACH, &small, &1])?;
        cluster.seal_database(name)
    })
}

fn measure(bench: &Bench) -> Result<Fairness, Failure> {
    let (cluster, agentq) = (&bench.cluster, bench.agentq());
    let few = bench.databases.few(cluster, agentq)?;
    let names = [format!("{few}, one line"), format!("{few}, turns")];
    fill(bench, &few, &names[0], "'limit_keys', jsonb_build_array('tenant:' || t.name)")?;
    fill(bench, &few, &names[1], "'fairness_key', 'tenant:' || t.name")?;
    let script = Step::ClaimAck.script(agentq).ok_or("no script")?;
    let (mut begun, mut drained, mut without, mut speed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds(bench) {
        let mut speeds = [0.0; 2];
        for turn in 0..2 {
            let number = (turn + round) % 2;
            cluster.copy_database(&names[number], RUN)?;
            speeds[number] = Pgbench::new(&script, 4, Length::Seconds(SECONDS)).run(cluster)?.tps;
            if number == 1 {
                let row = cluster.client(RUN)?.query_one(
                    "SELECT max(n) FILTER (WHERE small)::double precision, count(*) FILTER (WHERE small),
                            (extract(epoch FROM max(picked_at) FILTER (WHERE small) - min(picked_at)) * 1000)::double precision
                     FROM (SELECT row_number() OVER (ORDER BY d.picked_at) AS n, d.picked_at, j.source_ref <> 'large' AS small
                           FROM agentq_internal.job_done d JOIN agentq_internal.job j USING (job_id)) r",
                    &[],
                )?;
                if row.get::<_, i64>(1) < i64::from(SMALL_TENANTS * JOBS_EACH) {
                    return Err("the small tenants were not through in time".into());
                }
                begun.push(row.get::<_, f64>(0));
                drained.push(row.get::<_, f64>(2));
            }
        }
        speed.push(speeds[1] / speeds[0]);
        without.push(f64::from(large_tenant(bench) + SMALL_TENANTS * JOBS_EACH) / speeds[0] * 1_000.0);
    }
    let median = |list: Vec<f64>| median(list).ok_or("no round");
    Ok(Fairness {
        begun: median(begun)?,
        drained_ms: median(drained)?,
        without_ms: median(without)?,
        speed: median(speed)?,
    })
}
