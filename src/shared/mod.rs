//! Shared memory: what the sessions of a server tell each other without writing it down.
//!
//! It holds marks, counts and wake-ups, never the truth: it is empty after a crash, and absent without
//! `shared_preload_libraries`. Everything works then too, only less promptly.

#![allow(unsafe_code, reason = "shared memory, and the latches of other processes")]

pub mod news;
pub mod process;
pub mod seats;
pub mod zeroed;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Asks the server for the memory of what no room owns. The rooms ask for their own after that.
pub fn init() {
    seats::init();
    news::init();
    PRELOADED.store(true, SeqCst);
}

/// Whether there is shared memory.
pub fn is_preloaded() -> bool {
    PRELOADED.load(SeqCst)
}

/// A text of bounded length that shared memory can hold.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    length: u16,
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    pub const EMPTY: Self = Text { length: 0, bytes: [0; N] };

    /// The text, cut where it does not fit.
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(N);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; N];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Text { length: end as u16, bytes }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length as usize]).unwrap_or_default()
    }
}
