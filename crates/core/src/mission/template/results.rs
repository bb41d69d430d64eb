//! Which results a step may read: those of steps that have ended before it begins.

use super::{INPUT, Parent, Step};
use crate::Refusal;
use crate::error::shown;
use crate::mission::status::Required;
use crate::reader::Reader;
use std::collections::{HashMap, HashSet};

/// Words of bits that each step has, one for every step that is looked for at once.
const WORDS: usize = 8;
pub const AT_ONCE: usize = WORDS * 64;

type Bits = [u64; WORDS];
const NONE: Bits = [0; WORDS];

/// A step reads only results of steps before it: others may not be there yet.
pub fn check(steps: &[Step<'_>], list: &Reader<'_>) -> Result<(), Refusal> {
    let asked = asked(steps);
    let Some((step, read)) = asked.chunk_by(|one, other| one.1 / AT_ONCE == other.1 / AT_ONCE).find_map(|asked| {
        let before = ended_before(steps, asked[0].1 / AT_ONCE * AT_ONCE);
        asked.iter().copied().find(|(step, read)| !has(&before[*step], read % AT_ONCE))
    }) else {
        return Ok(());
    };
    let name = shown(&steps[read].name);
    Err(Refusal::new(
        format!("{}[{step}]: it reads the result of \"{name}\", which need not have ended before it", list.path()),
        "Name that step in depends_on, or one that comes behind it; with a join of any or a quorum it may still be under way.",
    ))
}

/// The steps that read a result, and the one whose result that is, but for those that a step surely waits for itself; those
/// of the same group of results stand together.
fn asked(steps: &[Step<'_>]) -> Vec<(usize, usize)> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut asked = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let Some(spec) = step.spec.as_ref().filter(|spec| !spec.reads.is_empty()) else { continue };
        if numbers.is_empty() {
            numbers = steps.iter().enumerate().map(|(number, step)| (step.name.as_str(), number)).collect();
        }
        let waits_for_all = step.need as usize == step.parents.len();
        // What failures lead to looks at all of them: those that have not failed are not there.
        let looks_at_failures = step.parents.iter().all(|parent| parent.required == Required::Failed);
        let parents = step.parents.iter().filter(|_| waits_for_all || looks_at_failures);
        let parents: HashSet<usize> = parents.map(|parent| parent.step).collect();
        let reads = spec.reads.iter().filter(|name| *name != INPUT);
        let reads = reads.filter_map(|name| numbers.get(name.as_str()).copied());
        asked.extend(reads.filter(|read| !parents.contains(read)).map(|read| (number, read)));
    }
    asked.sort_by_key(|(_, read)| read / AT_ONCE);
    asked
}

/// For each step a bit for every one of the steps from `first` on that has ended, whatever happens, when it begins.
///
/// A step begins when as many of its parents have ended as its join asks for, whichever these are. So it is sure of what at
/// least one of them is sure of in every choice of that many. A parent that succeeded or failed had begun, and is sure of
/// what that asks for. One that only has to end may have been skipped, and that may come sooner: as soon as too few of its
/// own parents can still end as it asks.
pub fn ended_before(steps: &[Step<'_>], first: usize) -> Vec<Bits> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|number| steps[*number].level);
    // What has ended when a step begins, and what has when it ends in any way.
    let (mut begun, mut ended) = (vec![NONE; steps.len()], vec![NONE; steps.len()]);
    for number in order {
        let step = &steps[number];
        let (all, need) = (step.parents.len(), step.need as usize);
        let through = |parent: &Parent, known: &[Bits]| {
            let mut bits = known[parent.step];
            if (first..first + AT_ONCE).contains(&parent.step) {
                let bit = parent.step - first;
                bits[bit / 64] |= 1 << (bit % 64);
            }
            bits
        };
        let asked = step.parents.iter().map(|parent| {
            let had_begun = matches!(parent.required, Required::Succeeded | Required::Failed);
            through(parent, if had_begun { &begun } else { &ended })
        });
        let when_begun = in_at_least(asked, all + 1 - need.min(all));
        let when_skipped = in_at_least(step.parents.iter().map(|parent| through(parent, &ended)), need);
        begun[number] = when_begun;
        ended[number] = std::array::from_fn(|word| when_begun[word] & when_skipped[word]);
    }
    begun
}

/// The bits that at least `least` of these have. They are counted for all bits at once, digit by digit.
fn in_at_least(all: impl Iterator<Item = Bits>, least: usize) -> Bits {
    let mut digits: Vec<Bits> = Vec::new();
    for mut carry in all {
        for digit in &mut digits {
            for (digit, carry) in digit.iter_mut().zip(&mut carry) {
                (*digit, *carry) = (*digit ^ *carry, *digit & *carry);
            }
        }
        if carry != NONE {
            digits.push(carry);
        }
    }
    // From the highest digit down: more so far, or as many so far.
    let places = digits.len().max((usize::BITS - least.leading_zeros()) as usize);
    let (mut more, mut equal) = (NONE, [u64::MAX; WORDS]);
    for place in (0..places).rev() {
        let digit = digits.get(place).copied().unwrap_or(NONE);
        let wanted = if least >> place & 1 == 1 { u64::MAX } else { 0 };
        for word in 0..WORDS {
            more[word] |= equal[word] & digit[word] & !wanted;
            equal[word] &= !(digit[word] ^ wanted);
        }
    }
    std::array::from_fn(|word| more[word] | equal[word])
}

pub fn has(bits: &Bits, bit: usize) -> bool {
    bits[bit / 64] & (1 << (bit % 64)) != 0
}
