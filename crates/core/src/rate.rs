//! How many jobs may be begun in a time, and what has been begun.
//!
//! A bucket lets `burst` through at once and fills at an even rate. A window lets no more than `amount`
//! through in any stretch of its length: it is kept in slices, and a slice counts until all of it has passed.

use serde::{Deserialize, Serialize};

/// Microseconds since the server's epoch.
type Micros = i64;

/// Slices that a window is made of.
const SLICES: usize = 16;

/// A rate: at most `amount` in a time of `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub amount: u32,
    pub per: Micros,
    /// What may be begun at once after a pause. Of a bucket only.
    pub burst: u32,
    pub is_window: bool,
}

impl Rate {
    fn slice(&self) -> Micros {
        (self.per / SLICES as i64).max(1)
    }

    fn per_micro(&self) -> f64 {
        f64::from(self.amount) / self.per.max(1) as f64
    }
}

/// What has been begun under a rate, and what the other side said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// When the rest was true. Of a window: the number of the newest slice.
    at: i64,
    /// Of a bucket: what is missing from it.
    used: f64,
    /// Of a window: the newest first, and how long each is.
    slices: [u32; SLICES + 1],
    slice: Micros,
    /// The other side lets nobody through before this moment.
    closed_until: Micros,
    /// When the job fits that was refused last. Until then lighter ones wait behind it.
    opens_at: Micros,
    /// When it will have forgotten everything, if nothing more comes.
    idle_at: Micros,
}

impl Gauge {
    /// Brings the gauge to this moment.
    fn pass_time(&mut self, rate: &Rate, now: Micros) {
        // If the rule has changed, what was there counts as begun when something was last begun.
        let last = if self.slice == 0 { self.at } else { (self.at + 1).saturating_mul(self.slice) }.min(now);
        if !rate.is_window {
            if self.slice != 0 {
                *self = Gauge { used: f64::from(self.sum()), at: last, slices: [0; SLICES + 1], slice: 0, ..*self };
            }
            let left = self.used - (now - self.at).max(0) as f64 * rate.per_micro();
            self.used = left.max(0.0);
            self.at = self.at.max(now);
            return;
        }
        let (newest, slice) = (now.div_euclid(rate.slice()), rate.slice());
        if self.slice != slice {
            let sum = self.sum().saturating_add(self.used.ceil() as u32);
            self.slices = [0; SLICES + 1];
            (self.slices[0], self.slice, self.at, self.used) = (sum, slice, last.div_euclid(slice), 0.0);
        }
        let passed = (newest - self.at).clamp(0, SLICES as i64 + 1) as usize;
        self.slices.rotate_right(passed);
        self.slices[..passed].fill(0);
        self.at = self.at.max(newest);
    }

    fn sum(&self) -> u32 {
        self.slices.iter().fold(0, |sum, slice| sum.saturating_add(*slice))
    }

    /// When a job of this weight may be begun; None: now. A job that is heavier than the whole rate may be begun when
    /// nothing else counts.
    fn fits_at(&self, rate: &Rate, weight: u32, now: Micros) -> Option<Micros> {
        if rate.amount == 0 {
            return Some(Micros::MAX);
        }
        if !rate.is_window {
            let room = f64::from(rate.burst.saturating_sub(weight));
            let excess = self.used - room;
            // What is left of a rounding error does not count.
            if excess <= 1e-6 {
                return None;
            }
            return Some(now.saturating_add((excess / rate.per_micro()).ceil() as i64));
        }
        let room = rate.amount.saturating_sub(weight);
        let mut sum = self.sum();
        if sum <= room {
            return None;
        }
        for (age, begun) in self.slices.iter().enumerate().rev() {
            sum -= (*begun).min(sum);
            if sum <= room {
                return Some((self.at - age as i64 + SLICES as i64 + 1) * self.slice);
            }
        }
        Some(Micros::MAX)
    }

    /// When a job of this weight may be begun; None: now. Who is refused comes first when that time has come.
    pub fn opens(&mut self, rate: Option<&Rate>, weight: u32, now: Micros) -> Option<Micros> {
        let mut at = Some(self.closed_until.max(self.opens_at)).filter(|at| *at > now);
        if let (None, Some(rate)) = (at, rate) {
            self.pass_time(rate, now);
            at = self.fits_at(rate, weight, now);
            self.opens_at = at.unwrap_or_default();
        }
        at
    }

