//! Acks: the lease goes, the job is done. Fenced by owner and token.

use super::{hooks, telling};
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::{self, parse_id};
use crate::base::settings::PAYLOAD_MAX_BYTES;
use crate::db;
use crate::error::{OrRaise, required, run_again};
use crate::json::{self, Jsonb};
use crate::queue::answer::{Lost, LostLease};
use crate::queue::capacity::{budgets, limits};
use crate::queue::counting::count_first;
use crate::queue::rows::{job, job_done, job_key, job_lease};
use crate::queue::rules::Rulebook;
use crate::queue::storage::order;
use crate::queue::waking::ends;
use crate::queue::{answer, batch_list};
use crate::server::has_fixed_snapshot;
use crate::table::{self, Deleted, Key, Moment, Row, Scan, Table};
use agentq_core::context::Context;
use agentq_core::jsonb::{Container, Item};
use agentq_core::reader::Reader;
use agentq_core::{Refusal, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::RefCell;

/// One ack that a worker hands in.
struct Ack {
    job_id: Uuid,
    token: Option<Uuid>,
    result: Option<Jsonb>,
}

/// What became of a lease.
enum LeaseEnd {
    /// It is gone; this row is to be written.
    Now(Row),
    /// It is another's, or nobody's.
    Lost,
    /// Another session has changed it meanwhile.
    Changed,
}

/// The tables of an ack.
struct Acking<'a> {
    owner: &'a str,
    now: Micros,
    leases: Table,
    done: Table,
    /// Jobs that were at the head of their ordering key, with queue and key.
    heads: RefCell<Vec<(i32, String, Uuid)>>,
    /// Rows that say what was used of budgets.
    spent: RefCell<Vec<Row>>,
    /// Which hook is to be told of which end.
    told: RefCell<Vec<(String, hooks::Ended)>>,
}

