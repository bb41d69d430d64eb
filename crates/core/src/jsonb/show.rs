//! A value as people read it in a message: its beginning, however large it is.

use super::number::Decimal;
use super::{Container, Item};
use std::fmt::{self, Display, Write};

/// Letters that are shown.
const LONGEST: usize = 60;
/// What is nested deeper is left out.
const DEEPEST: usize = 16;

/// The beginning of a value's text, and its size if that is not all. What is not shown is not looked at.
pub fn shown(item: Item<'_>) -> String {
    let mut head = Head { text: String::new(), letters: 0 };
    match (write!(head, "{}", Text(item, 0)), item) {
        (Ok(()), _) => head.text,
        (Err(_), Item::Text(bytes) | Item::Container(bytes)) => format!("{}… ({} bytes)", head.text, bytes.len()),
        (Err(_), _) => format!("{}…", head.text),
    }
}

struct Head {
    text: String,
    letters: usize,
}

impl Write for Head {
    /// Fails when there is no more room.
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for letter in part.chars() {
            if self.letters == LONGEST {
                return Err(fmt::Error);
            }
            self.letters += 1;
            self.text.push(letter);
        }
        Ok(())
    }
}

struct Text<'a>(Item<'a>, usize);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Item::Null => f.write_str("null"),
            Item::Bool(flag) => write!(f, "{flag}"),
            Item::Int(number) => write!(f, "{number}"),
            Item::Number(bytes) => match Decimal::read(bytes) {
                Some(number) => write!(f, "{number}"),
                None => f.write_str("NaN"),
            },
            Item::Text(text) => quoted(f, text),
            Item::Container(_) if self.1 == DEEPEST => f.write_char('…'),
            Item::Container(bytes) => self.container(f, Container::new(bytes)),
        }
    }
}

impl Text<'_> {
    fn container(&self, f: &mut fmt::Formatter<'_>, container: Container<'_>) -> fmt::Result {
        let inner = |item| Text(item, self.1 + 1);
        if container.is_object() {
            f.write_char('{')?;
            for (number, (key, item)) in container.members().enumerate() {
                f.write_str(if number > 0 { "," } else { "" })?;
                quoted(f, key)?;
                write!(f, ":{}", inner(item))?;
            }
            return f.write_char('}');
        }
        f.write_char('[')?;
        for (number, item) in container.elements().enumerate() {
            f.write_str(if number > 0 { "," } else { "" })?;
            write!(f, "{}", inner(item))?;
        }
        f.write_char(']')
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    for part in text.utf8_chunks() {
        for letter in part.valid().chars() {
            match letter {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                letter if letter < ' ' => write!(f, "\\u{:04x}", letter as u32)?,
                letter => f.write_char(letter)?,
            }
        }
        if !part.invalid().is_empty() {
            f.write_char(char::REPLACEMENT_CHARACTER)?;
        }
    }
    f.write_char('"')
}
