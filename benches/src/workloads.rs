//! The workloads, and how one of them is measured: in a fresh copy of a prepared database, right
//! after a checkpoint, and by counting what was really done.

use crate::cluster::RUN;
use crate::pgbench::{Length, Pgbench};
use crate::progress::Task;
use crate::results::{Results, Speed};
use crate::systems::{CLAIM_BATCH, ENQUEUE_BATCH, Role, System};
use crate::{Bench, Failure, cpu, turn};
use std::ops::Range;
use std::rc::Rc;

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Enqueue,
    BatchEnqueue,
    ClaimAck,
    /// The same with claims that need not be on disk.
    QuickClaimAck,
    BatchClaimAck,
    /// Acks a job and claims the next in one call.
    AckAndClaim,
    BatchAckAndClaim,
    /// Enqueues, claims and acks one job.
    Mixed,
}

/// Something that people do with a queue.
#[derive(Debug)]
pub struct Workload {
    pub name: &'static str,
    pub step: Step,
    pub clients: u32,
    /// Whether commits wait for the disk.
    pub sync: bool,
    /// The workload with which systems that have no such call do the same.
    pub otherwise: Option<&'static Workload>,
}

const fn workload(name: &'static str, step: Step, clients: u32, sync: bool) -> Workload {
    Workload { name, step, clients, sync, otherwise: None }
}

pub static ENQUEUE: Workload = workload("enqueue", Step::Enqueue, 4, false);
pub static ENQUEUE_SYNC: Workload = workload("enqueue, sync", Step::Enqueue, 16, true);
pub static BATCH_ENQUEUE: Workload = workload("batch enqueue x100", Step::BatchEnqueue, 4, false);
pub static CLAIM_ACK: Workload = workload("claim+ack", Step::ClaimAck, 4, false);
pub static CLAIM_ACK_SYNC: Workload = workload("claim+ack, sync", Step::ClaimAck, 16, true);
pub static QUICK_CLAIM_ACK_SYNC: Workload =
    Workload { otherwise: Some(&CLAIM_ACK_SYNC), ..workload("quick claim+ack, sync", Step::QuickClaimAck, 16, true) };
pub static ACK_AND_CLAIM: Workload =
    Workload { otherwise: Some(&CLAIM_ACK), ..workload("ack-and-claim", Step::AckAndClaim, 4, false) };
pub static ACK_AND_CLAIM_SYNC: Workload =
    Workload { otherwise: Some(&CLAIM_ACK_SYNC), ..workload("ack-and-claim, sync", Step::AckAndClaim, 16, true) };
pub static BATCH_CLAIM_ACK: Workload = workload("batch claim+ack x50", Step::BatchClaimAck, 4, false);
pub static BATCH_ACK_AND_CLAIM: Workload = Workload {
    otherwise: Some(&BATCH_CLAIM_ACK),
    ..workload("batch ack-and-claim x50", Step::BatchAckAndClaim, 4, false)
};
pub static MIXED: Workload = workload("mixed", Step::Mixed, 8, false);

/// In the order in which a round goes through them: what is compared stands side by side.
pub static ALL: [&Workload; 11] = [
    &ENQUEUE,
    &ENQUEUE_SYNC,
    &BATCH_ENQUEUE,
    &CLAIM_ACK,
    &ACK_AND_CLAIM,
    &CLAIM_ACK_SYNC,
    &QUICK_CLAIM_ACK_SYNC,
    &ACK_AND_CLAIM_SYNC,
    &BATCH_CLAIM_ACK,
    &BATCH_ACK_AND_CLAIM,
    &MIXED,
];

/// Makes the claims of agentq's default queue not wait for the disk.
const QUICK_CLAIMS: &str = "SELECT agentq.fn_queue_set('default', '{\"durable_claims\": false}')";

impl Step {
    /// What pgbench sends; None: the system cannot do it.
    pub fn script(self, system: &System) -> Option<String> {
        let scripts = &system.scripts;
        match self {
            Step::Enqueue => scripts.enqueue.clone(),
            Step::BatchEnqueue => scripts.batch_enqueue.clone(),
            Step::ClaimAck => scripts.claim_ack.clone(),
            Step::QuickClaimAck => scripts.claim_ack.clone().filter(|_| system.role == Role::Agentq),
            Step::BatchClaimAck => scripts.batch_claim_ack.clone(),
            Step::AckAndClaim => scripts.ack_and_claim.clone(),
            Step::BatchAckAndClaim => scripts.batch_ack_and_claim.clone(),
            Step::Mixed if system.role == Role::Limit => None,
            Step::Mixed => Some(format!("{}{}", scripts.enqueue.as_ref()?, scripts.claim_ack.as_ref()?)),
        }
    }

