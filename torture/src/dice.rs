//! Chance that can be had again: a seed makes the same choices.

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        // A seed of small numbers alone would give similar beginnings.
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The low bits alone repeat too soon.
        (self.0 >> 16) % sides
    }

    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }
}
