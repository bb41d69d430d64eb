//! Checking the log: whether what happened is still what was written down.
//!
//! A check goes through the log in its order. Each row must follow the one before it in its chain, and the event that
//! it speaks of must still have its digest, unless it has been dropped with its partition. The check names the first
//! thing that is wrong.

use super::seal::{self, Stand, body, head, unhex};
use crate::base::clock::Micros;
use crate::base::clock::timestamp;
use crate::db::{self, Db, statements};
use crate::error::OrRaise;
use crate::json::Jsonb;
use agentq_core::Refusal;
use agentq_core::chain::{self, Chain, End, Fault, Link};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;
use std::ops::ControlFlow;

statements!("verify.sql": VERIFY_PAGE, VERIFY_BEFORE, VERIFY_FIND, VERIFY_BEYOND, VERIFY_STRAY);

/// Rows that are looked at together.
const PAGE: i64 = 1_000;

/// A row of the log, with what was found of its event.
struct LogRow {
    link: Link,
    event_id: Uuid,
    event_at: Micros,
    /// None: it is not there. Inside, None: it cannot have a digest of the form that its row names.
    digest: Option<Option<chain::Hash>>,
}

/// Something that is wrong.
struct Trouble {
    fault: Fault,
    /// event or log.
    place: &'static str,
    seq: Option<i64>,
    event_id: Option<Uuid>,
    chain: Chain,
    message: String,
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_event_verify(p_from: default!(Option<i64>, "NULL"), p_to: default!(Option<i64>, "NULL")) -> Jsonb {
    check_range(p_from, p_to).or_raise();
    let (checked, last, trouble) = db::connect(|db| verify(db, p_from, p_to));
    Jsonb::from_value(match trouble {
        None => json!({"ok": true, "code": "sound", "checked": checked, "last_seq": last}),
        Some(trouble) => json!({
            "ok": false,
            "code": "broken",
            "fault": trouble.fault.name(),
            "where": trouble.place,
            "seq": trouble.seq,
            "event_id": trouble.event_id.map(|id| id.to_string()),
            "chain": trouble.chain.name(),
            "message": trouble.message,
            "checked": checked,
        }),
    })
}

fn check_range(from: Option<i64>, to: Option<i64>) -> Result<(), Refusal> {
    let hint = "Places count from 1. Leave out p_from or p_to to check from the beginning or to the end.";
    if let Some(wrong) = from.into_iter().chain(to).find(|seq| *seq < 1) {
        return Err(Refusal::new(format!("a place in the log is 1 or more, not {wrong}"), hint));
    }
    match (from, to) {
        (Some(from), Some(to)) if from > to => {
            Err(Refusal::new(format!("p_from is {from}, which comes after p_to, {to}"), hint))
        }
        _ => Ok(()),
    }
}

/// How many rows were looked at, the last place of the log, and what is wrong.
fn verify(db: &Db, from: Option<i64>, to: Option<i64>) -> (i64, i64, Option<Trouble>) {
    // The last place first: what is sealed meanwhile is not looked at.
    let last = seal::last_seq(db);
    let to_seq = to.unwrap_or(last).min(last);
    let stands = Chain::ALL.map(|chain| seal::stand(db, chain));
    let mut ends = Chain::ALL.map(|chain| end_before(db, chain, &stands[chain as usize], from));
    let mut after = from.unwrap_or(1) - 1;
    let (mut checked, mut youngest, mut oldest) = (0, None::<Micros>, None::<Micros>);
    loop {
        let rows = page(db, after, to_seq);
        let Some(end) = rows.last() else { break };
        for at in 0..rows.len() {
            let row = &rows[at];
            checked += 1;
            if let Some(trouble) = check(db, &rows, at, &mut ends, &stands) {
                return (checked, last, Some(trouble));
            }
            youngest = youngest.max(Some(row.event_at));
            oldest = Some(oldest.map_or(row.event_at, |oldest| oldest.min(row.event_at)));
        }
        after = end.link.seq;
    }
    let trouble = at_the_end(db, to_seq == last, last, &ends, &stands);
    let within = |at: Option<Micros>| if from.is_none() && to.is_none() { None } else { at.map(timestamp) };
    let trouble = trouble.or_else(|| stray(db, within(oldest), within(youngest)));
    (checked, last, trouble)
}

/// The end of a chain that a check begins with.
fn end_before(db: &Db, chain: Chain, stand: &Stand, from: Option<i64>) -> End {
    let Some(from) = from else { return stand.before_first.clone() };
    let row = db.run(&VERIFY_BEFORE, &[from.into(), chain.name().into()]);
    if row.is_empty() {
        return stand.before_first.clone();
    }
    End { place: row.must("place"), hash: row.get::<String>("hash").and_then(|text| unhex(&text)).unwrap_or_default() }
}

fn page(db: &Db, after: i64, to: i64) -> Vec<LogRow> {
    let mut rows = Vec::new();
    // Of an event only its digest is kept.
    db.walk(&VERIFY_PAGE, &[after.into(), to.into(), PAGE.into()], |row| {
        let (event_id, event_at): (Uuid, TimestampWithTimeZone) = (row.must("event_id"), row.must("event_at"));
        let head = head(event_id, event_at, row.must("purpose"));
        let hash = |column| row.get::<String>(column).and_then(|text| unhex(&text)).unwrap_or_default();
        let form = i16::try_from(row.must::<i32>("form")).unwrap_or_default();
        rows.push(LogRow {
            digest: row.get::<String>("event_kind").map(|_| chain::digest_in(form, &head, &body(row))),
            link: Link {
                seq: row.must("seq"),
                place: row.must("place"),
                head,
                digest: hash("digest"),
                hash: hash("hash"),
            },
            event_id,
            event_at: event_at.into_inner(),
        });
        ControlFlow::Continue(())
    });
    rows
}

fn check(db: &Db, rows: &[LogRow], at: usize, ends: &mut [End; 2], stands: &[Stand; 2]) -> Option<Trouble> {
    let row = &rows[at];
    let chain = Chain::of(&row.link.head.purpose);
    let of_chain = |other: &&LogRow| Chain::of(&other.link.head.purpose) == chain;
    let others = rows.iter().filter(of_chain).map(|other| &other.link);
    let seq = row.link.seq;
    let trouble = |fault, place, message: String| {
        Some(Trouble { fault, place, seq: Some(seq), event_id: Some(row.event_id), chain, message })
    };
    match ends[chain as usize].check(&row.link, others) {
        None => {}
        Some(Fault::Missing) => {
            // What is not here came just before.
            let message = format!("a row of the log before place {seq} is gone");
            return Some(Trouble {
                fault: Fault::Missing,
                place: "log",
                seq: Some(seq - 1),
                event_id: None,
                chain,
                message,
            });
        }
        Some(Fault::Inserted) => {
            return trouble(Fault::Inserted, "log", format!("the row of the log at place {seq} was put in later"));
        }
        Some(Fault::Reordered) => {
            return trouble(Fault::Reordered, "log", format!("the row of the log at place {seq} belongs elsewhere"));
        }
        // Two rows have one place, and this is the one that does not belong there.
        Some(Fault::Altered) if rows.iter().filter(|other| other.link.seq == seq).count() > 1 => {
            return trouble(Fault::Inserted, "log", format!("the row of the log at place {seq} was put in later"));
        }
        Some(Fault::Altered) => {
            return trouble(Fault::Altered, "log", format!("the row of the log at place {seq} is not what it was"));
        }
    }
    match row.digest {
        Some(Some(digest)) if digest == row.link.digest => None,
        Some(_) => trouble(Fault::Altered, "event", format!("the event at place {seq} is not what it was")),
        // It has gone with its partition.
        None if row.event_at < stands[chain as usize].dropped_before => None,
        None if !db.run(&VERIFY_FIND, &[row.event_id.into()]).is_empty() => trouble(
            Fault::Altered,
            "event",
            format!("the time or the purpose of the event at place {seq} is not what it was"),
        ),
        None => trouble(Fault::Missing, "event", format!("the event at place {seq} is gone")),
    }
}

/// What is wrong at the end of the log: rows that are gone, or that nobody has sealed.
fn at_the_end(db: &Db, whole: bool, last: i64, ends: &[End; 2], stands: &[Stand; 2]) -> Option<Trouble> {
    if !whole {
        return None;
    }
    for chain in Chain::ALL {
        let (end, stand) = (&ends[chain as usize], &stands[chain as usize]);
        // What was sealed since the last place was read is not looked at.
        if stand.last_seq <= last && end.place < stand.end.place {
            let message = format!("rows of the log up to place {} are gone", stand.last_seq);
            let seq = Some(stand.last_seq);
            return Some(Trouble { fault: Fault::Missing, place: "log", seq, event_id: None, chain, message });
        }
        // Nothing follows the last row that could tell; the chain remembers its hash.
        if stand.last_seq <= last && end.place == stand.end.place && end.hash != stand.end.hash {
            let message = format!("the row of the log at place {} is not what it was", stand.last_seq);
            let seq = Some(stand.last_seq);
            return Some(Trouble { fault: Fault::Altered, place: "log", seq, event_id: None, chain, message });
        }
    }
    let beyond = db.run(&VERIFY_BEYOND, &[]);
    if beyond.is_empty() {
        return None;
    }
    let seq: i64 = beyond.must("seq");
    Some(Trouble {
        fault: Fault::Inserted,
        place: "log",
        seq: Some(seq),
        event_id: beyond.get("event_id"),
        chain: Chain::of(&beyond.must::<String>("purpose")),
        message: format!("the row of the log at place {seq} comes after the last that was sealed"),
    })
}

/// An event that should have a place, and has none.
fn stray(db: &Db, from: Option<TimestampWithTimeZone>, to: Option<TimestampWithTimeZone>) -> Option<Trouble> {
    let row = db.run(&VERIFY_STRAY, &[from.into(), to.into()]);
    (!row.is_empty()).then(|| Trouble {
        fault: Fault::Inserted,
        place: "event",
        seq: None,
        event_id: row.get("event_id"),
        chain: Chain::of(&row.must::<String>("purpose")),
        message: "an event was put in beside the log, or its row of the log is gone".to_owned(),
    })
}
