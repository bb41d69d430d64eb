//! All sessions at once, as fast as they can: what each is told is one of the answers there are, an observer never
//! sees a limit passed, and in the end every job is there and has ended as the machine says.

use super::checks::assert_drained;
use super::{Story, prepare, terms};
use agentq_tests::dice::Dice;
use agentq_tests::{Session, Value, database, eventually, id, token};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};

const THREADS: usize = 8;
const CALLS: usize = 600;
/// Jobs that may rest at once, more or less.
const MOST: i64 = 60;

/// What all sessions have committed.
#[derive(Default)]
struct Tally {
    made: AtomicI64,
    claims: AtomicI64,
    jobs: Mutex<Vec<String>>,
    /// How often the observer has looked.
    looks: AtomicI64,
}

impl Tally {
    fn is_mild(&self) -> bool {
        let (made, claims) = (self.made.load(SeqCst), self.claims.load(SeqCst));
        made <= 500 || claims <= made / 2 || self.looks.load(SeqCst) <= 50
    }
}

/// What a session has done since its transaction began.
#[derive(Clone, Default)]
struct Done {
    made: Vec<String>,
    claimed: Vec<(String, String)>,
    /// Tokens of leases that it has ended or lost.
    ended: Vec<String>,
}

struct Hammer<'t> {
    s: Session,
    me: String,
    dice: Dice,
    tally: &'t Tally,
    held: Vec<(String, String)>,
    done: Done,
    story: Story,
}

