//! What a session may do, and what the model says to it.

use super::{PERIOD, World};
use agentq_core::life::{ALREADY_FINISHED, Failed, Holder, Job, LEASE_LOST, Queue};
use agentq_core::retry::Verdict;
use agentq_tests::{Value, id, text, token};

/// Jobs that may be unfinished at once: so few that no claim leaves any for the next.
const MOST: usize = 24;

/// What a claim asks for.
pub struct Wish {
    pub most: usize,
    pub kind: Option<&'static str>,
    pub worker_type: Option<&'static str>,
    pub seconds: i64,
}

impl Wish {
    /// Kind, seconds and options.
    fn arguments(&self) -> String {
        let kind = self.kind.map_or("NULL".to_owned(), |kind| format!("'{kind}'"));
        let worker_type = self.worker_type.map_or("null".to_owned(), |name| format!("\"{name}\""));
        format!("{kind}, {}, '{{\"worker_type\": {worker_type}}}'", self.seconds)
    }
}

impl World {
    pub fn work(&mut self, who: usize) {
        match self.dice.below(40) {
            0..10 => self.enqueue(who),
            10..18 => self.claim(who),
            18..33 => self.end_one(who),
            33..36 => self.cancel(who),
            36 => self.move_to_dead_letter(who),
            37 | 38 => self.redrive(who),
            _ => self.expire(who),
        }
    }

