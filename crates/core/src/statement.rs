//! Files of SQL statements: each statement is a block with a name and typed parameters, read when the library is compiled.
//!
//! ```sql
//! -- name: lease_lock(job uuid, owner text)
//! -- Locks the lease, if this owner holds it.
//! SELECT lease_token FROM agentq_internal.job_lease WHERE job_id = $1 AND lease_owner = $2 FOR UPDATE
//! ```
//!
//! A block ends where the next one begins. `freely` behind the parameters lets the server plan the statement as it likes;
//! all others are pinned to indexes. A block that is missing or cannot be read does not compile.
//!
//! A block that begins with `-- before: lease_lock(job uuid, owner text)` has the statement for the schema of the version
//! before, if the one above needs what that version lacks. It has the same parameters, and the same columns.

/// The most parameters that a statement has.
pub const MOST_PARAMETERS: usize = 24;
/// What a block begins with, at the beginning of a line.
const MARK: &[u8] = b"-- name: ";
/// What a block for the schema of the version before begins with.
const BEFORE: &[u8] = b"-- before: ";

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Bool,
    Float8,
    Int4,
    Int4Array,
    Int8,
    Int8Array,
    Jsonb,
    Oid,
    Text,
    TextArray,
    TimestampTz,
    TimestampTzArray,
    Uuid,
    UuidArray,
}

/// A statement as its block says it.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub sql: &'static str,
    pub types: [Type; MOST_PARAMETERS],
    pub count: usize,
    pub freely: bool,
}

/// The block of this name, whatever the case of its letters.
pub const fn find(file: &'static str, name: &str) -> Block {
    match look_for(file, MARK, name) {
        Some(block) => block,
        None => panic!("the file has no block of this name"),
    }
}

/// The statement of this name for the schema of the version before, if that needs another one than `block`.
pub const fn find_before(file: &'static str, name: &str, block: &Block) -> Option<&'static str> {
    let Some(before) = look_for(file, BEFORE, name) else { return None };
    let mut number = 0;
    while number < block.count {
        assert!(before.types[number] as u8 == block.types[number] as u8, "both have parameters of the same types");
        number += 1;
    }
    assert!(before.count == block.count, "both have the same parameters");
    Some(before.sql)
}

const fn look_for(file: &'static str, mark: &[u8], name: &str) -> Option<Block> {
    let bytes = file.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if is_at(bytes, at, mark) && is_named(bytes, at + mark.len(), name.as_bytes()) {
            return Some(read(file, at + mark.len() + name.len()));
        }
        at = next_line(bytes, at);
    }
    None
}

/// Reads a block from the parenthesis of its parameters on.
const fn read(file: &'static str, mut at: usize) -> Block {
    let bytes = file.as_bytes();
    let (mut types, mut count) = ([Type::Bool; MOST_PARAMETERS], 0);
    at += 1;
    loop {
        at = skip(bytes, at);
        if bytes[at] == b')' {
            break;
        }
        // The name of the parameter, and its type.
        at = skip(bytes, word_end(bytes, at));
        let end = word_end(bytes, at);
        types[count] = type_named(file.split_at(end).0.split_at(at).1);
        count += 1;
        at = skip(bytes, end);
        if bytes[at] == b',' {
            at += 1;
        }
    }
    let freely = is_at(bytes, at, b") freely");
    let begin = next_line(bytes, at);
    let mut end = begin;
    while end < bytes.len() && !is_at(bytes, end, MARK) && !is_at(bytes, end, BEFORE) {
        end = next_line(bytes, end);
    }
    let sql = file.split_at(end).0.split_at(begin).1.trim_ascii();
    assert!(!sql.is_empty(), "a block has no statement");
    Block { sql, types, count, freely }
}

const fn is_at(bytes: &[u8], at: usize, wanted: &[u8]) -> bool {
    let mut number = 0;
    while number < wanted.len() {
        if at + number >= bytes.len() || bytes[at + number] != wanted[number] {
            return false;
        }
        number += 1;
    }
    true
}

