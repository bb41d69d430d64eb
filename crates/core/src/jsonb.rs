//! The server's binary form of JSON, written and read in place.
//!
//! An answer of twenty members costs a function call and a sort for each when the server builds it,
//! and more when it goes through text. Here it is one pass over bytes. The form is the one that the
//! server keeps on disk: a header, an entry for each key and value, then their bytes; members in
//! order of their key's length, then of its bytes; numbers and containers aligned to four.

mod number;
mod show;
mod value;

#[cfg(test)]
mod tests;

pub use number::Decimal;
pub use show::shown;
pub use value::{from_value, to_value};

use crate::Refusal;
use std::cmp::Ordering;

const OBJECT: u32 = 0x2000_0000;
const ARRAY: u32 = 0x4000_0000;
const SCALAR: u32 = 0x1000_0000;
const COUNT: u32 = 0x0FFF_FFFF;

const HAS_OFFSET: u32 = 0x8000_0000;
const TYPE: u32 = 0x7000_0000;
const LENGTH: u32 = 0x0FFF_FFFF;
const STRING: u32 = 0;
const NUMERIC: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const NULL: u32 = 0x4000_0000;
const CONTAINER: u32 = 0x5000_0000;
/// One entry in this many holds the offset of its end instead of its length.
const STRIDE: usize = 32;

/// A value: to be written, or as it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// The server's own form of a number, as it stands in another value.
    Number(&'a [u8]),
    Text(&'a [u8]),
    /// An object or an array.
    Container(&'a [u8]),
}

impl<'a> From<&'a str> for Item<'a> {
    fn from(text: &'a str) -> Self {
        Item::Text(text.as_bytes())
    }
}

impl<'a, T: Into<Item<'a>>> From<Option<T>> for Item<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Item::Null, Into::into)
    }
}

impl From<i32> for Item<'_> {
    fn from(number: i32) -> Self {
        Item::Int(number.into())
    }
}

impl From<i64> for Item<'_> {
    fn from(number: i64) -> Self {
        Item::Int(number)
    }
}

impl From<bool> for Item<'_> {
    fn from(value: bool) -> Self {
        Item::Bool(value)
    }
}

impl Item<'_> {
    /// What it is, for an error message.
    pub fn kind(self) -> &'static str {
        match self {
            Item::Null => "null",
            Item::Bool(_) => "a boolean",
            Item::Int(_) | Item::Number(_) => "a number",
            Item::Text(_) => "a string",
            Item::Container(bytes) if Container::new(bytes).is_object() => "an object",
            Item::Container(_) => "an array",
        }
    }
}

/// An object without members.
pub const EMPTY: Item<'static> = Item::Container(&OBJECT.to_ne_bytes());

/// The value is larger than the server's form allows.
#[derive(Debug, PartialEq)]
pub struct TooLarge;

impl From<TooLarge> for Refusal {
    fn from(_: TooLarge) -> Refusal {
        Refusal::new("the JSON would be larger than 256 MB", "Keep data where it belongs, and point at it.")
    }
}

fn in_order(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Builds an object. The keys must be distinct; they may come in any order.
pub fn object(members: &mut [(&str, Item<'_>)]) -> Result<Vec<u8>, TooLarge> {
    members.sort_unstable_by(|(a, _), (b, _)| in_order(a.as_bytes(), b.as_bytes()));
    let keys = members.iter().map(|(key, _)| Item::Text(key.as_bytes()));
    write(OBJECT | members.len() as u32, members.len() * 2, keys.chain(members.iter().map(|(_, item)| *item)))
}

/// Builds an object that has the members of another and these, which win.
pub fn with<'a>(object: Container<'a>, changes: &[(&'a str, Item<'a>)]) -> Result<Vec<u8>, TooLarge> {
    let kept = object.members().filter_map(|(key, item)| Some((std::str::from_utf8(key).ok()?, item)));
    let kept = kept.filter(|(key, _)| !changes.iter().any(|(other, _)| other == key));
    let mut members: Vec<(&str, Item<'_>)> = kept.chain(changes.iter().copied()).collect();
    self::object(&mut members)
}

/// Builds an array.
pub fn array<'a>(items: impl ExactSizeIterator<Item = Item<'a>>) -> Result<Vec<u8>, TooLarge> {
    let count = items.len();
    write(ARRAY | count as u32, count, items)
}

/// Builds a value that stands by itself: a container as it is, anything else in the array of one
/// that the server wraps around it.
pub fn root(item: Item<'_>) -> Result<Vec<u8>, TooLarge> {
    match item {
        Item::Container(bytes) => Ok(bytes.to_vec()),
        item => write(ARRAY | SCALAR | 1, 1, std::iter::once(item)),
    }
}

fn write<'a>(header: u32, entries: usize, items: impl Iterator<Item = Item<'a>>) -> Result<Vec<u8>, TooLarge> {
    let data = 4 + entries * 4;
    let mut out = Vec::with_capacity(data + entries * 16);
    out.extend_from_slice(&header.to_ne_bytes());
    out.resize(data, 0);
    for (place, item) in items.enumerate() {
        let start = out.len();
        let kind = append(&mut out, item);
        let end = out.len() - data;
        if end > LENGTH as usize {
            return Err(TooLarge);
        }
        let entry =
            if place % STRIDE == 0 { kind | HAS_OFFSET | end as u32 } else { kind | (out.len() - start) as u32 };
        out[4 + place * 4..8 + place * 4].copy_from_slice(&entry.to_ne_bytes());
    }
    Ok(out)
}

/// Appends the bytes of an item, and says what kind of entry it has.
fn append(out: &mut Vec<u8>, item: Item<'_>) -> u32 {
    let aligned = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(4), 0);
    match item {
        Item::Null => NULL,
        Item::Bool(value) => {
            if value {
                TRUE
            } else {
                FALSE
            }
        }
        Item::Text(bytes) => {
            out.extend_from_slice(bytes);
            STRING
        }
        Item::Int(number) => {
            aligned(out);
            number::append_whole(out, number);
            NUMERIC
        }
        Item::Number(bytes) => {
            aligned(out);
            out.extend_from_slice(bytes);
            NUMERIC
        }
        Item::Container(bytes) => {
            aligned(out);
            out.extend_from_slice(bytes);
            CONTAINER
        }
    }
}