#[pg_extern(security_definer)]
fn fn_job_ack(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_result: default!(Option<Jsonb>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    answer::if_on(|rules| {
        bounded!(fn_job_ack: p_lease_owner, p_result);
        let owner = required("p_lease_owner", p_lease_owner);
        one(rules, required("p_job_id", p_job_id), owner, p_result, p_lease_token)
    })
}

/// Acks one job, and says how that went.
pub fn one(rules: &Rulebook, job_id: Uuid, owner: &str, result: Option<Jsonb>, token: Option<Uuid>) -> Jsonb {
    if let Some(result) = result {
        check_size("p_result", result, rules).or_raise();
    }
    table::must_write(c"fn_job_ack()");
    let acking = Acking::by(owner);
    if !acking.end_all(&[Ack { job_id, token, result }])[0] {
        return db::answer(|db| answer::lease_lost(db, job_id, Some(owner), token));
    }
    Jsonb::from_container(&json::object(&mut [
        ("ok", true.into()),
        ("code", "succeeded".into()),
        ("state", "succeeded".into()),
        ("job_id", ids::text(job_id).item()),
        ("finished_at", json::moment(acking.now).item()),
    ]))
}

/// Acks one job, for a holder inside the server. False: it does not hold it.
pub fn by(owner: &str, job_id: Uuid, token: Uuid, result: Option<Jsonb>) -> bool {
    let rules = Rulebook::current();
    if let Some(result) = result {
        check_size("the result of the handler", result, &rules).or_raise();
    }
    Acking::by(owner).end_all(&[Ack { job_id, token: Some(token), result }])[0]
}

#[pg_extern(security_definer)]
fn fn_job_ack_batch(p_lease_owner: Option<&str>, p_jobs: Option<Jsonb>) -> Jsonb {
    bounded!(fn_job_ack_batch: p_lease_owner, p_jobs);
    answer::if_on(|rules| many(rules, required("p_lease_owner", p_lease_owner), required("p_jobs", p_jobs)))
}

/// Acks a list of jobs, and says of each how that went.
pub fn many(rules: &Rulebook, owner: &str, jobs: Jsonb) -> Jsonb {
    let items = batch_list::checked("p_jobs", jobs, EXAMPLE).container().elements().enumerate();
    let mut acks: Vec<Ack> = items.map(|(index, item)| read(index, item, rules).or_raise()).collect();
    // In order of their ids, so that two batches with the same jobs cannot wait for each other.
    acks.sort_by_key(|ack| *ack.job_id.as_bytes());
    acks.dedup_by_key(|ack| ack.job_id);
    table::must_write(c"fn_job_ack_batch()");
    let ended = Acking::by(owner).end_all(&acks);
    report(owner, &acks, &ended)
}

const EXAMPLE: &str = "[\"<job id>\", {\"job_id\": \"…\", \"lease_token\": \"…\", \"result\": {}}]";

fn report(owner: &str, acks: &[Ack], ended: &[bool]) -> Jsonb {
    let why_not = |ack: &Ack| match db::connect(|db| answer::why_lost(db, ack.job_id, Some(owner), ack.token)) {
        None => "unknown_job",
        Some(LostLease { lost: Lost::OwnEnd, .. }) => "already_finished",
        Some(_) => "lease_lost",
    };
    let each = acks.iter().zip(ended).map(|(ack, ended)| {
        let code = if *ended { "succeeded" } else { why_not(ack) };
        json::object(&mut [("code", code.into()), ("job_id", ids::text(ack.job_id).item())])
    });
    let each: Vec<Vec<u8>> = each.collect();
    let acked = ended.iter().filter(|ended| **ended).count();
    Jsonb::from_container(&json::object(&mut [
        ("ok", true.into()),
        ("code", "acked".into()),
        ("jobs", Item::Container(&json::array(each.iter().map(|job| Item::Container(job))))),
        ("acked", (acked as i64).into()),
        ("lease_lost", ((ended.len() - acked) as i64).into()),
    ]))
}

fn check_size(what: &str, result: Jsonb, rules: &Rulebook) -> Result<(), Refusal> {
    if result.size() as i64 > rules.payload_max_bytes {
        let (size, most) = (result.size(), rules.payload_max_bytes);
        return Err(payload::refuse_too_large(what, size, most, PAYLOAD_MAX_BYTES));
    }
    Ok(())
}

/// Reads one item of a batch: an id, or an object with an id.
fn read(index: usize, item: Item<'_>, rules: &Rulebook) -> Result<Ack, Refusal> {
    let id = |item: Item<'_>| match item {
        Item::Text(text) => std::str::from_utf8(text).ok().and_then(parse_id),
        _ => None,
    };
    let object = match item {
        Item::Container(bytes) if Container::new(bytes).is_object() => Container::new(bytes),
        item => {
            let job_id = id(item).ok_or_else(|| no_id(Reader::at(format!("p_jobs[{index}]"), item)))?;
            return Ok(Ack { job_id, token: None, result: None });
        }
    };
    let (mut job, mut token, mut result, mut unknown) = (Item::Null, Item::Null, None, false);
    for (key, value) in object.members() {
        match key {
            b"job_id" => job = value,
            b"lease_token" => token = value,
            b"result" => result = Some(Jsonb::from_item(value)),
            _ => unknown = true,
        }
    }
    if unknown {
        Reader::nameless("an ack", item).object(&["job_id", "lease_token", "result"])?;
    }
    result.map(|result| check_size("result", result, rules)).transpose()?;
    let job_id = id(job).ok_or_else(|| no_id(Reader::at(format!("p_jobs[{index}].job_id"), job)))?;
    let token = match token {
        Item::Null => None,
        token => {
            Some(id(token).ok_or_else(|| no_id(Reader::at(format!("p_jobs[{index}].lease_token"), token).secret()))?)
        }
    };
    Ok(Ack { job_id, token, result })
}

/// The refusal of what should be an id. A token is in no error, and neither is a list that may have one.
fn no_id(at: Reader<'_>) -> Refusal {
    let at = if at.is_list() { at.secret() } else { at };
    Refusal::new(at.must_be("an id").message, format!("For example: '{EXAMPLE}'."))
}

impl<'a> Acking<'a> {
    fn by(owner: &'a str) -> Self {
        let (leases, done) = (Table::open(&job_lease::TABLE), Table::open(&job_done::TABLE));
        let (heads, spent, told) = (RefCell::default(), RefCell::default(), RefCell::default());
        Acking { owner, now: clock::now(), leases, done, heads, spent, told }
    }

    /// Ends those of the jobs that this owner (and, where given, this token) holds. Says of each whether it has ended
    /// it.
    fn end_all(&self, acks: &[Ack]) -> Vec<bool> {
        let ended = self.end_each(acks);
        let held: Vec<bool> = ended.iter().map(Option::is_some).collect();
        let rows: Vec<Row> = ended.into_iter().flatten().collect();
        if !rows.is_empty() {
            self.done.insert_all(&rows);
        }
        acks.iter().zip(&held).filter(|(_, held)| **held).for_each(|(ack, _)| ends::note(ack.job_id));
        budgets::write(&self.spent.take());
        order::advance_all(self.heads.take(), self.now);
        hooks::tell(self.told.take(), self.now);
        held
    }

