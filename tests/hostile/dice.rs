//! Chance that can be had again: a small generator of numbers, and the seeds to begin with.

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        // splitmix64: any seed will do, also 0.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, sides: usize) -> usize {
        (self.next() % sides.max(1) as u64) as usize
    }

    /// True so many times in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// One that is the same in every run, and one that never was; or the one that is to be tried again (AGENTQ_SEED).
pub fn seeds() -> Vec<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_nanos() as u64;
    match std::env::var("AGENTQ_SEED") {
        Ok(seed) => vec![seed.parse().expect("AGENTQ_SEED is a number")],
        Err(_) => vec![1, now],
    }
}

/// How many calls are made in all (AGENTQ_FUZZ_CALLS).
pub fn calls() -> usize {
    std::env::var("AGENTQ_FUZZ_CALLS").map_or(20_000, |calls| calls.parse().expect("AGENTQ_FUZZ_CALLS is a number"))
}