impl Hammer<'_> {
    /// Makes a call. None: someone was in the way for too long, and the transaction, if there is one, has failed.
    fn call(&mut self, call: &str, codes: &[&str]) -> Option<Value> {
        self.story.tell(format!("{}: {call}", self.me));
        let answer: Option<Value> = match self.s.0.query_one(&format!("SELECT agentq.{call}"), &[]) {
            Ok(row) => Some(row.get(0)),
            // A lock that is held for too long, a deadlock, a job that keeps moving.
            Err(error) if error.code().is_some_and(|code| ["55P03", "40P01", "40001"].contains(&code.code())) => None,
            Err(error) => panic!("{call}\n{error:?}"),
        };
        self.story.tell_answer(answer.as_ref());
        let is_known = |answer: &Value| codes.iter().any(|code| answer["code"] == *code);
        assert!(answer.as_ref().is_none_or(is_known), "{call}: {answer:?}");
        answer
    }

    fn enqueue(&mut self) -> Option<()> {
        if self.s.count("agentq_internal.job_ready") + self.s.count("agentq_internal.job_line") > MOST {
            return self.claim();
        }
        let keys = ["\"tenant:1\"", "\"tenant:2\"", "\"tenant:3\", \"provider:x\"", ""][self.dice.below(4)];
        let call = format!(
            "fn_job_enqueue('{}', p_max_attempts => {}, p_scheduled_at => agentq.fn_clock_now() + '{} ms',
             p_priority => {}, p_options => '{{\"limit_keys\": [{keys}]}}')",
            ["a", "b"][self.dice.below(2)],
            self.dice.below(4) + 1,
            [0, 0, 20][self.dice.below(3)],
            self.dice.below(3),
        );
        let answer = self.call(&call, &["enqueued"])?;
        self.done.made.push(id(&answer));
        Some(())
    }

    fn claim(&mut self) -> Option<()> {
        let kind = ["NULL", "NULL", "'a'", "'b'"][self.dice.below(4)];
        let worker_type = ["null", "\"crew\""][self.dice.below(2)];
        // Some leases run out while all go on, and some when the clock is moved.
        let seconds = [1, 20, 600, 600][self.dice.below(4)];
        let most = self.dice.below(3) + 1;
        let call = format!(
            "fn_job_claim_batch('{}', {most}, {kind}, {seconds}, '{{\"worker_type\": {worker_type}}}')",
            self.me
        );
        let answer = self.call(&call, &["claimed", "empty"])?;
        let jobs = answer["jobs"].as_array().expect("a list");
        self.done.claimed.extend(jobs.iter().map(|job| (id(job), token(job))));
        Some(())
    }

    fn end_one(&mut self) -> Option<()> {
        let held = self.held.iter().chain(&self.done.claimed);
        let held: Vec<_> = held.filter(|(_, token)| !self.done.ended.contains(token)).cloned().collect();
        let Some((job, token)) = self.dice.any_of(&held).cloned() else { return self.claim() };
        let me = self.me.clone();
        let (call, codes): (String, &[&str]) = match self.dice.below(8) {
            0..4 => (
                format!("fn_job_ack('{job}', '{me}', NULL, '{token}')"),
                &["succeeded", "lease_lost", "already_finished"],
            ),
            4 => (
                format!("fn_job_release('{job}', '{me}', '{token}')"),
                &["released", "cancelled", "lease_lost", "already_finished"],
            ),
            5 => (
                format!("fn_job_heartbeat('{job}', '{me}', 30, NULL, '{token}')"),
                &["extended", "lease_lost", "already_finished"],
            ),
            _ => {
                let class = ["timeout", "timeout", "validation_error"][self.dice.below(3)];
                let verdict = ["fail", "fail", "cancel", "discard"][self.dice.below(4)];
                let call = format!(
                    "fn_job_fail_or_retry('{job}', '{me}', 'boom', '{class}', '{token}', '10 ms', '{verdict}')"
                );
                (call, &["retry_waiting", "dead_letter", "failed", "cancelled", "lease_lost", "already_finished"])
            }
        };
        let answer = self.call(&call, codes)?;
        if answer["code"] != "extended" {
            self.done.ended.push(token);
        }
        Some(())
    }

    fn cancel(&mut self) -> Option<()> {
        let jobs = self.tally.jobs.lock().expect("nobody has panicked").clone();
        // Rather a young one: the old ones have ended.
        let young = &jobs[jobs.len().saturating_sub(40)..];
        let Some(job) = self.dice.any_of(young).cloned() else { return Some(()) };
        let codes = ["cancelled", "cancel_requested", "already_finished"];
        self.call(&format!("fn_job_cancel('{job}', 'not needed')"), &codes).map(drop)
    }

    fn redrive(&mut self) -> Option<()> {
        let letters = self.s.texts("SELECT dead_letter_id FROM agentq.job_dead_letter ORDER BY moved_at DESC LIMIT 20");
        let Some(letter) = self.dice.any_of(&letters).cloned() else { return Some(()) };
        let again = self.dice.below(4) == 0;
        let call = format!("fn_dead_letter_redrive('{letter}', p_options => '{{\"again\": {again}}}')");
        let answer = self.call(&call, &["redriven", "already_redriven"])?;
        if answer["code"] == "redriven" {
            self.done.made.push(id(&answer));
        }
        Some(())
    }

    fn expire(&mut self) -> Option<()> {
        self.s.shift_clock(30);
        let answer = self.call("fn_engine_tick('reap_leases')", &["ticked"]);
        if answer.is_some() {
            self.s.shift_clock(0);
        }
        answer.map(drop)
    }

    fn work(&mut self) -> Option<()> {
        match self.dice.below(40) {
            0..10 => self.enqueue(),
            10..20 => self.claim(),
            20..35 => self.end_one(),
            35..37 => self.cancel(),
            37..39 => self.redrive(),
            _ => self.expire(),
        }
    }

    /// A few calls in a transaction, perhaps with a savepoint; None: it has failed.
    fn work_in_transaction(&mut self) -> Option<()> {
        self.work()?;
        if self.dice.below(2) == 0 {
            let before = self.done.clone();
            self.story.tell("SAVEPOINT");
            self.s.run("SAVEPOINT s");
            self.work()?;
            self.work()?;
            if self.dice.below(2) == 0 {
                self.story.tell("ROLLBACK TO");
                self.s.run("ROLLBACK TO s");
                self.done = before;
            }
            self.s.run("RELEASE s");
        }
        self.work()
    }

    fn step(&mut self) {
        let kept = if self.dice.below(4) > 0 {
            let kept = self.work();
            // Also if the call was not made.
            self.s.shift_clock(0);
            kept.is_some()
        } else {
            self.story.tell("BEGIN");
            self.s.run("BEGIN");
            let kept = self.work_in_transaction().is_some() && self.dice.below(3) > 0;
            let end = if kept { "COMMIT" } else { "ROLLBACK" };
            self.story.tell(end);
            self.s.run(end);
            kept
        };
        let done = std::mem::take(&mut self.done);
        if kept {
            self.tally.made.fetch_add(done.made.len() as i64, SeqCst);
            self.tally.claims.fetch_add(done.claimed.len() as i64, SeqCst);
            self.tally.jobs.lock().expect("nobody has panicked").extend(done.made);
            self.held.extend(done.claimed);
            self.held.retain(|(_, token)| !done.ended.contains(token));
        }
    }
}

