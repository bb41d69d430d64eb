//! The mixed workload while another session keeps a snapshot from before it began: what a forgotten
//! open transaction does to a queue. Vacuum runs, but may not remove what that snapshot could see.
//!
//! In a full run agentq is measured three times, with the others once each in between. For the
//! baseline, one other is enough.

use crate::cluster::RUN;
use crate::options::Form;
use crate::progress::Task;
use crate::results::Results;
use crate::systems::{AGENTQ, Role, System, TEXTBOOK};
use crate::workloads::{MIXED, Step};
use crate::{Bench, Failure};
use std::rc::Rc;

pub const NAME: &str = "pinned snapshot";

/// Jobs per second, window by window.
pub struct Pinned {
    pub windows: Vec<f64>,
}

impl Pinned {
    /// The last window as a share of the first.
    pub fn kept(&self) -> f64 {
        match self.windows.as_slice() {
            [first, .., last] => last / first,
            _ => f64::NAN,
        }
    }

    pub fn last(&self) -> f64 {
        self.windows.last().copied().unwrap_or(f64::NAN)
    }
}

/// The measurements of all systems that can do the mixed workload.
pub fn tasks(bench: &Bench) -> Vec<Task> {
    let able = bench.systems.iter().filter(|system| Step::Mixed.script(system).is_some());
    let (ours, others): (Vec<_>, Vec<_>) = able.partition(|system| system.is(AGENTQ));
    let order = match bench.options.form {
        Form::Full => in_between(&ours, &others),
        Form::Quick => [ours, others].concat(),
        Form::Ci => ours.into_iter().chain(others.into_iter().filter(|other| other.is(TEXTBOOK))).collect(),
    };
    order.into_iter().map(|system| task(bench, Rc::clone(system))).collect()
}

fn in_between<T: Clone>(ours: &[T], others: &[T]) -> Vec<T> {
    let (first, second) = others.split_at(others.len() / 2);
    [ours, first, ours, second, ours].concat()
}

fn task(bench: &Bench, system: Rc<System>) -> Task {
    Task {
        name: NAME.to_owned(),
        title: format!("{NAME:<38}{:<16}", system.name),
        seconds: f64::from(bench.options.pinned_seconds) + 2.0,
        of_peer: system.role == Role::Peer,
        run: Box::new(move |bench, results: &mut Results| {
            let pinned = measure(bench, &system)?;
            let windows: Vec<String> = pinned.windows.iter().map(|speed| format!("{speed:.0}")).collect();
            let words = format!("{} jobs/s, {:.0}% kept", windows.join(" "), pinned.kept() * 100.0);
            results.pinned.push((system.name.clone(), pinned));
            Ok(words)
        }),
    }
}

/// Runs the workload. The snapshot is held in the same database: one elsewhere would not keep vacuum
/// from this one.
fn measure(bench: &Bench, system: &System) -> Result<Pinned, Failure> {
    let few = bench.databases.few(&bench.cluster, system)?;
    bench.cluster.copy_database(&few, RUN)?;
    let mut holder = bench.cluster.client(RUN)?;
    let mut snapshot = holder.build_transaction();
    snapshot = snapshot.isolation_level(postgres::IsolationLevel::RepeatableRead);
    let mut snapshot = snapshot.start()?;
    snapshot.query_one("SELECT count(*) FROM pg_class", &[])?;
    let seconds = bench.options.pinned_seconds;
    // One second more, because pgbench may end before it has reported the last one.
    let reached = MIXED.load(bench, system, seconds + 1)?;
    snapshot.rollback()?;
    let measured = reached.each_second.get(..seconds as usize).ok_or("pgbench has not reported every second")?;
    // A run whose claims found nothing must not pass for a fast one.
    let average = |seconds: &[f64]| seconds.iter().sum::<f64>() / seconds.len() as f64 * reached.found;
    Ok(Pinned { windows: measured.chunks(bench.options.window as usize).map(average).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agentq_runs_before_between_and_after_the_others() {
        assert_eq!(in_between(&["a"], &["x", "y", "z"]), ["a", "x", "a", "y", "z", "a"]);
    }

    #[test]
    fn what_is_kept_is_the_last_window_as_a_share_of_the_first() {
        assert_eq!(Pinned { windows: vec![100.0, 70.0, 50.0] }.kept(), 0.5);
        assert!(Pinned { windows: vec![100.0] }.kept().is_nan());
    }
}
