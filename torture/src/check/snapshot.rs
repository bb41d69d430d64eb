//! What the database has, all of it at one instant.

use crate::ledger::Micros;
use postgres::{Client, Error, IsolationLevel};
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct Job {
    pub kind: String,
    pub key: String,
    pub state: String,
    pub attempts: i32,
    pub created: Micros,
    pub finished: Option<Micros>,
}

#[derive(Clone, Debug)]
pub struct Attempt {
    pub number: i32,
    pub token: Uuid,
    pub owner: String,
    pub began: Micros,
    pub ended: Option<Micros>,
    pub outcome: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub jobs: HashMap<Uuid, Job>,
    /// Jobs that the view shows more than once.
    pub shown_twice: Vec<Uuid>,
    /// By job, in the order of their numbers.
    pub attempts: HashMap<Uuid, Vec<Attempt>>,
    pub letters: HashSet<Uuid>,
    /// Job and token of every row that a worker has written beside its ack.
    pub own_rows: Vec<(Uuid, Uuid)>,
    /// Key and status.
    pub missions: HashMap<Uuid, (Option<String>, String)>,
    /// What agentq's own check finds.
    pub unsound: Vec<String>,
}

const MICROS: &str = "(extract(epoch FROM X) * 1000000)::bigint";

impl Snapshot {
    pub fn read(client: &mut Client) -> Result<Snapshot, Error> {
        let mut found = Snapshot::default();
        let mut tx =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start()?;
        let jobs = format!(
            "SELECT job_id, job_kind, idempotency_key, state, attempts, {}, {} FROM agentq.job_queue",
            MICROS.replace('X', "created_at"),
            MICROS.replace('X', "finished_at")
        );
        for row in tx.query(&jobs, &[])? {
            let job = Job {
                kind: row.get(1),
                key: row.get(2),
                state: row.get(3),
                attempts: row.get(4),
                created: row.get(5),
                finished: row.get(6),
            };
            if found.jobs.insert(row.get(0), job).is_some() {
                found.shown_twice.push(row.get(0));
            }
        }
        let attempts = format!(
            "SELECT a.job_id, a.attempt_no::int, t.lease_token, a.lease_owner, {}, {}, a.outcome
             FROM agentq.job_attempt a
             LEFT JOIN (SELECT job_id, lease_token FROM agentq_internal.job_attempt_log
                        UNION ALL SELECT job_id, lease_token FROM agentq_internal.job_done WHERE lease_token IS NOT NULL
                        UNION ALL SELECT job_id, lease_token FROM agentq_internal.job_lease) t
                 ON t.job_id = a.job_id AND agentq.fn_attempt_id(t.lease_token) = a.attempt_id
             ORDER BY a.job_id, a.attempt_no",
            MICROS.replace('X', "a.began_at"),
            MICROS.replace('X', "a.ended_at")
        );
        for row in tx.query(&attempts, &[])? {
            found.attempts.entry(row.get(0)).or_default().push(Attempt {
                number: row.get(1),
                token: row.get(2),
                owner: row.get(3),
                began: row.get(4),
                ended: row.get(5),
                outcome: row.get(6),
            });
        }
        for row in tx.query("SELECT job_id FROM agentq.job_dead_letter", &[])? {
            found.letters.insert(row.get(0));
        }
        for row in tx.query("SELECT job, token FROM torture.own_row", &[])? {
            found.own_rows.push((row.get(0), row.get(1)));
        }
        for row in tx.query("SELECT mission_id, idempotency_key, status FROM agentq.v_mission", &[])? {
            found.missions.insert(row.get(0), (row.get(1), row.get(2)));
        }
        for row in tx.query("SELECT problem || ' ' || job_id FROM agentq.fn_queue_verify()", &[])? {
            found.unsound.push(row.get(0));
        }
        tx.commit()?;
        Ok(found)
    }

    /// The attempt with this token.
    pub fn attempt(&self, job: Uuid, token: Uuid) -> Option<&Attempt> {
        self.attempts.get(&job)?.iter().find(|attempt| attempt.token == token)
    }
}