    fn enqueue(&mut self, who: usize) {
        let view = self.model.view(who);
        if view.jobs.values().filter(|job| !job.state.is_finished()).count() >= MOST {
            return;
        }
        let kind = ["a", "b", "c"][self.dice.below(3)];
        let keys: &[&str] =
            [&["tenant:1"][..], &["tenant:2"], &["tenant:3"], &["provider:x", "tenant:3"], &[]][self.dice.below(5)];
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let attempts = self.dice.below(4) as i32 + 1;
        let later = if self.dice.below(3) == 0 { PERIOD } else { 0 };
        let call = format!(
            "fn_job_enqueue('{kind}', p_max_attempts => {attempts}, p_priority => {},
             p_scheduled_at => agentq.fn_clock_now() + '{later} s', p_options => '{{\"limit_keys\": {keys:?}}}')",
            self.dice.below(3)
        );
        let answer = self.call(who, &call).expect("an enqueue waits for nobody");
        let job = Job::new("default", kind, &keys, attempts, self.clock + later);
        let expected = self.model.act(who, |queue| queue.enqueue(&id(&answer), job));
        assert_eq!(answer["code"], expected, "{call}");
    }

    fn claim(&mut self, who: usize) {
        let wish = self.wish();
        self.claim_some(who, &wish);
    }

    fn wish(&mut self) -> Wish {
        let kind = [None, None, Some("a"), Some("b")][self.dice.below(4)];
        let worker_type = [None, Some("crew")][self.dice.below(2)];
        let seconds = [PERIOD, 5 * PERIOD, 9 * PERIOD][self.dice.below(3)];
        Wish { most: [1, 1, 2, 4][self.dice.below(4)], kind, worker_type, seconds }
    }

    /// Claims; returns jobs and tokens.
    pub fn claim_some(&mut self, who: usize, wish: &Wish) -> Vec<(String, String)> {
        let arguments = wish.arguments();
        let call = match wish.most {
            1 => format!("fn_job_claim('w{who}', {arguments})"),
            most => format!("fn_job_claim_batch('w{who}', {most}, {arguments})"),
        };
        let Some(answer) = self.call(who, &call) else {
            assert!(!self.preloaded, "a claim waits for nobody");
            return Vec::new();
        };
        let found: Vec<Value> = match answer["jobs"].as_array() {
            Some(jobs) => jobs.clone(),
            None if answer["code"] == "claimed" => vec![answer.clone()],
            None => Vec::new(),
        };
        assert_eq!(answer["code"], if found.is_empty() { "empty" } else { "claimed" }, "{call}: {answer}");
        self.judge_claim(who, wish, &found)
    }

    /// Judges what a claim has found: any job that may be claimed is right, and nothing only if there is none.
    fn judge_claim(&mut self, who: usize, wish: &Wish, found: &[Value]) -> Vec<(String, String)> {
        self.learn_expired(who);
        assert!(found.len() <= wish.most, "{found:?}");
        let worker = self.worker(who, wish.worker_type);
        for job in found {
            let (id, now) = (id(job), self.clock);
            assert!(wish.kind.is_none_or(|kind| job["job_kind"] == kind), "{job}");
            assert!(!self.model.is_locked(who, &id), "another transaction is at {id}");
            let code = self.model.act(who, |queue| queue.claim(&id, &worker, &token(job), wish.seconds, now));
            assert_eq!(code, "claimed", "the model says that {id} may not be claimed");
            let expected = &self.model.view(who).jobs[&id];
            assert_eq!(job["attempt"], expected.attempts + 1, "{job}");
            assert_eq!(job["max_attempts"], expected.max_attempts, "{job}");
        }
        if found.is_empty() {
            self.check_nothing_was_there(who, wish, &worker);
        }
        let claims: Vec<(String, String)> = found.iter().map(|job| (id(job), token(job))).collect();
        self.claims.extend(claims.iter().cloned());
        claims
    }

    /// The slot of the first job may be that of the next.
    fn ack_and_claim(&mut self, who: usize, job: &str, token: &str) {
        let wish = Wish { most: 1, ..self.wish() };
        let call = format!("fn_job_ack_and_claim('{job}', 'w{who}', NULL, '{token}', {})", wish.arguments());
        let Some(answer) = self.call(who, &call) else {
            return assert!(!self.preloaded || self.is_line_locked(who, job), "{call} waits for nobody at {job}");
        };
        let holder = Holder { owner: &format!("w{who}"), token };
        let code = self.model.act(who, |queue| queue.ack(job, holder));
        assert_eq!(answer["ack"]["code"], code, "{call}: {answer}");
        let found: Vec<Value> = Some(&answer["job"]).filter(|job| !job.is_null()).cloned().into_iter().collect();
        assert_eq!(answer["code"], if found.is_empty() { "empty" } else { "claimed" }, "{call}: {answer}");
        self.judge_claim(who, &wish, &found);
    }

    /// Does something with a job that this session holds, or that it held once, or that is another's.
    fn end_one(&mut self, who: usize) {
        let view = self.model.view(who);
        let me = format!("w{who}");
        let held: Vec<(String, String)> = view
            .jobs
            .iter()
            .filter_map(|(id, job)| Some((id.clone(), job.lease.as_ref()?)))
            .filter(|(_, lease)| lease.owner == me)
            .map(|(id, lease)| (id, lease.token.clone()))
            .collect();
        let known: Vec<_> = self.claims.iter().filter(|(id, _)| view.jobs.contains_key(id)).cloned().collect();
        let from = if self.dice.below(8) > 0 { held } else { known };
        let Some((job, token)) = self.dice.any_of(&from).cloned() else { return self.claim(who) };
        match self.dice.below(11) {
            0..2 => self.ack(who, &job, &token),
            2 | 10 => self.ack_and_claim(who, &job, &token),
            3..6 => self.fail(who, &job, &token),
            6 => self.settle(who, &job, &token, "release", "", |queue, id, holder| queue.release(id, holder)),
            7 => self.settle(who, &job, &token, "start", "", |queue, id, holder| queue.start(id, holder)),
            8 => {
                let now = self.clock;
                let seconds = [PERIOD, 3 * PERIOD][self.dice.below(2)];
                let more = format!("{seconds}, NULL, ");
                self.settle(who, &job, &token, "heartbeat", &more, |queue, id, holder| {
                    queue.extend(id, holder, seconds, now)
                });
            }
            // Left alone until its lease expires.
            _ => {}
        }
    }

    pub fn ack(&mut self, who: usize, job: &str, token: &str) {
        self.settle(who, job, token, "ack", "NULL, ", |queue, id, holder| queue.ack(id, holder));
    }

    fn fail(&mut self, who: usize, job: &str, token: &str) {
        let class = ["timeout", "timeout", "timeout", "validation_error", "poison_task"][self.dice.below(5)];
        let (verdict, name) = match self.dice.below(6) {
            0 => (Verdict::Cancel, "cancel"),
            1 => (Verdict::Discard, "discard"),
            _ => (Verdict::Fail, "fail"),
        };
        let after = [None, Some(0), Some(3 * PERIOD)][self.dice.below(3)];
        let failed = Failed { class, verdict, retry_after: after.map(|seconds| seconds as f64) };
        let after = after.map_or("NULL".to_owned(), |seconds| format!("'{seconds} s'"));
        let call = format!("fn_job_fail_or_retry('{job}', 'w{who}', 'boom', '{class}', '{token}', {after}, '{name}')");
        let now = self.clock;
        self.judge(who, job, token, &call, |queue, id, holder| queue.fail(id, holder, failed, now));
    }

    fn settle(
        &mut self,
        who: usize,
        job: &str,
        token: &str,
        what: &str,
        more: &str,
        model: impl FnOnce(&mut Queue, &str, Holder<'_>) -> &'static str,
    ) {
        let call = format!("fn_job_{what}('{job}', 'w{who}', {more}'{token}')");
        self.judge(who, job, token, &call, model);
    }

    /// Makes a call about a held job. Only another's open transaction at the very job may be in its way.
    fn judge(
        &mut self,
        who: usize,
        job: &str,
        token: &str,
        call: &str,
        model: impl FnOnce(&mut Queue, &str, Holder<'_>) -> &'static str,
    ) {
        let Some(answer) = self.call(who, call) else {
            return assert!(self.is_line_locked(who, job), "{call} waits for nobody at {job}");
        };
        let holder = Holder { owner: &format!("w{who}"), token };
        let code = self.model.act(who, |queue| model(queue, job, holder));
        assert_eq!(answer["code"], code, "{call}: {answer}");
        if code != LEASE_LOST && code != ALREADY_FINISHED {
            self.model.touch(who, job);
        }
        let now = &self.model.view(who).jobs[job];
        let attempts = answer["attempts"].as_i64();
        assert!(attempts.is_none_or(|attempts| attempts == i64::from(now.attempts)), "{call}: {answer}");
        let reason = answer["reason"].as_str();
        let expected = now.letter.as_ref().map(|letter| letter.reason.name());
        assert!(reason.is_none() || reason == expected, "{call}: {answer}");
    }

    /// A job that this session sees: one that has ended, is held, or rests.
    fn any_job(&mut self, who: usize) -> Option<String> {
        let which = self.dice.below(5);
        let fits = |job: &Job| match which {
            0 => job.state.is_finished(),
            1 | 2 => job.lease.is_some(),
            _ => job.is_resting(),
        };
        let jobs = self.model.view(who).jobs;
        let jobs: Vec<String> = jobs.into_iter().filter(|(_, job)| fits(job)).map(|(id, _)| id).collect();
        self.dice.any_of(&jobs).cloned()
    }

    fn cancel(&mut self, who: usize) {
        let Some(job) = self.any_job(who) else { return };
        let call = format!("fn_job_cancel('{job}', 'not needed')");
        let Some(answer) = self.call(who, &call) else { return };
        let code = self.model.act(who, |queue| queue.cancel(&job));
        assert_eq!(answer["code"], code, "{call}: {answer}");
        if code == "cancel_requested" {
            self.model.touch(who, &job);
        }
        assert_eq!(answer["state"], self.model.view(who).jobs[&job].state.name(), "{call}: {answer}");
    }

    fn move_to_dead_letter(&mut self, who: usize) {
        let Some(job) = self.any_job(who) else { return };
        let call = format!("fn_job_move_to_dead_letter('{job}', 'hopeless')");
        let Some(answer) = self.call(who, &call) else { return };
        let code = self.model.act(who, |queue| queue.move_to_dead_letter(&job));
        assert_eq!(answer["code"], code, "{call}: {answer}");
    }

    /// Whether another transaction is at this job, or at one of the same line: the end of a job that was made of a letter
    /// changes the letter.
    fn is_line_locked(&mut self, who: usize, job: &str) -> bool {
        let jobs = self.model.view(who).jobs;
        let first = |mut id: String| {
            while let Some(of) = jobs.get(&id).and_then(|job| job.replay_of.clone()) {
                id = of;
            }
            id
        };
        let line = first(job.to_owned());
        jobs.keys().any(|id| first(id.clone()) == line && self.model.is_locked(who, id))
    }

    fn redrive(&mut self, who: usize) {
        let jobs = self.model.view(who).jobs;
        let dead: Vec<String> = jobs.into_iter().filter(|(_, job)| job.letter.is_some()).map(|(id, _)| id).collect();
        let Some(job) = self.dice.any_of(&dead).cloned() else { return };
        let letter = format!("SELECT dead_letter_id FROM agentq.job_dead_letter WHERE job_id = '{job}'");
        let letter = self.sessions[who].text(&letter);
        let again = self.dice.below(4) == 0;
        let call = format!("fn_dead_letter_redrive('{letter}', p_options => '{{\"again\": {again}}}')");
        let Some(answer) = self.call(who, &call) else {
            return assert!(self.is_line_locked(who, &job), "{call} waits for nobody at {job}");
        };
        let code = self.model.act(who, |queue| queue.redrive(&job, &id(&answer), again));
        assert_eq!(answer["code"], code, "{call}: {answer}");
        if code == "redriven" {
            assert_eq!(text(&answer, "replay_of"), job, "{call}: {answer}");
        }
        self.model.touch(who, &job);
    }

    /// Time passes, and the expired leases that nobody else is at are recovered.
    fn expire(&mut self, who: usize) {
        self.clock += 2 * PERIOD;
        if self.dice.below(2) == 0 {
            return;
        }
        let Some(answer) = self.call(who, "fn_engine_tick('reap_leases')") else { return };
        assert_eq!(answer["ok"], true, "{answer}");
        self.learn_expired(who);
        self.check_nothing_has_expired(who, usize::MAX);
    }
}
