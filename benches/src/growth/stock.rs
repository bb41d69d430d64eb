//! What lies in a queue before a level of a growth curve is measured. It is brought in as clients
//! would bring it, in batches of 1,000, and each stock is made once and then copied.

use crate::Failure;
use crate::cluster::Cluster;
use crate::payload::{self, array, payload};
use crate::systems::{AGENTQ, System, TEXTBOOK};
use postgres::Client;

const BATCH: u32 = 1_000;
/// Connections that load at the same time.
const LOADERS: u32 = 2;
/// That of a job whose enqueue does not say, so that such a job comes last among the best.
const BEST_PRIORITY: u32 = 100;
/// When jobs of the future are due.
const FAR_AWAY: &str = "2099-01-01T00:00:00Z";

/// Jobs, by where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stock {
    pub ready: u32,
    /// Kinds and priorities that the ready jobs are spread over.
    pub kinds: u32,
    pub priorities: u32,
    pub payload_bytes: usize,
    /// Due when nobody runs this any more.
    pub future: u32,
    pub finished: u32,
    /// Held by workers that take their time.
    pub leased: u32,
    /// Ready rows that were deleted, but that an old snapshot could still see.
    pub dead: u32,
}

/// So many ready jobs of one kind and priority, and nothing else.
pub const fn ready(ready: u32) -> Stock {
    Stock {
        ready,
        kinds: 1,
        priorities: 1,
        payload_bytes: payload::ORDINARY,
        future: 0,
        finished: 0,
        leased: 0,
        dead: 0,
    }
}

impl Stock {
    /// The database that holds it.
    pub fn database(&self, system: &System) -> String {
        let numbers = [self.ready, self.kinds, self.priorities, self.payload_bytes as u32];
        let others = [self.future, self.finished, self.leased];
        let numbers: Vec<String> = numbers.iter().chain(&others).map(u32::to_string).collect();
        format!("{}, {}", system.name, numbers.join("-"))
    }

    /// Brings it into an empty queue.
    pub fn load(&self, cluster: &Cluster, system: &System, database: &str) -> Result<(), Failure> {
        let mut client = cluster.client(database)?;
        self.enqueue(cluster, system, database, self.finished, "")?;
        while let Some(held) = claim(&mut client, self.finished, 300)? {
            client.execute("SELECT agentq.fn_job_ack_batch('w', $1::text::jsonb)", &[&held])?;
        }
        self.enqueue(cluster, system, database, self.leased, "")?;
        while claim(&mut client, self.leased, 86_400)?.is_some() {}
        self.enqueue(cluster, system, database, self.future, &format!(", \"scheduled_at\": \"{FAR_AWAY}\""))?;
        self.enqueue(cluster, system, database, self.ready, "")
    }

    /// Lays dead rows before the ready ones, and returns the connection whose snapshot vacuum has to
    /// spare them for. In the database itself: a copy would not know of the snapshot.
    pub fn lay_dead(&self, cluster: &Cluster, database: &str) -> Result<Option<Client>, Failure> {
        if self.dead == 0 {
            return Ok(None);
        }
        let mut holder = cluster.client(database)?;
        holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")?;
        let lay = "INSERT INTO agentq_internal.job_ready (scheduled_at, queue_id, any_queue_id, priority, job_id, keyed, job_kind)
                   SELECT to_timestamp(n / 1e6), 1, 1, 100, gen_random_uuid(), false, 'k' FROM generate_series(1, $1::bigint) n";
        let mut client = cluster.client(database)?;
        client.execute(lay, &[&i64::from(self.dead)])?;
        client.execute("DELETE FROM agentq_internal.job_ready WHERE scheduled_at < '2000-01-01'", &[])?;
        Ok(Some(holder))
    }

    /// Enqueues so many jobs; `more` is added to each.
    fn enqueue(
        &self,
        cluster: &Cluster,
        system: &System,
        database: &str,
        jobs: u32,
        more: &str,
    ) -> Result<(), Failure> {
        let call = match system.name.as_str() {
            AGENTQ => "SELECT agentq.fn_job_enqueue_batch($1::text::jsonb)",
            TEXTBOOK => {
                "INSERT INTO jobs (kind, payload) SELECT 'k', job->'payload_json' FROM jsonb_array_elements($1::text::jsonb) job"
            }
            other => return Err(format!("{other} has no growth curve").into()),
        };
        let batches = |loader: u32| (0..jobs.div_ceil(BATCH)).filter(move |batch| batch % LOADERS == loader);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for loader in 0..LOADERS {
                let mut client = cluster.client(database)?;
                threads.push(scope.spawn(move || -> Result<(), postgres::Error> {
                    for batch in batches(loader) {
                        let last = jobs.min((batch + 1) * BATCH);
                        let jobs = array((batch * BATCH..last).map(|number| self.job(number, more)));
                        client.execute(call, &[&jobs])?;
                    }
                    Ok(())
                }));
            }
            for thread in threads {
                thread.join().map_err(|_| "a loader panicked")??;
            }
            Ok(())
        })
    }

    /// One job of a batch. The kind that gets claimed is "k".
    fn job(&self, number: u32, more: &str) -> String {
        let kind = match number % self.kinds {
            0 => "k".to_owned(),
            other => format!("k{other}"),
        };
        let priority = BEST_PRIORITY + number / self.kinds % self.priorities;
        let payload = payload(number, self.payload_bytes);
        format!("{{\"job_kind\": \"{kind}\", \"priority\": {priority}, \"payload_json\": {payload}{more}}}")
    }
}

/// Claims a batch of what there is and returns what an ack wants to know of it; None: nothing is left,
/// or nothing was there in the first place.
fn claim(client: &mut Client, there: u32, seconds: i32) -> Result<Option<String>, Failure> {
    if there == 0 {
        return Ok(None);
    }
    let sql = "SELECT (SELECT jsonb_agg(jsonb_build_object('job_id', a->'job_id', 'lease_token', a->'lease_token'))::text \
               FROM jsonb_array_elements(j->'jobs') a) \
               FROM (SELECT agentq.fn_job_claim_batch('w', $1, p_lease_seconds => $2) AS j OFFSET 0) claim";
    Ok(client.query_one(sql, &[&(BATCH as i32), &seconds])?.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_gets_jobs_of_every_priority() {
        let stock = Stock { kinds: 2, priorities: 3, ..ready(6) };
        let jobs: Vec<String> = (0..6).map(|number| stock.job(number, "")).collect();
        for kind in ["\"k\"", "\"k1\""] {
            for priority in 100..103 {
                let start = format!("{{\"job_kind\": {kind}, \"priority\": {priority}, ");
                assert_eq!(jobs.iter().filter(|job| job.starts_with(&start)).count(), 1, "{start}");
            }
        }
    }
}
