//! Reading a manifest from JSON. Whatever is wrong is named with its path in the document.

use super::{CAPABILITIES, Compensation, LARGEST_MANIFEST, MOST_EFFECTS, Manifest, Operation};
use crate::Refusal;
use crate::input::{self, LONGEST_NAME};
use crate::reader::{Member, Reader};
use std::collections::BTreeMap;

const SECTIONS: [&str; 5] = ["operations", "compensations", "inverse_of", "idempotent", "requires"];
const OPERATION_KEYS: [&str; 4] = ["produces", "requires_compensation", "compensation", "job_kind"];
const COMPENSATION_KEYS: [&str; 7] =
    ["of", "produces", "counter_effects", "requires_compensation", "job_kind", "queue", "max_attempts"];
/// Entries of one section that a document names.
const MOST_ENTRIES: usize = 10 * LARGEST_MANIFEST;
const EXAMPLE: &str = "For example: {\"operations\": {\"book_hotel\": {\"produces\": [\"hotel_booking.book\"]}}}.";

impl Manifest {
    /// Reads a whole catalog.
    pub fn read(document: &Reader<'_>) -> Result<Manifest, Refusal> {
        Manifest::default().changed(document)
    }

    /// The catalog with what the document names set anew; a null takes it out.
    pub fn changed(&self, document: &Reader<'_>) -> Result<Manifest, Refusal> {
        let mut manifest = self.clone();
        document.clone().hint(EXAMPLE).object(&SECTIONS)?;
        each(document, "operations", |name, entry| set(&mut manifest.operations, name, entry, operation))?;
        each(document, "compensations", |name, entry| set(&mut manifest.compensations, name, entry, compensation))?;
        each(document, "inverse_of", |name, entry| {
            let read = |_: &str, inverse: Reader<'_>| Ok(inverse.name(LONGEST_NAME)?.to_owned());
            set(&mut manifest.inverse_of, name, entry, read)
        })?;
        each(document, "idempotent", |name, entry| {
            if entry.hint("Write true or false without quotes.").flag()?.unwrap_or(false) {
                manifest.idempotent.insert(name.to_owned());
            } else {
                manifest.idempotent.remove(name);
            }
            Ok(())
        })?;
        if let Some(requires) = document.member("requires").reader() {
            let known = CAPABILITIES.map(|(name, ..)| name);
            let words = requires.list("capabilities", 0..=CAPABILITIES.len())?.map(|name| name.word(&known));
            manifest.requires = words.map(|word| word.map(str::to_owned)).collect::<Result<_, Refusal>>()?;
        }
        let size = manifest.operations.len() + manifest.compensations.len();
        if size > LARGEST_MANIFEST {
            return Err(Refusal::new(
                format!("the manifest would have {size} operations and compensations, more than {LARGEST_MANIFEST}"),
                "Take out what is no longer used, with null in its place.",
            ));
        }
        Ok(manifest)
    }
}

/// Puts an entry in, or takes it out where the document has null.
fn set<'a, T>(
    into: &mut BTreeMap<String, T>,
    name: &str,
    entry: Member<'a>,
    read: impl FnOnce(&str, Reader<'a>) -> Result<T, Refusal>,
) -> Result<(), Refusal> {
    match entry.read(|entry| read(name, entry))? {
        Some(entry) => drop(into.insert(name.to_owned(), entry)),
        None => drop(into.remove(name)),
    }
    Ok(())
}

/// Goes through the entries of a section.
fn each<'a>(
    document: &Reader<'a>,
    section: &str,
    mut entry: impl FnMut(&'a str, Member<'a>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let Some(entries) = document.member(section).hint(EXAMPLE).reader() else { return Ok(()) };
    let count = entries.map()?.len();
    if count > MOST_ENTRIES {
        return Err(entries.refuse(
            format!("it has {count} entries, more than {MOST_ENTRIES}"),
            "Set the manifest in several calls; each changes what it names.",
        ));
    }
    for (name, value) in entries.members()? {
        input::name(&format!("a name in {section}"), name, LONGEST_NAME)?;
        entry(name, Member::from(Some(value)))?;
    }
    Ok(())
}

fn operation(name: &str, at: Reader<'_>) -> Result<Operation, Refusal> {
    at.clone().hint(EXAMPLE).object(&OPERATION_KEYS)?;
    Ok(Operation {
        produces: effects(&at)?,
        requires_compensation: at.member("requires_compensation").flag()?.unwrap_or(false),
        compensation: at.member("compensation").name(LONGEST_NAME)?.map(str::to_owned),
        job_kind: at.member("job_kind").name(LONGEST_NAME)?.unwrap_or(name).to_owned(),
    })
}

fn compensation(name: &str, at: Reader<'_>) -> Result<Compensation, Refusal> {
    at.clone().hint(EXAMPLE).object(&COMPENSATION_KEYS)?;
    Ok(Compensation {
        of: at.needed("of").hint("Name the operation that it compensates.").name(LONGEST_NAME)?.to_owned(),
        produces: effects(&at)?,
        counter_effects: at.member("counter_effects").flag()?.unwrap_or(false),
        requires_compensation: at.member("requires_compensation").flag()?.unwrap_or(false),
        job_kind: at.member("job_kind").name(LONGEST_NAME)?.unwrap_or(name).to_owned(),
        queue: at.member("queue").name(LONGEST_NAME)?.unwrap_or(input::DEFAULT_QUEUE).to_owned(),
        max_attempts: at.member("max_attempts").hint("1 means no retry.").whole(1..=i32::MAX)?,
    })
}

/// The list `produces`: sorted, each type once.
fn effects(at: &Reader<'_>) -> Result<Vec<String>, Refusal> {
    let list = at.member("produces").hint("For example: [\"hotel_booking.book\"].");
    let types = list.read(|list| {
        list.list("types of effects", 0..=MOST_EFFECTS)?
            .map(|effect| effect.name(LONGEST_NAME).map(str::to_owned))
            .collect()
    });
    let mut types: Vec<String> = types?.unwrap_or_default();
    types.sort();
    types.dedup();
    Ok(types)
}