/// An object or array, read in place. The bytes are trusted: they are the server's own.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a>(&'a [u8]);

impl<'a> Container<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn word(&self, place: usize) -> u32 {
        let bytes = &self.0[place * 4..place * 4 + 4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// How many elements or members it has.
    pub fn len(&self) -> usize {
        (self.word(0) & COUNT) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_object(&self) -> bool {
        self.word(0) & OBJECT != 0
    }

    pub fn is_array(&self) -> bool {
        self.word(0) & (ARRAY | SCALAR) == ARRAY
    }

    /// The value that a root holds: itself, or the scalar it is wrapped around.
    pub fn item(&self) -> Item<'a> {
        if self.word(0) & SCALAR != 0 { self.entry(0) } else { Item::Container(self.0) }
    }

    fn entries(&self) -> usize {
        if self.is_object() { self.len() * 2 } else { self.len() }
    }

    /// Where the bytes of an entry end, counted from the end of the entries.
    fn end(&self, place: usize) -> usize {
        let mut end = 0;
        let mut place = place as isize;
        while place >= 0 {
            let entry = self.word(1 + place as usize);
            end += (entry & LENGTH) as usize;
            if entry & HAS_OFFSET != 0 {
                break;
            }
            place -= 1;
        }
        end
    }

    fn entry(&self, place: usize) -> Item<'a> {
        let start = if place == 0 { 0 } else { self.end(place - 1) };
        self.between(place, start, self.end(place))
    }

    /// The item of an entry whose bytes lie between these, counted from the end of the entries.
    fn between(&self, place: usize, start: usize, end: usize) -> Item<'a> {
        let data = 4 + self.entries() * 4;
        let bytes = |start: usize| &self.0[data + start..data + end];
        match self.word(1 + place) & TYPE {
            NUMERIC => Item::Number(bytes(start.next_multiple_of(4))),
            FALSE => Item::Bool(false),
            TRUE => Item::Bool(true),
            NULL => Item::Null,
            CONTAINER => Item::Container(bytes(start.next_multiple_of(4))),
            _ => Item::Text(bytes(start)),
        }
    }

    /// The items of this many entries, one after the other.
    fn run(self, first: usize, count: usize) -> impl ExactSizeIterator<Item = Item<'a>> {
        let mut end = if first == 0 || count == 0 { 0 } else { self.end(first - 1) };
        (first..first + count).map(move |place| {
            let (start, entry) = (end, self.word(1 + place));
            end = (entry & LENGTH) as usize + if entry & HAS_OFFSET == 0 { start } else { 0 };
            self.between(place, start, end)
        })
    }

    /// The elements of an array.
    pub fn elements(self) -> impl ExactSizeIterator<Item = Item<'a>> {
        self.run(0, self.len())
    }

    /// The keys of an object.
    pub fn keys(self) -> impl Iterator<Item = &'a [u8]> {
        self.run(0, self.len()).filter_map(|key| match key {
            Item::Text(key) => Some(key),
            _ => None,
        })
    }

    /// The members of an object: keys and values.
    pub fn members(self) -> impl Iterator<Item = (&'a [u8], Item<'a>)> {
        self.keys().zip(self.run(self.len(), self.len()))
    }

    /// The value of a key of an object.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            let Item::Text(found) = self.entry(middle) else { return None };
            match in_order(found, key.as_bytes()) {
                Ordering::Equal => return Some(self.entry(self.len() + middle)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }
}
