//! Producers and consumers on real connections, each in a thread, all by one clock.

use crate::Failure;
use crate::calls::{Calls, Claiming};
use crate::cluster::{Cluster, RUN};
use crate::payload::{self, payload};
use crate::systems::{AGENTQ, System};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PRODUCERS: u32 = 4;
const CONSUMERS: u32 = 4;
/// Pause of a consumer that polls and finds nothing.
const POLL: Duration = Duration::from_millis(5);
/// Jobs that producers without a schedule may be ahead of the consumers.
const AHEAD: u64 = 100;
/// How long consumers may take for what is left at the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// When producers send.
#[derive(Clone, Copy)]
pub enum Pace {
    /// As soon as the consumers have caught up.
    Fast,
    /// By the clock, all producers together.
    PerSecond(f64),
}

/// A job and a moment.
type Seen = (String, Instant);

/// What happened.
pub struct Run {
    began: Instant,
    time: Duration,
    sent: Vec<Seen>,
    claimed: Vec<Seen>,
}

impl Run {
    /// While producers were sending.
    pub fn claimed_per_second(&self) -> f64 {
        let end = self.began + self.time;
        self.claimed.iter().filter(|(_, at)| *at <= end).count() as f64 / self.time.as_secs_f64()
    }

    /// Milliseconds from commit to claim, sorted, without the first tenth, while all is still warming
    /// up. A claim may return before the enqueue that it got the job from has told its own client.
    pub fn waits(&self) -> Vec<f64> {
        let claimed: HashMap<&str, Instant> = self.claimed.iter().map(|(id, at)| (id.as_str(), *at)).collect();
        let warm = self.began + self.time / 10;
        let sent = self.sent.iter().filter(|(_, at)| *at >= warm);
        let wait = |(id, at): &Seen| claimed.get(id.as_str()).map(|claimed| claimed.saturating_duration_since(*at));
        let mut waits: Vec<f64> = sent.filter_map(wait).map(|wait| wait.as_secs_f64() * 1e3).collect();
        waits.sort_by(f64::total_cmp);
        waits
    }
}

/// What the threads tell each other.
#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    claimed: AtomicU64,
    /// Set when no more jobs come.
    ended: AtomicBool,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.ended.load(Ordering::SeqCst) && self.claimed.load(Ordering::SeqCst) >= self.sent.load(Ordering::SeqCst)
    }
}

/// Works off whatever is there.
pub fn drain(cluster: &Cluster, system: &System) -> Result<(), Failure> {
    let mut calls = Calls::connect(cluster, RUN, system, Claiming::OneKind)?;
    while let Some(held) = calls.claim()? {
        calls.ack(&held)?;
    }
    Ok(())
}

/// Has producers send for some time, and consumers take everything.
pub fn run(cluster: &Cluster, system: &System, pace: Pace, time: Duration) -> Result<Run, Failure> {
    let claiming = if system.is(AGENTQ) { Claiming::Waiting } else { Claiming::OneKind };
    let connect = |count: u32| -> Result<Vec<Calls>, Failure> {
        (0..count).map(|_| Calls::connect(cluster, RUN, system, claiming)).collect()
    };
    let (producers, consumers) = (connect(PRODUCERS)?, connect(CONSUMERS)?);
    let shared = Shared::default();
    let began = Instant::now();
    let mut run = Run { began, time, sent: Vec::new(), claimed: Vec::new() };
    std::thread::scope(|scope| {
        let shared = &shared;
        let consuming: Vec<_> =
            consumers.into_iter().map(|calls| scope.spawn(move || consume(calls, shared, began + time))).collect();
        let producing: Vec<_> = (0..)
            .zip(producers)
            .map(|(number, calls)| scope.spawn(move || produce(calls, shared, pace, number, began, time)))
            .collect();
        // The consumers must hear of the end even if a producer fails.
        let sent: Vec<_> = producing.into_iter().map(|thread| thread.join()).collect();
        shared.ended.store(true, Ordering::SeqCst);
        let claimed: Vec<_> = consuming.into_iter().map(|thread| thread.join()).collect();
        for part in sent {
            run.sent.extend(part.map_err(|_| "a producer panicked")??);
        }
        for part in claimed {
            run.claimed.extend(part.map_err(|_| "a consumer panicked")??);
        }
        Ok(run)
    })
}

/// Sends jobs, and notes when each was there: when its enqueue returned, less what it was sent late.
fn produce(
    mut calls: Calls,
    shared: &Shared,
    pace: Pace,
    number: u32,
    began: Instant,
    time: Duration,
) -> Result<Vec<Seen>, postgres::Error> {
    let payload = payload(number, payload::ORDINARY);
    let mut sent = Vec::new();
    for turn in 0.. {
        let late = match pace {
            Pace::Fast => wait_for_consumers(shared),
            Pace::PerSecond(rate) => {
                let due = f64::from(turn * PRODUCERS + number) / rate;
                wait_until(began + Duration::from_secs_f64(due))
            }
        };
        if began.elapsed() >= time + late {
            break;
        }
        let id = calls.enqueue(&payload)?;
        let returned = Instant::now();
        shared.sent.fetch_add(1, Ordering::SeqCst);
        sent.push((id, returned - late));
    }
    Ok(sent)
}

/// Returns how late it is already; being woken a little late is the machine's fault, not the queue's.
fn wait_until(due: Instant) -> Duration {
    let late = due.elapsed();
    if late.is_zero() {
        std::thread::sleep(due.duration_since(Instant::now()));
    }
    late
}

fn wait_for_consumers(shared: &Shared) -> Duration {
    while shared.sent.load(Ordering::SeqCst) > shared.claimed.load(Ordering::SeqCst) + AHEAD {
        std::thread::sleep(Duration::from_micros(100));
    }
    Duration::ZERO
}

/// Takes jobs until all that were sent are taken, and notes when each was in hand.
fn consume(mut calls: Calls, shared: &Shared, end: Instant) -> Result<Vec<Seen>, postgres::Error> {
    let mut claimed = Vec::new();
    while !shared.is_over() && end.elapsed() < PATIENCE {
        match calls.claim()? {
            Some(held) => {
                let at = Instant::now();
                shared.claimed.fetch_add(1, Ordering::SeqCst);
                calls.ack(&held)?;
                claimed.push((held.id, at));
            }
            None => std::thread::sleep(POLL),
        }
    }
    Ok(claimed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_matched_by_job_and_leave_out_the_warm_up() {
        let began = Instant::now();
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        let seen = |id: &str, milliseconds| (id.to_owned(), at(milliseconds));
        let run = Run {
            began,
            time: Duration::from_secs(1),
            sent: vec![seen("early", 10), seen("a", 200), seen("b", 300), seen("lost", 400), seen("overtaken", 500)],
            claimed: vec![seen("b", 307), seen("a", 202), seen("early", 90), seen("overtaken", 499)],
        };
        let waits: Vec<u64> = run.waits().iter().map(|wait| wait.round() as u64).collect();
        assert_eq!(waits, [0, 2, 7]);
        assert_eq!(run.claimed_per_second(), 4.0);
    }
}
