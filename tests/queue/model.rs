//! Random interleavings of several sessions against a plain model of the queue: every claim must
//! give out the very jobs that the model says are next, whatever was committed late, rolled back,
//! released, changed or cancelled meanwhile, and in the end not one may be missing.

use agentq_tests::dice::{Dice, seeds_and_a_new_one};
use agentq_tests::{Cluster, Options, Session, Value, database, drain, id, json};
use std::collections::{BTreeMap, BTreeSet};

/// Priority, schedule, id: the order in which jobs are claimed.
type Key = (i64, i64, String);

const KINDS: [&str; 3] = ["a", "b", "c"];

/// What a transaction has done and nobody else sees.
#[derive(Clone, Default)]
struct Open {
    added: BTreeSet<Key>,
    /// Committed rows that it has taken: locked for everybody.
    removed: BTreeSet<Key>,
    /// Jobs it has claimed, and jobs held before that it has given back or ended.
    claimed: BTreeSet<Key>,
    ended: BTreeSet<Key>,
}

struct Worker {
    session: Session,
    name: String,
    open: Option<Open>,
    held: BTreeSet<Key>,
}

struct World {
    workers: Vec<Worker>,
    /// Committed and ready.
    ready: BTreeSet<Key>,
    kinds: BTreeMap<String, &'static str>,
    dice: Dice,
    log: Vec<String>,
}

/// A job as the model knows it, from an answer with its priority and schedule.
fn key(s: &mut Session, job: &str) -> Key {
    let sql = format!(
        "SELECT concat_ws(' ', priority, (extract(epoch FROM scheduled_at) * 1000000)::bigint)
         FROM agentq.job_queue WHERE job_id = '{job}'"
    );
    let text = s.text(&sql);
    let (priority, at) = text.split_once(' ').expect("two numbers");
    (priority.parse().expect("a number"), at.parse().expect("a number"), job.to_owned())
}

impl World {
    fn new(sessions: Vec<Session>, seed: u64) -> World {
        let worker =
            |(number, session)| Worker { session, name: format!("w{number}"), open: None, held: BTreeSet::new() };
        let mut workers: Vec<Worker> = sessions.into_iter().enumerate().map(worker).collect();
        workers[0].session.call("fn_config_set('queue.retry.backoff_base_sec', '3600')");
        let (dice, log) = (Dice::new(seed), vec![format!("seed {seed}")]);
        World { workers, ready: BTreeSet::new(), kinds: BTreeMap::new(), dice, log }
    }

    fn one_of(&mut self, keys: &BTreeSet<Key>) -> Option<Key> {
        if keys.is_empty() { None } else { keys.iter().nth(self.dice.below(keys.len())).cloned() }
    }

    /// What this worker may claim, best first.
    fn visible(&self, who: usize) -> BTreeSet<Key> {
        let locked =
            |key: &&Key| !self.workers.iter().any(|w| w.open.as_ref().is_some_and(|o| o.removed.contains(*key)));
        let mut visible: BTreeSet<Key> = self.ready.iter().filter(locked).cloned().collect();
        visible.extend(self.workers[who].open.iter().flat_map(|open| open.added.iter().cloned()));
        visible
    }

    fn enter(&mut self, who: usize, key: Key) {
        match &mut self.workers[who].open {
            Some(open) => open.added.insert(key),
            None => self.ready.insert(key),
        };
    }

    fn leave(&mut self, who: usize, key: &Key) {
        match &mut self.workers[who].open {
            None => drop(self.ready.remove(key)),
            Some(open) => {
                if !open.added.remove(key) {
                    open.removed.insert(key.clone());
                }
            }
        }
    }

    fn hold(&mut self, who: usize, key: Key) {
        let worker = &mut self.workers[who];
        worker.open.as_mut().map_or(&mut worker.held, |open| &mut open.claimed).insert(key);
    }

    fn let_go(&mut self, who: usize, key: &Key) {
        let worker = &mut self.workers[who];
        match &mut worker.open {
            None => drop(worker.held.remove(key)),
            Some(open) => {
                if !open.claimed.remove(key) {
                    open.ended.insert(key.clone());
                }
            }
        }
    }

