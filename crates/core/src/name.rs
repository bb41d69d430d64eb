//! A key as a table of fixed size can hold it.

/// The longest name: that of a fair line with all that it can have.
pub const LONGEST_NAME: usize = 200;

#[derive(Clone, Copy)]
pub struct Name {
    length: u8,
    bytes: [u8; LONGEST_NAME],
}

impl Name {
    pub const NONE: Name = Name { length: 0, bytes: [0; LONGEST_NAME] };

    /// None: the key is too long.
    pub fn new(key: &str) -> Option<Name> {
        let mut name = Name { length: u8::try_from(key.len()).ok()?, ..Name::NONE };
        name.bytes.get_mut(..key.len())?.copy_from_slice(key.as_bytes());
        Some(name)
    }

    pub fn is(&self, key: &str) -> bool {
        &self.bytes[..usize::from(self.length)] == key.as_bytes()
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}
