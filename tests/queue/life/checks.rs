//! What must hold of the server, as the model has it.
//!
//! That a claim answers `empty` is held against the model as well, but for expired leases behind more than it looks at
//! that other transactions have locked (`check_nothing_has_expired`).

use super::calls::Wish;
use super::{World, is_preloaded};
use agentq_core::life::{Job, Worker};
use agentq_core::limits::Rules;
use agentq_tests::Session;

/// Keys whose slots are counted.
const KEYS: [&str; 13] = [
    "global",
    "kind:a",
    "kind:b",
    "provider:x",
    "tenant:1",
    "tenant:2",
    "tenant:3",
    "worker:crew:w0",
    "worker:crew:w1",
    "worker:crew:w2",
    "worker:crew:w3",
    "worker:crew:w4",
    "worker_type:crew",
];

/// Expired leases of others that a claim passes over.
const LOOKS_AT: usize = 64;

/// Every job: its state, attempts, lease, lineage and letter.
const JOBS: &str = "SELECT concat_ws(' ', q.job_id, q.job_kind, q.state, q.attempts, q.max_attempts,
        'held by', coalesce(q.lease_owner, '-'), coalesce(l.lease_token::text, '-'), l.cancel_reason IS NOT NULL,
        'made of', coalesce(j.replay_of::text, '-'), 'letter', coalesce(d.reason, '-'), coalesce(d.redriven_as::text, '-'))
    FROM agentq.job_queue q JOIN agentq_internal.job j USING (job_id)
    LEFT JOIN agentq_internal.job_lease l USING (job_id) LEFT JOIN agentq.job_dead_letter d USING (job_id)
    ORDER BY q.job_id";

/// Jobs whose attempts are not those that failed or expired, or that succeeded more than once, or not at all.
const MISCOUNTED: &str = "agentq.job_queue q WHERE (q.attempts, q.state = 'succeeded') <>
    (SELECT count(*) FILTER (WHERE a.outcome IN ('failed', 'lease_expired')), count(*) FILTER (WHERE a.outcome = 'succeeded') = 1
     FROM agentq.job_attempt a WHERE a.job_id = q.job_id)";
/// Dead letters of jobs that were not given up, and jobs that were given up without one.
const UNLETTERED: &str = "agentq.job_queue q FULL JOIN agentq.job_dead_letter d USING (job_id)
    WHERE (q.state IS NOT DISTINCT FROM CASE WHEN d.reason = 'cancelled' THEN 'cancelled' ELSE 'dead_letter' END) <> (d.job_id IS NOT NULL)";
/// Jobs that were made of a letter which knows nothing of it, and letters that became a job which is not there.
const UNRELATED: &str = "agentq_internal.job j FULL JOIN agentq.job_dead_letter d ON d.job_id = j.replay_of
    WHERE (j.job_id IS NULL) <> (d.redriven_as IS NULL) AND (j.replay_of IS NOT NULL OR d.job_id IS NOT NULL)";

/// The line that the model has for it.
fn line(id: &str, job: &Job) -> String {
    let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let (lease, letter) = (job.lease.as_ref(), job.letter.as_ref());
    format!(
        "{id} {} {} {} {} held by {} {} {} made of {} letter {} {}",
        job.kind,
        job.state.name(),
        job.attempts,
        job.max_attempts,
        or_none(lease.map(|lease| lease.owner.as_str())),
        or_none(lease.map(|lease| lease.token.as_str())),
        if lease.is_some_and(|lease| lease.cancel_requested) { "t" } else { "f" },
        or_none(job.replay_of.as_deref()),
        or_none(letter.map(|letter| letter.reason.name())),
        or_none(letter.and_then(|letter| letter.redriven_as.as_deref())),
    )
}

fn list(ids: &[String]) -> String {
    format!("'{{{}}}'::uuid[]", ids.join(","))
}

impl World {
    /// What has committed is what the model says: every job, and the slots of every key.
    pub fn check(&mut self) {
        let expected: Vec<String> = self.model.committed().jobs.iter().map(|(id, job)| line(id, job)).collect();
        let found = self.observer.texts(JOBS);
        let wrong: Vec<&String> = found.iter().filter(|line| !expected.contains(line)).collect();
        let missing: Vec<&String> = expected.iter().filter(|line| !found.contains(line)).collect();
        assert!(wrong.is_empty() && missing.is_empty(), "the server has {wrong:#?}\nthe model has {missing:#?}");
        self.check_slots();
    }

    /// Leases, shared memory and the model count the same slots, and no limit is passed.
    fn check_slots(&mut self) {
        let sql = format!(
            "SELECT concat_ws(' ', k, coalesce(v.active, 0), agentq_internal.fn_limit_counted(k))
             FROM unnest('{{{}}}'::text[]) WITH ORDINALITY AS u (k, n) LEFT JOIN agentq.v_limit v ON v.limit_key = k ORDER BY n",
            KEYS.join(",")
        );
        let model = &self.model;
        let counted = |key| if self.preloaded { format!(" {}", model.counted(key)) } else { String::new() };
        let expected = KEYS.map(|key| format!("{key} {}{}", model.committed().held(key), counted(key)));
        assert_eq!(self.observer.texts(&sql), expected, "slots: key, held by leases, counted");
        let rules: &Rules = &model.committed().terms.rules;
        for key in KEYS {
            assert!(rules.slots(key).is_none_or(|most| model.counted(key) <= most), "the limit of {key} is passed");
        }
    }

