//! Versions of the schema: which of them a library serves.

/// How a schema stands to the library that is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    Current,
    /// The one before: served until it is updated.
    Previous,
    Older,
    /// The library is older than the schema.
    Newer,
    /// No version at all.
    Unknown,
}

/// The numbers of a version. What follows a third one, as in `0.9.0.next`, names a state of its making.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// How a schema of version `found` stands to a library of version `library` that also serves `previous`.
pub fn compare(found: &str, library: &str, previous: Option<&str>) -> Schema {
    let (Some(found), Some(library)) = (numbers(found), numbers(library)) else { return Schema::Unknown };
    match found.cmp(&library) {
        std::cmp::Ordering::Equal => Schema::Current,
        std::cmp::Ordering::Greater => Schema::Newer,
        std::cmp::Ordering::Less if previous.and_then(numbers) == Some(found) => Schema::Previous,
        std::cmp::Ordering::Less => Schema::Older,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_and_the_previous_schema_are_told_from_all_others() {
        let compare = |found| compare(found, "0.10.0", Some("0.9.0"));
        assert_eq!(compare("0.10.0"), Schema::Current);
        assert_eq!(compare("0.10.0.next"), Schema::Current);
        assert_eq!(compare("0.9.0"), Schema::Previous);
        assert_eq!(compare("0.9.0.next"), Schema::Previous);
        assert_eq!(compare("0.8.0"), Schema::Older);
        assert_eq!(compare("0.9.1"), Schema::Older);
        assert_eq!(compare("0.11.0"), Schema::Newer);
        assert_eq!(compare("1.0.0"), Schema::Newer);
        for text in ["", "0.9", "x.y.z", "0.9.", "-1.0.0"] {
            assert_eq!(compare(text), Schema::Unknown, "{text}");
        }
    }

    #[test]
    fn the_first_version_has_no_previous_one() {
        assert_eq!(compare("0.8.0", "0.9.0", None), Schema::Older);
        assert_eq!(compare("0.9.0", "0.9.0", None), Schema::Current);
    }
}
