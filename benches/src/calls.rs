//! Single calls over real connections, for what pgbench cannot measure: the time of one claim, and
//! the way of one job from its producer to its consumer.

use crate::Failure;
use crate::cluster::Cluster;
use crate::systems::{AGENTQ, NAIVE, System, TEXTBOOK};
use postgres::{Client, Statement};

/// What a system is told. Every statement commits by itself.
struct Sql {
    /// Takes a payload, answers with the job's id.
    enqueue: &'static str,
    /// Answers with id, token and payload of a job: all NULL, or no row, when there is none.
    claim: &'static str,
    /// Takes id and token.
    ack: &'static str,
}

/// A claim that answers in JSON, taken apart by the server; OFFSET 0 keeps it to one call.
macro_rules! claim {
    ($call:literal) => {
        concat!(
            "SELECT j->>'job_id', j->>'lease_token', j->>'payload_json' FROM (SELECT ",
            $call,
            " AS j OFFSET 0) claim"
        )
    };
}

/// How agentq is asked for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    OneKind,
    AnyKind,
    /// Inside the server, for up to a second, if there is none.
    Waiting,
}

fn sql(system: &System, claiming: Claiming) -> Result<Sql, Failure> {
    match system.name.as_str() {
        AGENTQ => Ok(Sql {
            enqueue: "SELECT agentq.fn_job_enqueue('k', p_payload_json => $1::text::jsonb)->>'job_id'",
            claim: match claiming {
                Claiming::OneKind => claim!("agentq.fn_job_claim('w', 'k')"),
                Claiming::AnyKind => claim!("agentq.fn_job_claim('w')"),
                Claiming::Waiting => claim!("agentq.fn_job_claim('w', 'k', p_wait => '1 s')"),
            },
            ack: "SELECT agentq.fn_job_ack($1::text::uuid, 'w', p_lease_token => $2::text::uuid)",
        }),
        NAIVE => Ok(Sql {
            enqueue: "SELECT fn_job_enqueue('k', p_payload_json => $1::text::jsonb)->>'job_id'",
            claim: claim!("fn_job_claim('w', 'k')"),
            ack: "SELECT fn_job_ack($1::text::uuid, 'w') WHERE $2::text IS NULL",
        }),
        TEXTBOOK => Ok(Sql {
            enqueue: "INSERT INTO jobs (kind, payload) VALUES ('k', $1::text::jsonb) RETURNING id::text",
            claim: "UPDATE jobs SET state = 'running', locked_at = now() \
                    WHERE id = (SELECT id FROM jobs WHERE state = 'queued' AND run_at <= now() \
                                ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) \
                    RETURNING id::text, NULL::text, payload::text",
            ack: "UPDATE jobs SET state = 'done', done_at = now() \
                  WHERE id = $1::text::bigint AND state = 'running' AND $2::text IS NULL",
        }),
        other => Err(format!("no single calls are known for {other}").into()),
    }
}

/// A job in hand.
pub struct Held {
    pub id: String,
    token: Option<String>,
}

/// A connection with its statements prepared.
pub struct Calls {
    client: Client,
    enqueue: Statement,
    claim: Statement,
    ack: Statement,
}

impl Calls {
    pub fn connect(cluster: &Cluster, database: &str, system: &System, claiming: Claiming) -> Result<Calls, Failure> {
        let sql = sql(system, claiming)?;
        let mut client = cluster.client(database)?;
        let [enqueue, claim, ack] = [sql.enqueue, sql.claim, sql.ack].map(|text| client.prepare(text));
        Ok(Calls { client, enqueue: enqueue?, claim: claim?, ack: ack? })
    }

    /// Enqueues a job and returns its id.
    pub fn enqueue(&mut self, payload: &str) -> Result<String, postgres::Error> {
        Ok(self.client.query_one(&self.enqueue, &[&payload])?.get(0))
    }

    pub fn claim(&mut self) -> Result<Option<Held>, postgres::Error> {
        let row = self.client.query_opt(&self.claim, &[])?;
        Ok(row.and_then(|row| Some(Held { id: row.get::<_, Option<String>>(0)?, token: row.get(1) })))
    }

    pub fn ack(&mut self, held: &Held) -> Result<(), postgres::Error> {
        self.client.execute(&self.ack, &[&held.id, &held.token])?;
        Ok(())
    }
}
