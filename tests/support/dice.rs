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

    /// True in this share of cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// One of a list that may be empty.
    pub fn any_of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }
}

/// The seed that is to be tried again (`AGENTQ_SEED`).
fn wanted() -> Option<u64> {
    std::env::var("AGENTQ_SEED").ok().map(|seed| seed.parse().expect("AGENTQ_SEED is a number"))
}

/// The seeds of every run; or the one that is to be tried again.
pub fn seeds(count: u64) -> Vec<u64> {
    wanted().map_or_else(|| (1..=count).collect(), |seed| vec![seed])
}

/// As many seeds, the last of which no run has had before; or the one that is to be tried again.
pub fn seeds_and_a_new_one(count: u64) -> Vec<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_nanos() as u64;
    wanted().map_or_else(|| (1..count).chain([now]).collect(), |seed| vec![seed])
}
