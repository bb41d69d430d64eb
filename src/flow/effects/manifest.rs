//! The catalog of operations and compensations: set as a whole or in part, checked as a whole, kept in versions.
//!
//! Changes go one after the other, so that two of them cannot together make what neither would be allowed.

use super::{About, audit};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, timestamp};
use crate::base::ids::new_id;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::flow::settings::COMPENSATION_MAX_DEPTH;
use crate::json::{self, Jsonb};
use crate::queue::rules::Rulebook;
use agentq_core::effects::{Fault, Manifest};
use agentq_core::jsonb::Item;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;
use std::cell::RefCell;
use std::rc::Rc;

statements!("manifest.sql": MANIFEST_LOCK, MANIFEST_HEAD, MANIFEST_LOAD, MANIFEST_ADD, MANIFEST_CLEAR, OPERATIONS_FILL, COMPENSATIONS_FILL, TYPES_FILL);

/// The catalog in force.
#[derive(Clone, Default)]
pub struct Catalog {
    /// None: nothing was ever set.
    pub version: Option<i64>,
    pub manifest: Rc<Manifest>,
}

thread_local! {
    /// What this session has read last. The id is never used again, also not after a rollback.
    static COPY: RefCell<Option<(Uuid, Catalog)>> = const { RefCell::new(None) };
}

impl Catalog {
    pub fn current(db: &Db) -> Catalog {
        let head = db.run(&MANIFEST_HEAD, &[]);
        if head.is_empty() {
            return Catalog::default();
        }
        if let Some((known, catalog)) = COPY.with_borrow(Clone::clone)
            && known == head.only::<Uuid>()
        {
            return catalog;
        }
        // The id again, with the tables as they are at the same moment.
        let row = db.run(&MANIFEST_LOAD, &[]);
        let (id, document): (Uuid, Jsonb) = (row.must("manifest_id"), row.must("document"));
        let manifest = Rc::new(Manifest::read(&reader(document).or_raise()).or_raise());
        let catalog = Catalog { version: row.get("version"), manifest };
        COPY.set(Some((id, catalog.clone())));
        catalog
    }
}

/// All that is wrong with a catalog.
fn faults(manifest: &Manifest) -> Vec<Fault> {
    let rules = Rulebook::current();
    let depth = rules.number(COMPENSATION_MAX_DEPTH);
    let mut faults = manifest.faults(depth as usize);
    for (name, compensation) in &manifest.compensations {
        if let Err(refusal) = rules.queue(&compensation.queue) {
            faults.push(Fault {
                code: "unknown_queue",
                path: format!("compensations.{name}.queue"),
                chain: Vec::new(),
                message: refusal.message,
                hint: refusal.hint,
            });
        }
    }
    faults
}

/// Opens a document that is to be a manifest.
fn reader<'a>(document: Jsonb) -> Result<Reader<'a>, Refusal> {
    let opened = document.reader("p_manifest")?;
    Ok(Reader::nameless("the manifest", opened.item()))
}

/// Changes the catalog and checks the whole of it.
fn change(document: Jsonb, replace: bool, note: Option<&str>) -> Jsonb {
    let now = clock::now();
    let given = reader(document).or_raise();
    db::answer(|db| {
        // Whoever else changes it is waited for, and what it has set is seen.
        db.run(&MANIFEST_LOCK, &[]);
        let before = Catalog::current(db);
        let from = if replace { &Manifest::default() } else { &*before.manifest };
        let manifest = from.changed(&given).or_raise();
        Fault::refusal(&faults(&manifest)).map_or(Ok(()), Err).or_raise();
        let told = |code: &str, version: Option<i64>| {
            Jsonb::from_value(json!({
                "ok": true, "code": code, "version": version,
                "operations": manifest.operations.len(), "compensations": manifest.compensations.len(),
            }))
        };
        if manifest == *before.manifest {
            return told("unchanged", before.version);
        }
        let version = before.version.unwrap_or(0) + 1;
        write(db, &manifest, version, note, now);
        let change = given.value().or_raise();
        let what = json!({"version": version, "change": change, "replace": replace, "note": note, "by": actor()});
        let subject = format!("manifest:{version}");
        audit(
            db,
            "effect.manifest_set",
            About { kind: "manifest", subject: &subject, mission: None, job: None },
            what,
            now,
        );
        told("set", Some(version))
    })
}

