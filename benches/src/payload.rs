//! What jobs carry.

/// Bytes of an ordinary payload.
pub const ORDINARY: usize = 200;

/// A payload of about so many bytes, as a job's signal would be: 200, or more with a longer note. No
/// two of a batch are the same.
pub fn payload(number: u32, bytes: usize) -> String {
    let signal = format!(
        "{{\"task\": \"thumbnail.make\", \"object\": \"media/2026/10/{number:08}.jpg\", \"sizes\": [160, 640, 1280], \
         \"tenant\": \"7f0c2f4e-3a52-4c07-9a7e-51d9f1b0c3aa\", \"locale\": \"de_DE\", \"trace\": \"00-4bf92f3577b34da6\"}}"
    );
    if bytes <= ORDINARY {
        return signal;
    }
    let note = words(number, bytes - ORDINARY);
    format!("{}, \"note\": \"{note}\"}}", signal.trim_end_matches('}'))
}

/// Text that compresses about as badly as text does, so that a large payload stays large.
fn words(seed: u32, bytes: usize) -> String {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let letter = (state >> 33) % 27;
        text.push(if letter == 26 { ' ' } else { (b'a' + letter as u8) as char });
    }
    text
}

/// Many payloads as one JSON array.
pub fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_of_about_the_wanted_size_and_differ() {
        for bytes in [200, 1_000, 4_000] {
            let length = payload(0, bytes).len();
            assert!(length.abs_diff(bytes) <= 20, "{length} instead of {bytes}");
            assert_ne!(payload(1, bytes), payload(2, bytes));
        }
    }
}