/// Leases by key, as the jobs under lease say, and not as the leases do.
const HELD: &str =
    "SELECT concat_ws(' ', key, count(*)) FROM agentq_internal.job_lease l JOIN agentq_internal.job j USING (job_id),
    unnest(ARRAY['global', 'kind:' || j.job_kind] || coalesce(j.limit_keys, '{}')
        || ARRAY(SELECT k FROM unnest(l.limits) k WHERE k LIKE 'worker%')) key
    GROUP BY key";
const COUNTED: &str = "SELECT concat_ws(' ', limit_key, counted) FROM agentq.v_limit";

/// Looks all the time.
fn observe(s: &mut Session, over: &AtomicBool, looks: &AtomicI64) {
    let rules = terms().rules;
    while !over.load(SeqCst) {
        for row in s.texts(HELD).into_iter().chain(s.texts(COUNTED)) {
            let (key, count) = row.split_once(' ').expect("a key and a number");
            let count: u32 = count.parse().expect("a number");
            assert!(rules.slots(key).is_none_or(|most| count <= most), "{key} is held {count} times");
        }
        looks.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_life_of_jobs_holds_under_eight_sessions_at_once() {
    let db = database();
    prepare(&mut db.session());
    let (tally, over) = (Tally::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| observe(&mut db.session(), &over, &tally.looks));
        let hammers: Vec<_> = (0..THREADS)
            .map(|number| {
                let (mut s, tally) = (db.session(), &tally);
                s.run("SET lock_timeout = '200ms'; SET deadlock_timeout = '50ms'");
                let seed = number as u64 + 1;
                let (me, dice) = (format!("w{number}"), Dice::new(seed));
                let story = Story { seed, lines: Vec::new() };
                let mut hammer = Hammer { s, me, dice, tally, held: Vec::new(), done: Done::default(), story };
                // On a busy machine, where calls give up more often, more of them are made.
                let goes_on = |call: &usize| *call < CALLS || tally.is_mild();
                scope.spawn(move || (0..20 * CALLS).take_while(goes_on).for_each(|_| hammer.step()))
            })
            .collect();
        let ended: Vec<_> = hammers.into_iter().map(|hammer| hammer.join()).collect();
        over.store(true, SeqCst);
        ended.into_iter().for_each(|ended| ended.expect("a session has failed"));
        observer.join().expect("a limit was passed");
    });
    let (made, claims) = (tally.made.load(SeqCst), tally.claims.load(SeqCst));
    assert!(!tally.is_mild(), "mild: {made} jobs, {claims} claims, {:?} looks", tally.looks);

    let mut s = db.session();
    s.shift_clock(100_000);
    let mut drained = 0;
    eventually("every job has ended", || {
        let answer = s.call("fn_job_claim_batch('last', 50)");
        let jobs = answer["jobs"].as_array().expect("a list");
        drained += jobs.len() as i64;
        jobs.iter().for_each(|job| drop(s.call(&format!("fn_job_ack('{}', 'last')", id(job)))));
        s.count("agentq.job_queue WHERE finished_at IS NULL") == 0
    });
    assert_drained(&mut s, made);
    // Every claim that has committed is an attempt, and every attempt has ended.
    assert_eq!(s.count("agentq.job_attempt"), claims + drained);
    assert_eq!(s.count("agentq.job_attempt WHERE outcome IS NULL"), 0);
    db.assert_sound();
}