    /// A job of this weight is begun.
    pub fn take(&mut self, rate: &Rate, weight: u32, now: Micros) {
        self.pass_time(rate, now);
        if rate.is_window {
            self.slices[0] = self.slices[0].saturating_add(weight);
            self.idle_at = now.saturating_add(rate.per).saturating_add(2 * rate.slice());
        } else {
            self.used += f64::from(weight);
            self.idle_at = now.saturating_add((self.used / rate.per_micro()).ceil() as i64);
        }
    }

    /// What may be begun now, of a rate.
    pub fn left(&mut self, rate: &Rate, now: Micros) -> u32 {
        self.pass_time(rate, now);
        if rate.is_window {
            rate.amount.saturating_sub(self.sum())
        } else {
            (f64::from(rate.burst) - self.used + 1e-6).max(0.0) as u32
        }
    }

    /// Notes how much the other side says that it still lets through. The gauge does not believe more than it knows of:
    /// what was begun here may not have arrived there.
    pub fn remain(&mut self, rate: &Rate, remaining: u32, now: Micros) {
        let left = self.left(rate, now);
        if left > remaining {
            self.take(rate, left - remaining, now);
        }
    }

    /// Notes that the other side lets nobody through before this moment. A moment that has passed opens the gauge.
    pub fn close(&mut self, until: Micros, now: Micros) {
        self.closed_until = if until > now { self.closed_until.max(until) } else { 0 };
        self.idle_at = self.idle_at.max(self.closed_until);
    }

    /// Whether the other side lets nobody through.
    pub fn is_closed(&self, now: Micros) -> bool {
        self.closed_until > now
    }

    /// Lets jobs look again: the rule has changed.
    pub fn look_again(&mut self) {
        self.opens_at = 0;
    }

    /// Until when nobody is let through, as far as it is known; in the past: somebody may be.
    pub fn closed_until(&self) -> Micros {
        self.closed_until.max(self.opens_at)
    }

