//! Several sessions at one queue. Others do not see what the transaction of a session does before it commits.
//!
//! A job that an open transaction has changed is nobody else's: the server locks its row. A slot is taken when a
//! claim takes it, and is free for others when the end of its lease has committed; the transaction that ends the
//! lease may take it again before.

use super::{Job, Queue, Terms};
use std::collections::BTreeMap;

/// What an open transaction has done.
#[derive(Clone, Debug, Default)]
struct Work {
    /// The jobs that it has changed or made, as it sees them.
    jobs: BTreeMap<String, Job>,
    /// Slots that it holds beyond those it held before, by key, now and at most: the most is what others cannot have.
    slots: BTreeMap<String, (i64, i64)>,
}

impl Work {
    fn add(&mut self, key: &str, change: i64) {
        let (now, most) = self.slots.entry(key.to_owned()).or_default();
        *now += change;
        *most = (*most).max(*now);
    }
}

#[derive(Clone, Debug, Default)]
struct Transaction {
    work: Work,
    savepoints: Vec<Work>,
}

#[derive(Clone, Debug)]
pub struct Sessions {
    committed: Queue,
    open: Vec<Option<Transaction>>,
}

impl Sessions {
    pub fn new(count: usize, terms: Terms) -> Sessions {
        Sessions { committed: Queue::new(terms), open: vec![None; count] }
    }

    /// What everybody sees.
    pub fn committed(&self) -> &Queue {
        &self.committed
    }

    /// What this session sees.
    pub fn view(&self, who: usize) -> Queue {
        let mut view = self.committed.clone();
        for (number, open) in self.open.iter().enumerate() {
            let Some(open) = open else { continue };
            if number == who {
                view.jobs.extend(open.work.jobs.clone());
                continue;
            }
            for (key, (_, most)) in &open.work.slots {
                *view.taken_elsewhere.entry(key.clone()).or_default() += *most as u32;
            }
        }
        view
    }

    pub fn is_open(&self, who: usize) -> bool {
        self.open[who].is_some()
    }

    pub fn savepoints(&self, who: usize) -> usize {
        self.open[who].as_ref().map_or(0, |open| open.savepoints.len())
    }

    /// Whether others have transactions open.
    pub fn others_are_open(&self, who: usize) -> bool {
        (0..self.open.len()).any(|number| number != who && self.is_open(number))
    }

    /// Whether a transaction of another session has changed the job, or locked it.
    pub fn is_locked(&self, who: usize, id: &str) -> bool {
        let has = |open: &Option<Transaction>| open.as_ref().is_some_and(|open| open.work.jobs.contains_key(id));
        (0..self.open.len()).any(|number| number != who && has(&self.open[number]))
    }

    /// Slots of this key that are in use, as the server counts them: also those that are about to be given back.
    pub fn counted(&self, key: &str) -> u32 {
        let open = self.open.iter().flatten().filter_map(|open| open.work.slots.get(key));
        self.committed.held(key) + open.map(|(_, most)| *most as u32).sum::<u32>()
    }

    /// Takes note that this session's transaction has locked the job, though it may not have changed it.
    pub fn touch(&mut self, who: usize, id: &str) {
        let seen = self.view(who).jobs.remove(id);
        if let (Some(open), Some(job)) = (&mut self.open[who], seen) {
            open.work.jobs.entry(id.to_owned()).or_insert(job);
        }
    }

    /// Does something in this session: in its open transaction, or else in a new one that commits at once.
    pub fn act<T>(&mut self, who: usize, act: impl FnOnce(&mut Queue) -> T) -> T {
        let before = self.view(who);
        let mut after = before.clone();
        let result = act(&mut after);
        after.jobs.retain(|id, job| before.jobs.get(id) != Some(job));
        for id in after.jobs.keys() {
            assert!(!self.is_locked(who, id), "job {id} was changed by two transactions at once");
        }
        let Some(open) = &mut self.open[who] else {
            self.committed.jobs.extend(after.jobs);
            return result;
        };
        // What is given back comes first, since it may be taken again.
        for (id, job) in &after.jobs {
            let old = before.jobs.get(id).and_then(|job| job.lease.as_ref());
            let new = job.lease.as_ref().map(|lease| &lease.token);
            let ended = old.filter(|lease| Some(&lease.token) != new);
            ended.iter().flat_map(|lease| &lease.slots).for_each(|key| open.work.add(key, -1));
        }
        for (id, job) in &after.jobs {
            let old = before.jobs.get(id).and_then(|job| job.lease.as_ref()).map(|lease| &lease.token);
            let begun = job.lease.as_ref().filter(|lease| Some(&lease.token) != old);
            begun.iter().flat_map(|lease| &lease.slots).for_each(|key| open.work.add(key, 1));
        }
        open.work.jobs.extend(after.jobs);
        result
    }

    pub fn begin(&mut self, who: usize) {
        self.open[who] = Some(Transaction::default());
    }

    pub fn savepoint(&mut self, who: usize) {
        if let Some(open) = &mut self.open[who] {
            open.savepoints.push(open.work.clone());
        }
    }

    /// Leaves the last savepoint: what was done since is kept, or was never done.
    pub fn leave_savepoint(&mut self, who: usize, keep: bool) {
        if let Some(open) = &mut self.open[who]
            && let Some(before) = open.savepoints.pop()
            && !keep
        {
            open.work = before;
        }
    }

    pub fn end(&mut self, who: usize, commit: bool) {
        if let Some(open) = self.open[who].take().filter(|_| commit) {
            self.committed.jobs.extend(open.work.jobs);
        }
    }
}
