//! The one way in which JSON is read: options, templates, manifests and policies.
//!
//! A `Reader` is a value in the server's binary form and the path to it, such as `p_options.retry` or `steps[3].when`.
//! It is read where it stands and nothing is parsed, so a document of any size takes no memory beside what its reader
//! keeps. `Reader::open` looks once through the whole (`Bounds`) and refuses what is too large, too deep or unreadable.
//!
//! A refusal begins with the path: `p_options.acks must be true or false, not 3`, or, where more is to be said,
//! `steps[3].when: there is no step "draft"`. Its hint is what the caller has set with `hint`, or says what to write. A
//! value is shown by its beginning. What should be an object is shown by its kind alone, because it may be what a job
//! carries, and a secret not at all.
//!
//! A member that is null counts as absent.

mod bounds;
mod member;

#[cfg(test)]
mod tests;

pub use bounds::{Bounds, FREE, TIMES};
pub use member::Member;

use crate::error::{Refusal, shown};
use crate::input;
use crate::jsonb::{self, Container, Decimal, Item};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// A value, and where it stands in what was handed in.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    path: Cow<'a, str>,
    /// Whether the paths of what is inside begin with this one.
    leads: bool,
    item: Item<'a>,
    hint: Option<&'a str>,
    is_secret: bool,
}