    /// Whether it says no more than a new one.
    pub fn is_idle(&self, now: Micros) -> bool {
        self.idle_at <= now && self.closed_until <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Micros = 1_000_000;
    const NOW: Micros = 800_000_000 * SECOND;

    fn bucket(amount: u32, burst: u32) -> Rate {
        Rate { amount, per: 60 * SECOND, burst, is_window: false }
    }

    fn window(amount: u32) -> Rate {
        Rate { amount, per: 60 * SECOND, burst: amount, is_window: true }
    }

    fn begun(gauge: &mut Gauge, rate: &Rate, weight: u32, now: Micros) -> bool {
        let open = gauge.opens(Some(rate), weight, now).is_none();
        if open {
            gauge.take(rate, weight, now);
        }
        open
    }

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_an_even_rate() {
        let (rate, mut gauge) = (bucket(60, 10), Gauge::default());
        assert_eq!((0..20).filter(|_| begun(&mut gauge, &rate, 1, NOW)).count(), 10);
        assert_eq!(gauge.closed_until(), NOW + SECOND);
        assert!(!begun(&mut gauge, &rate, 1, NOW + SECOND - 1));
        assert!(begun(&mut gauge, &rate, 1, NOW + SECOND));
        assert!(!begun(&mut gauge, &rate, 1, NOW + SECOND + 1));
        assert!(gauge.is_idle(NOW + 12 * SECOND) && !gauge.is_idle(NOW + 10 * SECOND));
    }

    #[test]
    fn who_is_heavier_than_the_bucket_waits_for_a_full_one() {
        let (rate, mut gauge) = (bucket(60, 10), Gauge::default());
        assert!(begun(&mut gauge, &rate, 5, NOW));
        assert!(!begun(&mut gauge, &rate, 30, NOW));
        // Nobody passes while it waits.
        assert!(!begun(&mut gauge, &rate, 1, NOW + SECOND));
        assert!(begun(&mut gauge, &rate, 30, NOW + 5 * SECOND));
        // And all of it has to come in again.
        assert!(!begun(&mut gauge, &rate, 1, NOW + 25 * SECOND));
        assert!(begun(&mut gauge, &rate, 1, NOW + 26 * SECOND));
    }

    #[test]
    fn what_the_other_side_says_holds() {
        let (rate, mut gauge) = (bucket(60, 10), Gauge::default());
        gauge.remain(&rate, 3, NOW);
        assert_eq!(gauge.left(&rate, NOW), 3);
        gauge.remain(&rate, 9, NOW);
        assert_eq!(gauge.left(&rate, NOW), 3, "no more than it knows of");
        gauge.close(NOW + 30 * SECOND, NOW);
        gauge.close(NOW + 20 * SECOND, NOW);
        assert_eq!(gauge.opens(Some(&rate), 1, NOW), Some(NOW + 30 * SECOND));
        assert_eq!(gauge.opens(None, 1, NOW), Some(NOW + 30 * SECOND), "also without a rule");
        gauge.close(NOW, NOW);
        assert_eq!(gauge.opens(Some(&rate), 1, NOW), None);
    }

    #[test]
    fn a_rule_that_changes_its_kind_takes_over_what_was_begun() {
        let mut gauge = Gauge::default();
        for (number, rate) in [window(10), bucket(10, 10), window(10), bucket(10, 10)].iter().enumerate() {
            let now = NOW + number as i64;
            assert!(begun(&mut gauge, rate, 2, now), "{rate:?}");
            assert_eq!(gauge.left(rate, now), 8 - 2 * number as u32, "{rate:?}");
        }
        // And forgets it in time, also if nobody asks between the change and then.
        for (before, after) in [(window(10), bucket(10, 10)), (bucket(10, 10), window(10))] {
            let mut gauge = Gauge::default();
            gauge.take(&before, 5, NOW);
            assert_eq!(gauge.left(&after, NOW + 200 * SECOND), 10, "{after:?}");
        }
        for rate in [window(10), bucket(10, 10)] {
            gauge.take(&rate, 1, NOW + 10);
            assert_eq!(gauge.left(&rate, NOW + 200 * SECOND), 10, "{rate:?}");
            assert!(begun(&mut gauge, &rate, 10, NOW + 200 * SECOND));
            gauge = Gauge::default();
        }
    }

    #[test]
    fn nothing_is_begun_where_nothing_may_be() {
        for rate in [bucket(0, 0), bucket(0, 5), window(0)] {
            assert!(!begun(&mut Gauge::default(), &rate, 1, NOW), "{rate:?}");
        }
    }

    proptest! {
        #[test]
        fn no_stretch_as_long_as_the_window_has_more_than_its_amount(
            steps in proptest::collection::vec((0_i64..20 * SECOND, 1_u32..4), 1..300),
        ) {
            let (rate, mut gauge) = (window(10), Gauge::default());
            let (mut now, mut log): (Micros, Vec<(Micros, u32)>) = (NOW, Vec::new());
            for (pause, weight) in steps {
                now += pause;
                if begun(&mut gauge, &rate, weight, now) {
                    log.push((now, weight));
                    let sum: u32 = log.iter().filter(|(at, _)| *at > now - rate.per).map(|(_, weight)| weight).sum();
                    prop_assert!(sum <= 10);
                } else {
                    let at = gauge.closed_until();
                    prop_assert!(at > now && at <= now + rate.per + 2 * rate.slice());
                }
            }
        }

        #[test]
        fn a_bucket_never_lets_more_through_than_it_holds_and_gets(
            steps in proptest::collection::vec((0_i64..3 * SECOND, 1_u32..5), 1..300),
        ) {
            let (rate, mut gauge) = (bucket(60, 10), Gauge::default());
            let (mut now, mut sum) = (NOW, 0);
            for (pause, weight) in steps {
                now += pause;
                sum += if begun(&mut gauge, &rate, weight, now) { weight } else { 0 };
                prop_assert!(f64::from(sum) <= 10.0 + (now - NOW) as f64 / 1e6 + 1e-3);
            }
        }
    }
}