    /// Takes the leases of these jobs away from their holder. Returns the rows of the finished jobs, which the caller
    /// has to write. None: this owner does not hold the job.
    fn end_each(&self, acks: &[Ack]) -> Vec<Option<Row>> {
        let Some(first) = acks.first() else { return Vec::new() };
        let moment = Moment::now();
        let mut lease = Scan::by_id(&self.leases, &moment, c"job_lease_pkey", first.job_id);
        let end = |(number, ack): (usize, &Ack)| {
            pgrx::check_for_interrupts!();
            if number > 0 {
                lease.again(ack.job_id);
            }
            match self.end(ack, &mut lease, &moment) {
                LeaseEnd::Changed => self.end_changed(ack),
                LeaseEnd::Lost => None,
                LeaseEnd::Now(row) => Some(row),
            }
        };
        acks.iter().enumerate().map(end).collect()
    }

    /// Looks at a lease anew, which another session has extended or ended while this one waited for it.
    fn end_changed(&self, ack: &Ack) -> Option<Row> {
        for _ in 0..100 {
            if has_fixed_snapshot() {
                break;
            }
            pgrx::check_for_interrupts!();
            let moment = Moment::now();
            let mut lease = Scan::by_id(&self.leases, &moment, c"job_lease_pkey", ack.job_id);
            match self.end(ack, &mut lease, &moment) {
                LeaseEnd::Changed => continue,
                LeaseEnd::Lost => return None,
                LeaseEnd::Now(row) => return Some(row),
            }
        }
        run_again(format!("the lease of job {} was changed by another session meanwhile", ack.job_id))
    }

    /// Takes the lease that the scan finds away from its holder, if that is who acks.
    fn end(&self, ack: &Ack, lease: &mut Scan<'_>, moment: &Moment) -> LeaseEnd {
        if !lease.next()
            || lease.bytes(job_lease::lease_owner) != self.owner.as_bytes()
            || ack.token.is_some_and(|token| token != lease.id(job_lease::lease_token))
        {
            return LeaseEnd::Lost;
        }
        let (slots, reserved) = (lease.texts(job_lease::limits), lease.texts(job_lease::reserved));
        if !slots.is_empty() || !reserved.is_empty() {
            count_first();
        }
        if self.leases.delete(lease, true) != Deleted::Yes {
            return LeaseEnd::Changed;
        }
        limits::free(&slots);
        self.spent.borrow_mut().extend(budgets::settle(&reserved, ack.job_id, self.now));
        if lease.bool(job_lease::keyed) {
            let (head, on_end) = free_key(ack.job_id, moment);
            self.heads.borrow_mut().extend(head);
            let told = |(hook, context)| (hook, hooks::Ended::well(ack.job_id, ack.result, context));
            self.told.borrow_mut().extend(on_end.map(told));
        }
        LeaseEnd::Now(self.done(lease, ack))
    }

    /// The row of the finished job.
    fn done(&self, lease: &Scan<'_>, ack: &Ack) -> Row {
        let row = Row::of(&job_done::TABLE)
            .set(job_done::job_id, ack.job_id)
            .set(job_done::lease_token, lease.id(job_lease::lease_token))
            .set(job_done::finished_at, timestamp(self.now))
            .set(job_done::picked_at, timestamp(lease.time(job_lease::picked_at)))
            .set(job_done::lease_owner, self.owner);
        let row = match lease.maybe_bytes(job_lease::run) {
            Some(run) => row.set(job_done::run, Jsonb::from_container(run)),
            None => row,
        };
        match ack.result {
            Some(result) => row.set(job_done::result, result),
            None => row,
        }
    }
}

/// The head of an ordering key that has ended: its queue, the key and itself.
type Head = (i32, String, Uuid);
/// The hook that is to be told of the end of a job, and what the job belongs to.
type Told = (String, Context);

/// Frees the job's idempotency key. Returns its queue, ordering key and id, if it has such a key, and the hook that is
/// to be told of its end, if any, with what the job belongs to.
fn free_key(job_id: Uuid, moment: &Moment) -> (Option<Head>, Option<Told>) {
    let jobs = Table::open(&job::TABLE);
    let mut body = Scan::by_id(&jobs, moment, c"job_pkey", job_id);
    if !body.next() {
        return (None, None);
    }
    if let Some(key) = body.maybe_bytes(job::idempotency_key) {
        let key = String::from_utf8_lossy(key);
        let keys = Table::open(&job_key::TABLE);
        let mut held = Scan::begin(&keys, moment, c"job_queue_idempotency_active_uq", &[Key::Text(&key)], None);
        if held.next() && held.id(job_key::job_id) == job_id {
            keys.delete(&held, true);
        }
    }
    let text = |column| body.maybe_bytes(column).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let head = text(job::ordering_key).map(|key| (body.int(job::queue_id), key, job_id));
    (head, text(job::on_end).map(|hook| (hook, telling::kept(&body))))
}
