//! How much a caller may pass: one bound for every text, document and list that a function takes.
//!
//! The numbers are here and nowhere else, and [`TABLE`] says which of them holds for which argument. A function looks its
//! arguments up when it is compiled, so a call pays for a comparison and no more, and a function whose argument has no
//! row does not compile.

mod table;

pub use table::TABLE;

use crate::config::Kind;

/// Names are part of index keys: a bound keeps every one of them storable.
pub const NAME: usize = 200;
pub const KEY: usize = 1_000;
/// The longest reference to something that is kept elsewhere.
pub const REFERENCE: usize = 10_000;
/// The name of a step as it is stored: agentq puts words before the caller's.
pub const STEP: usize = 500;
/// A key of a limit or a budget: those in use lie in tables of fixed size.
pub const LIMIT_KEY: usize = 100;
pub const UNIT: usize = 30;
pub const ORDERING_KEY: usize = 90;
pub const FAIRNESS_KEY: usize = 80;
/// The capabilities that a job requires, together, with commas.
pub const NEEDS: usize = 100;
pub const TITLE: usize = 1_000;
pub const DESCRIPTION: usize = 20_000;
/// Five fields of cron, or a nickname.
pub const CRON: usize = 200;
/// What a handler runs.
pub const SQL: usize = 100_000;
/// Errors, reasons and notes are kept up to this length, so that nobody fills the disk with stack traces. They are cut: a
/// failure that is not reported because its text is long would be worse than a short text.
pub const KEPT: usize = 65_536;

/// A document of options.
pub const OPTIONS: usize = 262_144;
/// What a document may hold beside its one large member.
pub const REST: usize = 100_000;
/// Rules that people write: a policy, an entry of the manifest.
pub const RULES: usize = 1_048_576;
/// The whole manifest, or a filter that lists ids.
pub const LISTING: usize = 8_388_608;
/// Any document that is read.
pub const DOCUMENT: usize = 67_108_864;
/// The list of a batch: the largest payload that can be set fits into it.
pub const BATCH_BYTES: usize = 134_217_728;

/// Jobs in a batch of enqueues or acks.
pub const BATCH: usize = 10_000;
/// Effects of a plan.
pub const PLAN: usize = 1_000;
/// Entries of the manifest.
pub const MANIFEST: usize = 2_000;
/// Capabilities, queues or kinds that a call names.
pub const NAMES: usize = 100;
/// Capabilities that a worker announces.
pub const CAPABILITIES: usize = 1_000;
/// Jobs that a filter lists.
pub const IDS: usize = 100_000;
/// Other names of a class of errors.
pub const ALIASES: usize = 1_000;
/// Limit keys of a job, and units of its cost.
pub const LIMIT_KEYS: usize = 16;
pub const STEPS: usize = 20_000;
pub const EDGES: usize = 200_000;
pub const ITEMS: usize = 10_000;
/// Missions inside each other.
pub const DEEPEST: usize = 8;
pub const PATTERNS: usize = 1_000;
pub const TAGS: usize = 100;
pub const EVENTS: usize = 10_000;
pub const CLAIMS: usize = 1_000;

/// Bounds that an operator can change, and from where to where.
pub const PAYLOAD_SETTING: &str = "queue.payload.max_bytes";
pub const RESULT_SETTING: &str = "flow.result.max_bytes";
pub const CHECKPOINT_SETTING: &str = "queue.checkpoint.max_bytes";
/// What is smaller is within each of them, whatever they say.
pub const LEAST_SETTING: usize = 1_024;
pub const SETTING: Kind = Kind::Integer(LEAST_SETTING as i64, DOCUMENT as i64);

/// What holds for an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A text of at most this many bytes. A longer one is refused.
    Text(usize),
    /// A text of which this many bytes are kept.
    Cut(usize),
    /// A document of at most this many bytes.
    Document(usize),
    /// A document of at most as many bytes as a setting says.
    Setting(&'static str),
    /// A document whose one member is bounded by a setting; the rest of it has at most this many bytes.
    Beside { member: &'static str, setting: &'static str, rest: usize },
    /// A list, as a document or as an array of texts, of at most this many elements, and of this many bytes together.
    List { elements: usize, bytes: usize },
}

