//! Access tokens: what they look like, and what is kept of them.

use sha2::{Digest, Sha256};
use std::ops::RangeInclusive;

/// What a token is for: a person at the console, a program, or an agent's tools.
pub const KINDS: [&str; 3] = ["console", "api", "mcp"];
/// What may limit a token further than its role does: the levels that act by themselves.
pub const SCOPES: [&str; 5] = ["producer", "proposer", "worker", "operator", "reader"];
/// How long a token may last, in seconds: up to a year.
pub const LIFETIMES: RangeInclusive<i32> = 1..=31_536_000;
/// A role has at most about this many tokens that are in force.
pub const MOST_TOKENS: i64 = 1_000;

/// How long a token of a kind lasts unless its issuer says otherwise, in seconds.
pub fn usual_lifetime(kind: &str) -> i32 {
    const DAY: i32 = 86_400;
    match kind {
        "console" => DAY / 3,
        "mcp" => DAY,
        _ => 90 * DAY,
    }
}

/// The text of a token: a mark by which scanners for secrets know it, and 32 random bytes in hex.
pub fn secret(random: [[u8; 16]; 2]) -> String {
    format!("agq_{}", crate::canonical::hex(random.as_flattened()))
}

/// What is stored of a token. It is random, so its plain hash gives nothing away.
pub fn hash(token: &str) -> String {
    crate::canonical::hex(&Sha256::digest(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_mark_and_all_of_its_bytes() {
        let token = secret([[0xab; 16], [0x01; 16]]);
        assert_eq!(token, format!("agq_{}{}", "ab".repeat(16), "01".repeat(16)));
    }

    #[test]
    fn the_hash_of_a_token_is_plain_sha_256() {
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_person_has_a_shorter_token_than_a_program() {
        assert!(usual_lifetime("console") < usual_lifetime("mcp") && usual_lifetime("mcp") < usual_lifetime("api"));
        assert!(KINDS.iter().all(|kind| LIFETIMES.contains(&usual_lifetime(kind))));
    }
}