    /// Jobs in one run of the script, if every claim finds what it asks for.
    fn jobs(self) -> u32 {
        match self {
            Step::BatchEnqueue => ENQUEUE_BATCH,
            Step::BatchClaimAck | Step::BatchAckAndClaim => CLAIM_BATCH,
            Step::Enqueue | Step::ClaimAck | Step::QuickClaimAck | Step::AckAndClaim | Step::Mixed => 1,
        }
    }

    /// Jobs that so many runs of the script should have finished. One that acks what it claimed the
    /// time before leaves its last claim open.
    fn asked_for(self, runs: u64, clients: u32) -> u64 {
        let open = if matches!(self, Step::AckAndClaim | Step::BatchAckAndClaim) { u64::from(clients) } else { 0 };
        runs.saturating_sub(open) * u64::from(self.jobs())
    }

    fn enqueues_only(self) -> bool {
        matches!(self, Step::Enqueue | Step::BatchEnqueue)
    }

    pub fn claims_only(self) -> bool {
        !self.enqueues_only() && self != Step::Mixed
    }
}

/// The measurements of some workloads: rounds of all of them, each beginning with another system.
pub fn tasks(bench: &Bench, wanted: &[&'static Workload], rounds: Range<usize>) -> Vec<Task> {
    let mut tasks = Vec::new();
    for round in rounds.clone() {
        for workload in wanted {
            for system in turn(&bench.systems, round) {
                if workload.step.script(&system).is_some() {
                    tasks.push(task(bench, workload, system, (round, rounds.end)));
                }
            }
        }
    }
    tasks
}

fn task(bench: &Bench, workload: &'static Workload, system: Rc<System>, (round, rounds): (usize, usize)) -> Task {
    let title = format!("round {}/{}  {:<26}{:<16}", round + 1, rounds, workload.name, system.name);
    Task {
        name: workload.name.to_owned(),
        title,
        seconds: f64::from(bench.options.seconds) + 1.0,
        of_peer: system.role == Role::Peer,
        run: Box::new(move |bench, results: &mut Results| {
            let speed = workload.measure(bench, &system, bench.options.seconds)?;
            let words = format!("{:>9.0} jobs/s{}", speed.jobs_per_second, shortfall(speed.found));
            results.speeds.push(Speed {
                workload: workload.name,
                system: system.name.clone(),
                round,
                jobs_per_second: speed.jobs_per_second,
                cpu_per_job: speed.cpu_per_job,
            });
            Ok(words)
        }),
    }
}

/// A remark when claims came back without a job.
fn shortfall(found: f64) -> String {
    if found < 0.995 { format!("  ({:.1}% of what was asked for was found)", found * 100.0) } else { String::new() }
}

/// What a workload reached.
pub struct Reached {
    /// Jobs that really were enqueued or finished.
    pub jobs_per_second: f64,
    /// Seconds of CPU that the server's sessions took for each.
    pub cpu_per_job: f64,
    /// Those jobs as a share of what the calls asked for: below 1 when claims found nothing.
    pub found: f64,
    /// Runs of the script in every second.
    pub each_second: Vec<f64>,
}

impl Workload {
    /// Runs the workload in a fresh copy of the database that it needs.
    pub fn measure(&self, bench: &Bench, system: &System, seconds: u32) -> Result<Reached, Failure> {
        let database = if self.step.claims_only() {
            bench.databases.backlog(&bench.cluster, system, seconds)?
        } else {
            bench.databases.few(&bench.cluster, system)?
        };
        bench.cluster.copy_database(&database, RUN)?;
        if self.step == Step::QuickClaimAck {
            bench.cluster.client(RUN)?.batch_execute(QUICK_CLAIMS)?;
        }
        self.load(bench, system, seconds)
    }

    /// Runs the workload on the database as it is.
    pub fn load(&self, bench: &Bench, system: &System, seconds: u32) -> Result<Reached, Failure> {
        let cluster = &bench.cluster;
        let script = self.step.script(system).ok_or_else(|| format!("{} cannot do this", system.name))?;
        let pgbench = Pgbench { sync: self.sync, ..Pgbench::new(&script, self.clients, Length::Seconds(seconds)) };
        let before = system.count(cluster, RUN)?;
        let cpu_before = cpu::of_ended_sessions(cluster)?;
        let outcome = pgbench.run(cluster)?;
        let cpu = cpu::of_ended_sessions(cluster)? - cpu_before;
        let after = system.count(cluster, RUN)?;
        let enqueues = self.step.enqueues_only();
        let done = if enqueues { after.all - before.all } else { after.finished - before.finished };
        let asked_for = self.step.asked_for(outcome.transactions, self.clients);
        let found = done as f64 / asked_for as f64;
        Ok(Reached {
            jobs_per_second: outcome.tps * f64::from(self.step.jobs()) * found,
            cpu_per_job: cpu / done as f64,
            found,
            each_second: outcome.each_second,
        })
    }
}
