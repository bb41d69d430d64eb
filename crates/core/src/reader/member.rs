//! A member of an object, which may be there or not.

use super::Reader;
use crate::Refusal;
use crate::jsonb::Item;
use serde_json::Value;
use std::ops::RangeInclusive;

/// What an object has under a key; nothing, if it has null. Every way to read it answers with None if it is not there.
#[derive(Clone, Debug)]
pub struct Member<'a>(Option<Reader<'a>>);

impl<'a> From<Option<Reader<'a>>> for Member<'a> {
    fn from(reader: Option<Reader<'a>>) -> Self {
        Member(reader.filter(|reader| reader.item() != Item::Null))
    }
}

impl<'a> Member<'a> {
    /// What is not there.
    pub const ABSENT: Member<'static> = Member(None);

    /// What a refusal of this value advises.
    pub fn hint(self, hint: &'a str) -> Member<'a> {
        Member(self.0.map(|reader| reader.hint(hint)))
    }

    /// A value that no refusal shows.
    pub fn secret(self) -> Member<'a> {
        Member(self.0.map(Reader::secret))
    }

    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// The value itself.
    pub fn reader(self) -> Option<Reader<'a>> {
        self.0
    }

    /// What this makes of it.
    pub fn read<T>(self, read: impl FnOnce(Reader<'a>) -> Result<T, Refusal>) -> Result<Option<T>, Refusal> {
        self.0.map(read).transpose()
    }

    pub fn object(self, accepted: &[&str]) -> Result<Option<Reader<'a>>, Refusal> {
        self.read(|reader| reader.object(accepted).map(|()| reader))
    }

    pub fn value(self) -> Result<Option<Value>, Refusal> {
        self.read(|reader| reader.value())
    }

    pub fn text(self) -> Result<Option<&'a str>, Refusal> {
        self.read(|reader| reader.text())
    }

    pub fn at_most(self, longest: usize) -> Result<Option<&'a str>, Refusal> {
        self.read(|reader| reader.at_most(longest))
    }

    pub fn name(self, longest: usize) -> Result<Option<&'a str>, Refusal> {
        self.read(|reader| reader.name(longest))
    }

    pub fn parsed<T>(self, what: &str, parse: impl FnOnce(&'a str) -> Option<T>) -> Result<Option<T>, Refusal> {
        self.read(|reader| reader.parsed(what, parse))
    }

    pub fn names(self, most: usize, longest: usize) -> Result<Option<Vec<String>>, Refusal> {
        self.read(|reader| reader.names(most, longest))
    }

    pub fn flag(self) -> Result<Option<bool>, Refusal> {
        self.read(|reader| reader.flag())
    }

    pub fn whole<N: Copy + Into<i64> + TryFrom<i64>>(self, range: RangeInclusive<N>) -> Result<Option<N>, Refusal> {
        self.read(|reader| reader.whole(range))
    }

    pub fn number(self, range: RangeInclusive<f64>) -> Result<Option<f64>, Refusal> {
        self.read(|reader| reader.number(range))
    }

    pub fn seconds(self, range: RangeInclusive<f64>) -> Result<Option<f64>, Refusal> {
        self.read(|reader| reader.seconds(range))
    }

    pub fn word(self, words: &[&'static str]) -> Result<Option<&'static str>, Refusal> {
        self.read(|reader| reader.word(words))
    }
}