fn write(db: &Db, manifest: &Manifest, version: i64, note: Option<&str>, now: clock::Micros) {
    let document = Jsonb::from_value(manifest.to_value());
    let by = actor();
    let args =
        [version.into(), new_id().into(), document.into(), note.into(), timestamp(now).into(), by.as_str().into()];
    if db.run(&MANIFEST_ADD, &args).is_empty() {
        raise(
            PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            "the manifest was changed by another session meanwhile",
            "Run the transaction again.",
        )
    }
    db.run(&MANIFEST_CLEAR, &[]);
    for fill in [&OPERATIONS_FILL, &COMPENSATIONS_FILL, &TYPES_FILL] {
        db.run(fill, &[document.into()]);
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_manifest_set(
    p_manifest: Option<Jsonb>,
    p_replace: default!(Option<bool>, "false"),
    p_note: default!(Option<&str>, "NULL"),
) -> Jsonb {
    bounded!(fn_effect_manifest_set: p_manifest, p_note);
    change(required("p_manifest", p_manifest), p_replace.unwrap_or(false), p_note)
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_manifest_check(
    p_manifest: default!(Option<Jsonb>, "NULL"),
    p_replace: default!(Option<bool>, "false"),
) -> Jsonb {
    bounded!(fn_effect_manifest_check: p_manifest);
    let document = reader(p_manifest.unwrap_or_else(Jsonb::empty_object)).or_raise();
    db::answer(|db| {
        let before = Catalog::current(db);
        let replaced = p_manifest.is_some() && p_replace.unwrap_or(false);
        let from = if replaced { &Manifest::default() } else { &*before.manifest };
        let faults = faults(&from.changed(&document).or_raise());
        Jsonb::from_value(json!({
            "ok": faults.is_empty(), "code": if faults.is_empty() { "sound" } else { "faulty" },
            "version": before.version, "faults": faults.iter().map(Fault::to_value).collect::<Vec<_>>(),
        }))
    })
}

/// Sets one entry of a section.
fn set_one(section: &str, what: &str, name: Option<&str>, definition: Option<Jsonb>) -> Jsonb {
    let name = input::name(what, required(what, name), input::LONGEST_NAME).or_raise();
    let definition = required("p_definition", definition);
    if !definition.is_object() {
        Err(payload::refuse_not_object("p_definition", definition.container().item().kind())).or_raise()
    }
    let entry = json::object(&mut [(name, definition.item())]);
    let document = json::object(&mut [(section, Item::Container(&entry))]);
    change(Jsonb::from_container(&document), false, None)
}

/// Takes out one entry of a section, which must be there.
fn remove_one(section: &str, what: &str, name: Option<&str>, has: impl Fn(&Manifest, &str) -> bool) -> Jsonb {
    let name = required(what, name);
    if !db::connect(|db| has(&Catalog::current(db).manifest, name)) {
        raise(
            PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
            format!("the manifest has no {section} \"{}\"", agentq_core::error::shown(name)),
            format!("They are in agentq.effect_{section}."),
        )
    }
    change(Jsonb::from_value(json!({format!("{section}s"): {name: null}})), false, None)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_operation_set(p_operation: Option<&str>, p_definition: Option<Jsonb>) -> Jsonb {
    bounded!(fn_effect_operation_set: p_operation, p_definition);
    set_one("operations", "p_operation", p_operation, p_definition)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_operation_remove(p_operation: Option<&str>) -> Jsonb {
    bounded!(fn_effect_operation_remove: p_operation);
    remove_one("operation", "p_operation", p_operation, |manifest, name| manifest.operations.contains_key(name))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_compensation_set(p_compensation: Option<&str>, p_definition: Option<Jsonb>) -> Jsonb {
    bounded!(fn_effect_compensation_set: p_compensation, p_definition);
    set_one("compensations", "p_compensation", p_compensation, p_definition)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_compensation_remove(p_compensation: Option<&str>) -> Jsonb {
    bounded!(fn_effect_compensation_remove: p_compensation);
    let has = |manifest: &Manifest, name: &str| manifest.compensations.contains_key(name);
    remove_one("compensation", "p_compensation", p_compensation, has)
}