    /// What this worker holds, as it sees it.
    fn holds(&self, who: usize) -> BTreeSet<Key> {
        let worker = &self.workers[who];
        let Some(open) = &worker.open else { return worker.held.clone() };
        worker.held.difference(&open.ended).chain(&open.claimed).cloned().collect()
    }

    fn enqueue(&mut self, who: usize) {
        let (kind, priority) = (KINDS[self.dice.below(3)], [0, 5, 100, 7][self.dice.below(4)]);
        let at =
            ["NULL", "NULL", "NULL", "agentq.fn_clock_now() - '1 hour'::interval", "'2020-01-01'"][self.dice.below(5)];
        let jobs = [1, 1, 1, 1, 3][self.dice.below(5)];
        let worker = &mut self.workers[who];
        let sql = format!(
            "SELECT agentq.fn_job_enqueue_batch((SELECT jsonb_agg(jsonb_build_object('job_kind', '{kind}', 'priority', {priority},
                'scheduled_at', {at})) FROM generate_series(1, {jobs})), '{{\"answer\": \"ids\"}}')"
        );
        let answer = match jobs {
            1 => json!([id(&worker
                .session
                .call(&format!("fn_job_enqueue('{kind}', p_priority => {priority}, p_scheduled_at => {at})")))]),
            _ => worker.session.json(&sql, &[])["job_ids"].clone(),
        };
        for job in answer.as_array().expect("ids") {
            let key = key(&mut self.workers[who].session, job.as_str().expect("an id"));
            self.kinds.insert(key.2.clone(), kind);
            self.enter(who, key);
        }
    }

    fn claim(&mut self, who: usize) {
        let limit = [1, 1, 1, 4][self.dice.below(4)];
        let (kinds, arguments): (&[&str], String) = match self.dice.below(4) {
            0 => (&["b"], "p_job_kind => 'b'".to_owned()),
            1 => (&["a", "c"], "p_options => '{\"kinds\": [\"a\", \"c\"]}'".to_owned()),
            _ => (&KINDS, "p_job_kind => NULL".to_owned()),
        };
        let visible = self.visible(who);
        let expected = visible.into_iter().filter(|key| kinds.contains(&self.kinds[&key.2]));
        let expected: Vec<Key> = expected.take(limit).collect();
        let worker = &mut self.workers[who];
        let name = worker.name.clone();
        let found: Vec<String> = if limit == 1 {
            let answer = worker.session.call(&format!("fn_job_claim('{name}', {arguments})"));
            answer.get("job_id").and_then(Value::as_str).map(str::to_owned).into_iter().collect()
        } else {
            let answer = worker.session.call(&format!("fn_job_claim_batch('{name}', {limit}, {arguments})"));
            answer["jobs"].as_array().expect("jobs").iter().map(id).collect()
        };
        let ids: Vec<String> = expected.iter().map(|key| key.2.clone()).collect();
        assert_eq!(found, ids, "{name} claims {limit} with {arguments}, after:\n{}", self.log.join("\n"));
        for key in expected {
            self.leave(who, &key);
            self.hold(who, key);
        }
    }

    /// Does something with a job that this worker holds.
    fn end_one(&mut self, who: usize) {
        let holds = self.holds(who);
        let Some(held) = self.one_of(&holds) else { return };
        let name = self.workers[who].name.clone();
        let how = self.dice.below(5);
        let job = held.2.clone();
        let call = match how {
            0 => format!("fn_job_release('{job}', '{name}')"),
            1 => format!("fn_job_snooze('{job}', '{name}', '2021-01-01')"),
            2 => format!("fn_job_fail_or_retry('{job}', '{name}', 'boom')"),
            _ => format!("fn_job_ack('{job}', '{name}')"),
        };
        assert_eq!(self.workers[who].session.call(&call)["ok"], true, "{call}");
        self.let_go(who, &held);
        if how < 2 {
            let back = key(&mut self.workers[who].session, &job);
            self.enter(who, back);
        }
    }

    /// Cancels or changes a job that nobody holds.
    fn meddle(&mut self, who: usize) {
        let visible = self.visible(who);
        let Some(found) = self.one_of(&visible) else { return };
        let job = found.2.clone();
        let cancel = self.dice.below(2) == 0;
        let call = if cancel {
            format!("fn_job_cancel('{job}')")
        } else {
            format!("fn_job_change('{job}', '{{\"priority\": {}}}')", self.dice.below(3))
        };
        assert_eq!(self.workers[who].session.call(&call)["ok"], true, "{call}");
        self.leave(who, &found);
        if !cancel {
            let back = key(&mut self.workers[who].session, &job);
            self.enter(who, back);
        }
    }

    fn begin(&mut self, who: usize) {
        self.workers[who].session.run("BEGIN");
        self.workers[who].open = Some(Open::default());
    }

    fn end(&mut self, who: usize, commit: bool) {
        let worker = &mut self.workers[who];
        worker.session.run(if commit { "COMMIT" } else { "ROLLBACK" });
        let Some(open) = worker.open.take().filter(|_| commit) else { return };
        worker.held = worker.held.difference(&open.ended).chain(&open.claimed).cloned().collect();
        self.ready = self.ready.difference(&open.removed).chain(&open.added).cloned().collect();
    }

    /// Works in a savepoint, and undoes it.
    fn in_vain(&mut self, who: usize) {
        let before = self.workers[who].open.clone();
        self.workers[who].session.run("SAVEPOINT s");
        for _ in 0..3 {
            self.work(who);
        }
        self.workers[who].session.run("ROLLBACK TO s");
        self.workers[who].open = before;
    }

    fn work(&mut self, who: usize) {
        match self.dice.below(9) {
            0..3 => self.enqueue(who),
            3..6 => self.claim(who),
            6..8 => self.end_one(who),
            _ => self.meddle(who),
        }
    }

    fn step(&mut self) {
        let who = self.dice.below(self.workers.len());
        let is_open = self.workers[who].open.is_some();
        let what = self.dice.below(12);
        self.log.push(format!("w{who} {what} {}", if is_open { "in its transaction" } else { "" }));
        match what {
            0 | 1 if !is_open => self.begin(who),
            0 | 1 => self.end(who, what == 0),
            2 if is_open => self.in_vain(who),
            _ => self.work(who),
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Ends every transaction, and claims all that is left.
    fn finish(mut self) {
        for who in 0..self.workers.len() {
            if self.workers[who].open.is_some() {
                let commit = self.dice.below(2) == 0;
                self.end(who, commit);
            }
        }
        let left = drain(&mut self.workers[0].session, "fn_job_claim('last')", "job_id");
        self.assert_left(&left);
    }

    fn assert_left(&self, left: &[String]) {
        let expected: Vec<String> = self.ready.iter().map(|key| key.2.clone()).collect();
        assert_eq!(left, expected, "what is left after:\n{}", self.log.join("\n"));
    }
}

#[test]
fn claims_follow_the_model_in_several_databases_at_once() {
    std::thread::scope(|scope| {
        for seed in seeds_and_a_new_one(5) {
            scope.spawn(move || {
                let db = database();
                let mut world = World::new((0..4).map(|_| db.session()).collect(), seed);
                world.run(400);
                world.finish();
                db.assert_sound();
            });
        }
    });
}

#[test]
fn claims_follow_the_model_without_the_preload() {
    let cluster = Cluster::start("model-bare", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    for seed in seeds_and_a_new_one(2) {
        let db = cluster.database();
        let mut world = World::new((0..4).map(|_| db.session()).collect(), seed);
        world.run(200);
        world.finish();
        db.assert_sound();
    }
}

#[test]
fn claims_follow_the_model_through_crashes() {
    let mut cluster = Cluster::start("model-crash", &Options::default());
    cluster.make_template();
    let name = "agentq_template";
    for seed in seeds_and_a_new_one(2) {
        let sessions = (0..4).map(|_| cluster.session(name)).collect();
        let mut world = World::new(sessions, seed);
        world.run(200);
        cluster.crash_and_restart();
        // What was not committed is gone.
        let mut s = cluster.session(name);
        let left = drain(&mut s, "fn_job_claim('last')", "job_id");
        world.assert_left(&left);
        assert_eq!(s.count("agentq.fn_queue_verify()"), 0);
        s.run("TRUNCATE agentq_internal.job, agentq_internal.job_ready, agentq_internal.job_waiting, agentq_internal.job_lease, agentq_internal.job_done, agentq_internal.job_key");
    }
}
