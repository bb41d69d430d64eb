//! How large a document may be that is read. What is larger is refused before anything is made of it.
//!
//! Looking at a document takes no memory: it is read where the server has put it. Parsing one does, and small objects
//! take the most, forty times their size. So what parsing would take is added up first, and a document that would take
//! more than ten times its size is refused, unless that is little.

use crate::error::Refusal;
use crate::jsonb::{self, Container, Decimal, Item};
use serde_json::Value;

/// Bounds of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub bytes: usize,
    /// Values in it, at any depth.
    pub elements: usize,
    /// Objects and lists inside each other.
    pub depth: usize,
}

/// Parsing a document may take this many times its size.
pub const TIMES: usize = 10;
/// And this much in any case, so that whatever fits into a payload of the default size can be parsed.
pub const FREE: usize = 16 * 1024 * 1024;

/// What one part of parsed JSON takes, with what the allocator adds.
const NODE: usize = size_of::<Value>();
const ALLOCATION: usize = 16;
/// A leaf of the tree in which a parsed object keeps its members, with its share of what is above the leaves.
const LEAF: usize = 11 * (size_of::<String>() + NODE) + 16 + ALLOCATION;
const ABOVE: usize = (LEAF + 96) / 6;

const HINT: &str = "Use numbers below 1e308 and fewer than 128 levels of nesting.";

impl Bounds {
    /// For every document: as many bytes as the largest payload that can be set, and as deep as the server's own answers
    /// are parsed.
    pub const DOCUMENT: Bounds = Bounds { bytes: crate::bounds::DOCUMENT, elements: 5_000_000, depth: 127 };

    /// Looks through a document, which is called `what`. Refuses one that is too large, and one that holds what the server
    /// can store and Rust cannot read.
    pub fn check(&self, what: &str, item: Item<'_>) -> Result<(), Refusal> {
        self.measure(what, item).map(drop)
    }

    /// Parses a document, within ten times its size.
    pub fn parse(&self, what: &str, item: Item<'_>) -> Result<Value, Refusal> {
        let memory = self.measure(what, item)?;
        if memory > size(item).saturating_mul(TIMES).saturating_add(FREE) {
            return Err(Refusal::new(
                format!("{what} of {} bytes would take {memory} bytes when it is parsed", size(item)),
                "It has too many small objects for its size. Divide it, or give their values as lists.",
            ));
        }
        jsonb::to_value(item).ok_or_else(|| unreadable(what, "it holds what is no JSON"))
    }

    /// How many bytes the document takes when it is parsed, at most.
    fn measure(&self, what: &str, item: Item<'_>) -> Result<usize, Refusal> {
        if size(item) > self.bytes {
            return Err(Refusal::new(
                format!("{what} is {} bytes, more than the {} that are read", size(item), self.bytes),
                "Keep data where it belongs, and point at it.",
            ));
        }
        let mut look = Look { what, bounds: self, elements: 0, memory: NODE };
        look.at(item, 0)?;
        Ok(look.memory)
    }
}

fn size(item: Item<'_>) -> usize {
    match item {
        Item::Text(bytes) | Item::Number(bytes) | Item::Container(bytes) => bytes.len(),
        Item::Null | Item::Bool(_) | Item::Int(_) => 0,
    }
}

fn unreadable(what: &str, problem: &str) -> Refusal {
    Refusal::new(format!("{what} cannot be read: {problem}"), HINT)
}

struct Look<'a> {
    what: &'a str,
    bounds: &'a Bounds,
    elements: usize,
    memory: usize,
}

impl Look<'_> {
    /// Looks at a value that is inside this many others.
    fn at(&mut self, item: Item<'_>, depth: usize) -> Result<(), Refusal> {
        match item {
            Item::Null | Item::Bool(_) | Item::Int(_) => Ok(()),
            Item::Number(bytes) => match Decimal::read(bytes) {
                Some(number) if number.is_double() => Ok(()),
                _ => Err(unreadable(self.what, "a number in it is too large")),
            },
            Item::Text(bytes) => self.text(bytes),
            Item::Container(bytes) => self.container(Container::new(bytes), depth + 1),
        }
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.memory += bytes.len().next_multiple_of(ALLOCATION) + ALLOCATION;
        match std::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal::new(
                format!("{} cannot be read: a text in it is not in UTF-8", self.what),
                "agentq reads JSON in databases whose encoding is UTF8.",
            )),
        }
    }

    fn container(&mut self, container: Container<'_>, depth: usize) -> Result<(), Refusal> {
        if depth > self.bounds.depth {
            let problem = format!("it is nested more than {} levels deep", self.bounds.depth);
            return Err(unreadable(self.what, &problem));
        }
        let count = container.len();
        self.elements += count;
        if self.elements > self.bounds.elements {
            return Err(Refusal::new(
                format!("{} has more than the {} elements that are read", self.what, self.bounds.elements),
                "Divide it, or keep data where it belongs and point at it.",
            ));
        }
        if !container.is_object() {
            self.memory += count * NODE + if count > 0 { ALLOCATION } else { 0 };
            return container.elements().try_for_each(|item| self.at(item, depth));
        }
        self.memory += match count {
            0 => 0,
            1..=11 => LEAF,
            // Half full, as leaves are to which keys were added in order.
            _ => count.div_ceil(5) * (LEAF + ABOVE),
        };
        for (key, item) in container.members() {
            self.text(key)?;
            self.at(item, depth)?;
        }
        Ok(())
    }
}