    /// Which leases a call of this session has recovered is for the server to say; what became of them is not.
    /// Returns how many there were.
    pub fn learn_expired(&mut self, who: usize) -> usize {
        let now = self.clock;
        let view = self.model.view(who);
        let expired = view.jobs.into_iter().filter(|(id, job)| job.has_expired(now) && !self.model.is_locked(who, id));
        let expired: Vec<(String, String)> = expired.filter_map(|(id, job)| Some((id, job.lease?.token))).collect();
        if expired.is_empty() {
            return 0;
        }
        let ids: Vec<String> = expired.iter().map(|(id, _)| id.clone()).collect();
        let left = format!("SELECT lease_token FROM agentq_internal.job_lease WHERE job_id = ANY ({})", list(&ids));
        let left = self.sessions[who].texts(&left);
        let gone: Vec<&String> = expired.iter().filter(|(_, token)| !left.contains(token)).map(|(id, _)| id).collect();
        for id in &gone {
            let code = self.model.act(who, |queue| queue.expire(id, now));
            self.story.tell(format!("  {id} has expired: {}", code.unwrap_or_default()));
        }
        gone.len()
    }

    /// Those of these jobs whose row in these tables no other session has locked.
    fn unlocked(&mut self, who: usize, tables: &[&str], ids: &[String]) -> Vec<String> {
        if ids.is_empty() {
            return Vec::new();
        }
        let is_open = self.model.is_open(who);
        let session = &mut self.sessions[who];
        session.run(if is_open { "SAVEPOINT look" } else { "BEGIN" });
        let rows = |table: &&str| {
            format!(
                "SELECT concat_ws(' ', '{table}', job_id, ctid) FROM agentq_internal.{table} WHERE job_id = ANY ({}) FOR UPDATE SKIP LOCKED",
                list(ids)
            )
        };
        let found = tables.iter().map(rows).flat_map(|sql| session.texts(&sql)).collect();
        session.run(if is_open { "ROLLBACK TO look; RELEASE look" } else { "ROLLBACK" });
        found
    }

    /// A claim that finds nothing is right only if all that might be claimed is in the hands of other transactions.
    pub fn check_nothing_was_there(&mut self, who: usize, wish: &Wish, worker: &Worker) {
        let (view, now) = (self.model.view(who), self.clock);
        let fits = |id: &&String| wish.kind.is_none_or(|kind| view.jobs[*id].kind == kind);
        let free = |id: &&String| !self.model.is_locked(who, id);
        let there = view.jobs.keys().filter(fits).filter(free).filter(|id| view.may_claim(id, worker, now));
        let there: Vec<String> = there.cloned().collect();
        let passed_over = self.unlocked(who, &["job_ready", "job_waiting", "job_line"], &there);
        assert!(passed_over.is_empty(), "the claim answers empty, but these may be claimed: {passed_over:?}");
        self.check_nothing_has_expired(who, LOOKS_AT);
    }

    /// Expired leases have been recovered, unless all that the call looks at were in the hands of others.
    pub fn check_nothing_has_expired(&mut self, who: usize, looks_at: usize) {
        let (view, now) = (self.model.view(who), self.clock);
        let expired = view.jobs.iter().filter(|(_, job)| job.has_expired(now)).map(|(id, _)| id.clone());
        let (locked, free): (Vec<String>, Vec<String>) = expired.partition(|id| self.model.is_locked(who, id));
        if locked.len() >= looks_at {
            return;
        }
        let left = self.unlocked(who, &["job_lease"], &free);
        assert!(left.is_empty(), "these leases have expired, and nobody has recovered them: {left:?}");
    }

    pub fn check_drained(&mut self) {
        let jobs = &self.model.committed().jobs;
        let (count, redriven) = (jobs.len(), jobs.values().filter(|job| job.replay_of.is_some()).count());
        assert!(count > 40 && redriven > 3, "a mild walk: {count} jobs, {redriven} of them redriven");
        assert_drained(&mut self.observer, count as i64);
    }
}

/// Nothing is left over: every job that was made is there and has ended, with as many attempts and letters as that
/// takes, and all slots are free.
pub fn assert_drained(s: &mut Session, made: i64) {
    let ended = ["succeeded", "failed", "dead_letter", "cancelled"];
    let ended = ended.map(|state| s.count(&format!("agentq.job_queue WHERE state = '{state}'")));
    assert_eq!((ended.iter().sum::<i64>(), s.count("agentq_internal.job")), (made, made), "{ended:?}");
    for (none, what) in [
        ("agentq_internal.job_ready", "ready"),
        ("agentq_internal.job_waiting", "waiting"),
        ("agentq_internal.job_line", "blocked"),
        ("agentq_internal.job_lease", "held"),
        ("agentq.v_limit WHERE active <> 0 OR counted <> 0 OR blocked <> 0", "slots in use"),
        ("agentq.job_queue WHERE attempts > max_attempts", "attempts beyond the last"),
        (MISCOUNTED, "attempts that do not add up"),
        (UNLETTERED, "dead letters without a job that was given up, or the other way round"),
        (UNRELATED, "jobs that were made of no letter, or letters that became no job"),
    ] {
        assert_eq!(s.count(none), 0, "{what}");
    }
    let none = if is_preloaded(s) { "0" } else { "NULL" };
    let keys = s.texts("SELECT DISTINCT unnest(limit_keys) FROM agentq_internal.job");
    for key in keys.iter().map(String::as_str).chain(KEYS) {
        assert_eq!(
            s.text(&format!("SELECT agentq_internal.fn_limit_counted('{key}')")),
            none,
            "a slot of {key} has leaked"
        );
    }
}
