//! Time-ordered ids that say at which node they were made.
//!
//! An id is a uuid of version 7: the milliseconds of its time, then a tail of 64 bits, then the number of the node.
//!
//! ```text
//!  48 bits         4 bits     12 bits  2 bits     52 bits   10 bits
//!  milliseconds    version    tail     variant    tail      node
//! ```
//!
//! Whoever makes ids counts the tail up from a place that chance has chosen in each millisecond. So the ids of one maker are
//! ordered, and no two of them are alike, however many there are; those of two makers meet with a chance of one in 2^63.

/// How many bits of an id are the number of its node, and the largest such number.
const NODE_BITS: u32 = 10;
pub const LAST_NODE: u16 = (1 << NODE_BITS) - 1;
/// The bits of the tail behind the variant.
const LOW_TAIL_BITS: u32 = 52;
const VERSION: u128 = 7;
const VARIANT: u128 = 0b10;

/// Makes ids, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Maker {
    /// The time of the last id, in milliseconds since 1970, and its tail.
    last: Option<(u64, u64)>,
}

impl Maker {
    /// The next id. The clock may stand still or go back: then the id keeps the last time. `chance` is asked once in a
    /// millisecond.
    pub fn next(&mut self, now_ms: u64, node: u16, chance: impl FnOnce() -> u64) -> [u8; 16] {
        let (ms, tail) = match self.last {
            Some((ms, u64::MAX)) if ms >= now_ms => (ms + 1, chance() >> 1),
            Some((ms, tail)) if ms >= now_ms => (ms, tail + 1),
            // The upper half is left free for those that follow.
            _ => (now_ms, chance() >> 1),
        };
        self.last = Some((ms, tail));
        let (high, low) = (u128::from(tail >> LOW_TAIL_BITS), u128::from(tail & ((1 << LOW_TAIL_BITS) - 1)));
        let id = u128::from(ms) << 80
            | VERSION << 76
            | high << 64
            | VARIANT << 62
            | low << NODE_BITS
            | u128::from(node.min(LAST_NODE));
        id.to_be_bytes()
    }
}

/// The node at which an id was made; None where an id is not time-ordered, such as a token.
pub fn node_of(id: [u8; 16]) -> Option<u16> {
    let is_ordered = id[6] >> 4 == VERSION as u8 && id[8] >> 6 == VARIANT as u8;
    is_ordered.then(|| u16::from_be_bytes([id[14], id[15]]) & LAST_NODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn milliseconds(id: [u8; 16]) -> u64 {
        u64::from_be_bytes([0, 0, id[0], id[1], id[2], id[3], id[4], id[5]])
    }

    proptest! {
        #[test]
        fn ids_of_one_maker_rise_and_name_their_node_whatever_the_clock_and_chance_do(
            steps in prop::collection::vec((0..1u64 << 40, any::<u64>(), 0..=LAST_NODE), 1..200),
        ) {
            let (mut maker, mut last) = (Maker::default(), None);
            for (now, chance, node) in steps {
                let id = maker.next(now, node, || chance);
                prop_assert!(last < Some(id), "{last:?} {id:?}");
                prop_assert!(milliseconds(id) >= now);
                prop_assert_eq!(node_of(id), Some(node));
                prop_assert_eq!((id[6] >> 4, id[8] >> 6), (7, 2));
                last = Some(id);
            }
        }

        #[test]
        fn ids_of_two_nodes_never_meet(now in 0..1u64 << 40, chance: u64, a in 0..=LAST_NODE, b in 0..=LAST_NODE) {
            prop_assume!(a != b);
            let of = |node: u16| {
                let mut maker = Maker::default();
                (0..100).map(|_| maker.next(now, node, || chance)).collect::<BTreeSet<[u8; 16]>>()
            };
            prop_assert!(of(a).is_disjoint(&of(b)));
        }
    }

    #[test]
    fn a_time_has_room_for_more_ids_than_anybody_makes_and_what_comes_behind_the_last_has_the_next_time() {
        let mut maker = Maker { last: Some((5, u64::MAX)) };
        let id = maker.next(5, 3, || 8);
        assert_eq!((milliseconds(id), node_of(id)), (6, Some(3)));
    }

    #[test]
    fn chance_is_asked_once_in_a_millisecond() {
        let (mut maker, mut asked) = (Maker::default(), 0);
        for now in [7, 7, 7, 6, 8, 8] {
            maker.next(now, 0, || {
                asked += 1;
                u64::MAX
            });
        }
        assert_eq!(asked, 2);
    }

    #[test]
    fn what_is_not_time_ordered_has_no_node() {
        let mut id = Maker::default().next(1, 1023, || 0);
        assert_eq!(node_of(id), Some(1023));
        id[6] = 0x40;
        assert_eq!(node_of(id), None);
        assert_eq!(node_of([0xff; 16]), None);
    }
}