/// A function, and the bound of each of its arguments that has no fixed size.
pub type Row = (&'static str, &'static [(&'static str, Bound)]);

/// The bound of an argument. Asked when the code is compiled, where an argument without one is an error.
pub const fn of(function: &str, argument: &str) -> &'static Bound {
    let mut row = 0;
    while row < TABLE.len() {
        if is_same(TABLE[row].0, function) {
            let arguments = TABLE[row].1;
            let mut at = 0;
            while at < arguments.len() {
                if is_same(arguments[at].0, argument) {
                    return &arguments[at].1;
                }
                at += 1;
            }
        }
        row += 1;
    }
    panic!("the argument has no bound in the table")
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The bound of an argument that only the running server knows by name. None: it has none.
pub fn find(function: &str, argument: &str) -> Option<&'static Bound> {
    let (_, arguments) = TABLE.iter().find(|(name, _)| *name == function)?;
    arguments.iter().find(|(name, _)| *name == argument).map(|(_, bound)| bound)
}

/// A number as the documents write it.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

impl Bound {
    /// The bound in words, for people.
    pub fn words(&self) -> String {
        match self {
            Bound::Text(bytes) | Bound::Document(bytes) => format!("{} bytes", grouped(*bytes)),
            Bound::Cut(bytes) => format!("cut at {} bytes", grouped(*bytes)),
            Bound::Setting(setting) => format!("`{setting}`"),
            Bound::Beside { member, setting, rest } => {
                format!("{} bytes beside `{member}`, which has `{setting}`", grouped(*rest))
            }
            Bound::List { elements, bytes } => format!("{} elements, {} bytes", grouped(*elements), grouped(*bytes)),
        }
    }
}

/// What `docs/bounds.md` says of documents: what, how much at most, and where to change it.
pub const SIZES: &[(&str, Bound, &str)] = &[
    (
        "payload of a job or an event, result of an ack or an effect, metadata of an executor",
        Bound::Document(262_144),
        PAYLOAD_SETTING,
    ),
    ("result of a step or an action, payload of a signal", Bound::Document(262_144), RESULT_SETTING),
    ("checkpoint; template of a proposal; input of a mission", Bound::Document(1_048_576), CHECKPOINT_SETTING),
    ("options of a call; value of a setting, a limit or a budget", Bound::Document(OPTIONS), ""),
    (
        "`p_changes` of `fn_job_change` and the like, beside the payload; options of a mission, beside its input",
        Bound::Document(REST),
        "",
    ),
    ("policy, retry policy, entry of the manifest", Bound::Document(RULES), ""),
    ("whole manifest; filter of dead letters", Bound::Document(LISTING), ""),
    ("template of a mission, job of a schedule, inputs, list of effects", Bound::Document(DOCUMENT), ""),
    ("list of a batch", Bound::Document(BATCH_BYTES), ""),
    ("error, reason or note", Bound::Cut(KEPT), ""),
    ("SQL of a handler", Bound::Text(SQL), ""),
];

/// What it says of names and keys, in bytes.
pub const LENGTHS: &[(&str, &[usize])] = &[
    ("name of a queue, kind, owner, actor, step, signal, policy or pattern; word such as a verdict", &[NAME]),
    ("name of a step as it is stored", &[STEP]),
    ("idempotency key, dedupe key, key of an action, subject of an event; it does not begin with `agentq:`", &[KEY]),
    (
        "`source_ref`, `target_ref`, `payload_ref`, description of a limit or a class, reason of a rejection",
        &[REFERENCE],
    ),
    ("limit key; unit", &[LIMIT_KEY, UNIT]),
    ("ordering key", &[ORDERING_KEY]),
    ("fairness key; required capabilities together", &[FAIRNESS_KEY, NEEDS]),
    ("title of a mission; description", &[TITLE, DESCRIPTION]),
    ("cron rule", &[CRON]),
];

/// And of numbers of elements.
pub const NUMBERS: &[(&str, &[usize])] = &[
    ("jobs in a batch of enqueues or acks", &[BATCH]),
    ("jobs in a batch of claims", &[CLAIMS]),
    ("limit keys of a job; units of its cost", &[LIMIT_KEYS, LIMIT_KEYS]),
    ("steps of a mission; dependencies; items of a list; missions inside each other", &[STEPS, EDGES, ITEMS, DEEPEST]),
    ("effects of a plan; entries of the manifest", &[PLAN, MANIFEST]),
    ("patterns of the reaction matrix", &[PATTERNS]),
    ("tags of an event; events of one read", &[TAGS, EVENTS]),
    ("queues or kinds that a claim names; capabilities that it has", &[NAMES, CAPABILITIES]),
    ("capabilities that `fn_capable_workers` is asked for; other names of a class of errors", &[NAMES, ALIASES]),
    ("ids of a filter", &[IDS]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_has_one_bound_and_functions_are_in_order() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0), "sorted by name, each once");
        for (function, arguments) in TABLE {
            for (at, (name, bound)) in arguments.iter().enumerate() {
                assert!(arguments[..at].iter().all(|(other, _)| other != name), "{function}({name})");
                assert_eq!((of(function, name), find(function, name)), (bound, Some(bound)));
            }
        }
        assert_eq!((find("fn_job_ack", "p_nothing"), find("fn_nothing", "p_result")), (None, None));
    }

    #[test]
    fn numbers_are_written_in_groups() {
        assert_eq!([1, 999, 1_000, 67_108_864].map(grouped), ["1", "999", "1,000", "67,108,864"]);
    }
}
