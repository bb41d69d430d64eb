//! Which results a step may read: those of steps that have ended before it begins.

use super::{INPUT, Step};
use crate::Refusal;
use crate::error::shown;
use crate::reader::Reader;
use std::collections::{HashMap, HashSet};

/// Words of bits that each step has, one for every step that is looked for at once.
const WORDS: usize = 8;
const AT_ONCE: usize = WORDS * 64;

/// A step reads only results of steps before it: others may not be there yet.
pub fn check(steps: &[Step<'_>], list: &Reader<'_>) -> Result<(), Refusal> {
    let asked = asked(steps);
    let Some((step, read)) = asked.chunk_by(|one, other| one.1 / AT_ONCE == other.1 / AT_ONCE).find_map(|asked| {
        let before = before(steps, asked[0].1 / AT_ONCE * AT_ONCE);
        asked.iter().copied().find(|(step, read)| !has(&before[*step], read % AT_ONCE))
    }) else {
        return Ok(());
    };
    let name = shown(&steps[read].name);
    Err(Refusal::new(
        format!("{}[{step}]: it reads the result of \"{name}\", which need not have ended before it", list.path()),
        "Name that step in depends_on, or one that comes behind it.",
    ))
}

/// The steps that read a result of one that they do not wait for themselves, and that one; those of the same group of
/// results stand together.
fn asked(steps: &[Step<'_>]) -> Vec<(usize, usize)> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut asked = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let Some(spec) = step.spec.as_ref().filter(|spec| !spec.reads.is_empty()) else { continue };
        if numbers.is_empty() {
            numbers = steps.iter().enumerate().map(|(number, step)| (step.name.as_str(), number)).collect();
        }
        let parents: HashSet<usize> = step.parents.iter().map(|parent| parent.step).collect();
        let reads = spec.reads.iter().filter(|name| *name != INPUT);
        let reads = reads.filter_map(|name| numbers.get(name.as_str()).copied());
        asked.extend(reads.filter(|read| !parents.contains(read)).map(|read| (number, read)));
    }
    asked.sort_by_key(|(_, read)| read / AT_ONCE);
    asked
}

/// For each step a bit for every one of the steps from `first` on that comes before it, directly or not.
fn before(steps: &[Step<'_>], first: usize) -> Vec<[u64; WORDS]> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|number| steps[*number].level);
    let mut before = vec![[0_u64; WORDS]; steps.len()];
    for number in order {
        let mut bits = [0_u64; WORDS];
        for parent in &steps[number].parents {
            bits.iter_mut().zip(before[parent.step]).for_each(|(bits, before)| *bits |= before);
            if (first..first + AT_ONCE).contains(&parent.step) {
                let bit = parent.step - first;
                bits[bit / 64] |= 1 << (bit % 64);
            }
        }
        before[number] = bits;
    }
    before
}

fn has(bits: &[u64; WORDS], bit: usize) -> bool {
    bits[bit / 64] & (1 << (bit % 64)) != 0
}