impl<'a> Reader<'a> {
    /// A document whose path is its name, such as `p_options`. It is looked through first.
    pub fn open(name: &'a str, document: Item<'a>) -> Result<Reader<'a>, Refusal> {
        Bounds::DOCUMENT.check(name, document)?;
        Ok(Reader::at(name, document))
    }

    /// A value that has been looked through, at this path.
    pub fn at(path: impl Into<Cow<'a, str>>, item: Item<'a>) -> Reader<'a> {
        Reader { path: path.into(), leads: true, item, hint: None, is_secret: false }
    }

    /// A document without a path, called `what`: the paths inside begin with their keys.
    pub fn nameless(what: &'a str, item: Item<'a>) -> Reader<'a> {
        Reader { leads: false, ..Reader::at(what, item) }
    }

    /// An object without members, in place of one that was not given.
    pub fn empty(name: &'a str) -> Reader<'a> {
        Reader::at(name, jsonb::EMPTY)
    }

    /// What a refusal of this value advises.
    pub fn hint(mut self, hint: &'a str) -> Reader<'a> {
        self.hint = Some(hint);
        self
    }

    /// A value that no refusal shows.
    pub fn secret(mut self) -> Reader<'a> {
        self.is_secret = true;
        self
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn item(&self) -> Item<'a> {
        self.item
    }

    /// The value, parsed. For what is kept or handed on as JSON.
    pub fn value(&self) -> Result<Value, Refusal> {
        Bounds::DOCUMENT.parse(&self.path, self.item)
    }

    fn part(&self, path: String, item: Item<'a>) -> Reader<'a> {
        Reader { is_secret: self.is_secret, ..Reader::at(path, item) }
    }

    /// The path of a member.
    pub fn inside(&self, key: &str) -> String {
        if self.leads { format!("{}.{key}", self.path) } else { key.to_owned() }
    }

    /// The refusal that it must be something else.
    pub fn must_be(&self, what: &str) -> Refusal {
        let found = if self.is_secret { "this".to_owned() } else { jsonb::shown(self.item) };
        self.not_as_wanted(what, &found)
    }

    fn not_as_wanted(&self, what: &str, found: &str) -> Refusal {
        let hint = self.hint.map_or_else(|| format!("Give {} {what}, or leave it out.", self.path), str::to_owned);
        Refusal::new(format!("{} must be {what}, not {found}", self.path), hint)
    }

    /// The refusal that says what else is wrong with it.
    pub fn refuse(&self, problem: impl AsRef<str>, hint: impl Into<String>) -> Refusal {
        Refusal::new(format!("{}: {}", self.path, problem.as_ref()), hint)
    }

    /// The refusal of somebody else, with the path in front.
    pub fn told(&self, refusal: Refusal) -> Refusal {
        self.refuse(refusal.message, refusal.hint)
    }

    pub fn is_object(&self) -> bool {
        self.container().is_some_and(|container| container.is_object())
    }

    pub fn is_list(&self) -> bool {
        self.container().is_some_and(|container| container.is_array())
    }

    pub fn is_text(&self) -> bool {
        matches!(self.item, Item::Text(_))
    }

    fn container(&self) -> Option<Container<'a>> {
        match self.item {
            Item::Container(bytes) => Some(Container::new(bytes)),
            _ => None,
        }
    }

    /// An object with any keys.
    pub fn map(&self) -> Result<Container<'a>, Refusal> {
        self.container().filter(Container::is_object).ok_or_else(|| {
            let found = match self.item {
                Item::Null | Item::Bool(_) | Item::Int(_) | Item::Number(_) if !self.is_secret => {
                    jsonb::shown(self.item)
                }
                other => other.kind().to_owned(),
            };
            self.not_as_wanted("a JSON object", &found)
        })
    }

    /// An object with no other keys than these.
    pub fn object(&self, accepted: &[&str]) -> Result<(), Refusal> {
        let accepts = || format!("It accepts: {}.", accepted.join(", "));
        let object = self.map().map_err(|refusal| match self.hint {
            None => Refusal::new(refusal.message, format!("Write an object in braces. {}", accepts())),
            Some(_) => refusal,
        })?;
        match object.keys().find(|key| !accepted.iter().any(|known| known.as_bytes() == *key)) {
            None => Ok(()),
            Some(key) => {
                let key = shown(&String::from_utf8_lossy(key));
                Err(Refusal::new(format!("{} has the unknown key \"{key}\"", self.path), accepts()))
            }
        }
    }

    /// The member of an object with this key.
    pub fn member(&self, key: &str) -> Member<'a> {
        let item = self.container().filter(Container::is_object).and_then(|object| object.get(key));
        Member::from(item.map(|item| self.part(self.inside(key), item)))
    }

    /// A member that must be there: if it is not, null stands in its place and is refused like any other.
    pub fn needed(&self, key: &str) -> Reader<'a> {
        self.member(key).reader().unwrap_or_else(|| self.part(self.inside(key), Item::Null))
    }

    /// The members of an object, those that are null included.
    pub fn members(&self) -> Result<impl Iterator<Item = (&'a str, Reader<'a>)>, Refusal> {
        let members = self.map()?.members();
        Ok(members.map(|(key, item)| {
            let key = std::str::from_utf8(key).unwrap_or_default();
            (key, self.part(self.inside(&shown(key)), item))
        }))
    }

    /// The elements of a list, however many they are.
    pub fn elements(&self) -> Result<impl ExactSizeIterator<Item = Reader<'a>>, Refusal> {
        let list = self.container().filter(Container::is_array).ok_or_else(|| self.must_be("a list"))?;
        Ok(list.elements().enumerate().map(|(number, item)| {
            let element = self.part(format!("{}[{number}]", self.path), item);
            Reader { hint: self.hint, ..element }
        }))
    }

    /// The elements of a list of such a length; `of` says what they are.
    pub fn list(
        &self,
        of: &str,
        lengths: RangeInclusive<usize>,
    ) -> Result<impl ExactSizeIterator<Item = Reader<'a>>, Refusal> {
        let (least, most) = (*lengths.start(), *lengths.end());
        let wanted = || match least {
            0 => self.must_be(&format!("a list of at most {most} {of}")),
            least => self.must_be(&format!("a list of {least} to {most} {of}")),
        };
        let fits = self.container().is_some_and(|list| list.is_array() && lengths.contains(&list.len()));
        if fits { self.elements() } else { Err(wanted()) }
    }

    /// A text, empty or not.
    pub fn text(&self) -> Result<&'a str, Refusal> {
        match self.item {
            Item::Text(bytes) => std::str::from_utf8(bytes).map_err(|_| self.must_be("a text in UTF-8")),
            _ => Err(self.must_be("a text")),
        }
    }

    /// A text, empty or not, of at most this many bytes.
    pub fn at_most(&self, longest: usize) -> Result<&'a str, Refusal> {
        let text = self.text()?;
        if text.len() <= longest {
            return Ok(text);
        }
        let problem = format!("{} is {} bytes, more than the {longest} allowed", self.path, text.len());
        Err(Refusal::new(problem, "Shorten it. What is long belongs elsewhere, with a reference here."))
    }

    /// A text that says something, and is no longer than this many bytes.
    pub fn name(&self, longest: usize) -> Result<&'a str, Refusal> {
        input::name(&self.path, self.text()?, longest)
    }

    /// A text in which somebody else finds something, such as a moment or an id.
    pub fn parsed<T>(&self, what: &str, parse: impl FnOnce(&'a str) -> Option<T>) -> Result<T, Refusal> {
        self.text().ok().and_then(parse).ok_or_else(|| self.must_be(what))
    }

    /// At most this many names, as a list or, if it is only one, by itself.
    pub fn names(&self, most: usize, longest: usize) -> Result<Vec<String>, Refusal> {
        if self.is_text() {
            return Ok(vec![self.name(longest)?.to_owned()]);
        }
        if !self.is_list() {
            return Err(self.must_be("a text or a list of texts"));
        }
        self.list("texts", 0..=most)?.map(|name| name.name(longest).map(str::to_owned)).collect()
    }

    pub fn flag(&self) -> Result<bool, Refusal> {
        match self.item {
            Item::Bool(flag) => Ok(flag),
            _ => Err(self.must_be("true or false")),
        }
    }

    /// A whole number, of the type that the range has.
    pub fn whole<N: Copy + Into<i64> + TryFrom<i64>>(&self, range: RangeInclusive<N>) -> Result<N, Refusal> {
        let (low, high): (i64, i64) = ((*range.start()).into(), (*range.end()).into());
        let number = match self.item {
            Item::Int(number) => Some(number),
            Item::Number(bytes) => Decimal::read(bytes).and_then(|number| number.whole()),
            _ => None,
        };
        let number = number.filter(|number| (low..=high).contains(number)).and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| self.must_be(&format!("a whole number from {low} to {high}")))
    }

    pub fn number(&self, range: RangeInclusive<f64>) -> Result<f64, Refusal> {
        let (low, high) = (range.start(), range.end());
        self.double(&range).ok_or_else(|| self.must_be(&format!("a number from {low} to {high}")))
    }

    pub fn seconds(&self, range: RangeInclusive<f64>) -> Result<f64, Refusal> {
        let (low, high) = (range.start(), range.end());
        self.double(&range).ok_or_else(|| self.must_be(&format!("a number of seconds from {low} to {high}")))
    }

    fn double(&self, range: &RangeInclusive<f64>) -> Option<f64> {
        let number = match self.item {
            Item::Int(number) => Some(number as f64),
            Item::Number(bytes) => Decimal::read(bytes).and_then(|number| number.number()?.as_f64()),
            _ => None,
        };
        number.filter(|number| range.contains(number))
    }

    /// One of a few words.
    pub fn word(&self, words: &[&'static str]) -> Result<&'static str, Refusal> {
        let word = self.text().ok().and_then(|word| words.iter().find(|known| **known == word));
        word.copied().ok_or_else(|| {
            let all = words.join(", ");
            let hint = self.hint.map_or_else(|| format!("Use one of: {all}."), str::to_owned);
            Refusal::new(self.must_be(&format!("one of {all}")).message, hint)
        })
    }
}

/// A document for a test, which lives as long as the test.
#[cfg(test)]
pub(crate) fn document(value: &Value) -> Item<'static> {
    let bytes = jsonb::from_value(value).expect("it is small");
    Container::new(bytes.leak()).item()
}