const fn is_named(bytes: &[u8], at: usize, name: &[u8]) -> bool {
    let mut number = 0;
    while number < name.len() {
        if at + number >= bytes.len() || !bytes[at + number].eq_ignore_ascii_case(&name[number]) {
            return false;
        }
        number += 1;
    }
    at + number < bytes.len() && bytes[at + number] == b'('
}

const fn next_line(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'\n' {
        at += 1;
    }
    if at < bytes.len() { at + 1 } else { at }
}

/// Goes over blanks, and over the beginning of another line of the list.
const fn skip(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes[at], b' ' | b'\n' | b'-') {
        at += 1;
    }
    at
}

const fn word_end(bytes: &[u8], mut at: usize) -> usize {
    while !matches!(bytes[at], b' ' | b',' | b')' | b'\n') {
        at += 1;
    }
    at
}

const fn type_named(name: &str) -> Type {
    match name.as_bytes() {
        b"bool" => Type::Bool,
        b"float8" => Type::Float8,
        b"int4" => Type::Int4,
        b"int4[]" => Type::Int4Array,
        b"int8" => Type::Int8,
        b"int8[]" => Type::Int8Array,
        b"jsonb" => Type::Jsonb,
        b"oid" => Type::Oid,
        b"text" => Type::Text,
        b"text[]" => Type::TextArray,
        b"timestamptz" => Type::TimestampTz,
        b"timestamptz[]" => Type::TimestampTzArray,
        b"uuid" => Type::Uuid,
        b"uuid[]" => Type::UuidArray,
        _ => panic!("a parameter has a type that no statement takes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-- About all of them.\n\n\
        -- name: first()\n-- Says nothing.\nSELECT 1\n\n\
        -- name: second(job uuid, owners text[], now timestamptz) freely\nSELECT $1,\n    $2 -- name: third(x)\n\n\
        -- name: third(a int4,\n--   b int8[])\nSELECT $1 + $2\n";

    #[test]
    fn a_block_is_found_by_its_name() {
        const FIRST: Block = find(FILE, "FIRST");
        assert_eq!((FIRST.sql, FIRST.count, FIRST.freely), ("-- Says nothing.\nSELECT 1", 0, false));
        let third = find(FILE, "third");
        assert_eq!((third.sql, third.count, third.freely), ("SELECT $1 + $2", 2, false));
        assert_eq!(third.types[..2], [Type::Int4, Type::Int8Array]);
    }

    #[test]
    fn parameters_are_read_in_their_order() {
        let second = find(FILE, "Second");
        assert_eq!(second.types[..second.count], [Type::Uuid, Type::TextArray, Type::TimestampTz]);
        assert!(second.freely && second.sql.starts_with("SELECT $1,") && second.sql.ends_with("third(x)"));
    }

    #[test]
    fn the_version_before_may_have_another_statement_with_the_same_parameters() {
        const FILE: &str =
            "-- name: a(x int4)\nSELECT $1, new\n\n-- before: a(x int4)\nSELECT $1, NULL\n\n-- name: b()\nSELECT 2";
        let a = find(FILE, "A");
        assert_eq!((a.sql, find_before(FILE, "A", &a)), ("SELECT $1, new", Some("SELECT $1, NULL")));
        assert_eq!(find_before(FILE, "B", &find(FILE, "B")), None);
    }

    #[test]
    #[should_panic(expected = "the same types")]
    fn a_statement_for_the_version_before_has_the_same_types() {
        const FILE: &str = "-- name: a(x int4)\nSELECT $1\n\n-- before: a(x int8)\nSELECT $1";
        find_before(FILE, "a", &find(FILE, "a"));
    }

    #[test]
    #[should_panic(expected = "no block of this name")]
    fn a_block_that_is_not_there_is_missed() {
        find(FILE, "fir");
    }

    #[test]
    #[should_panic(expected = "a type that no statement takes")]
    fn a_type_that_is_not_known_is_refused() {
        find("-- name: odd(a money)\nSELECT 1", "odd");
    }

    #[test]
    #[should_panic(expected = "has no statement")]
    fn a_block_without_a_statement_is_refused() {
        find("-- name: empty()\n\n-- name: next()\nSELECT 1", "empty");
    }
}
