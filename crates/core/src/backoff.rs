//! How long a failed job waits before it may run again.

/// The exponent stops growing here: the eleventh and every later failure waits `base * 1024`.
const LARGEST_EXPONENT: i64 = 10;

/// Seconds to wait after a failure: `base * 2^least(attempts - 1, 10)`; or whatever else `base` counts.
///
/// `attempts` counts the failures including this one, so the first failure waits `base`.
pub fn backoff_seconds(base: i64, attempts: i64) -> i64 {
    let exponent = (attempts - 1).clamp(0, LARGEST_EXPONENT);
    base.saturating_mul(1_i64 << exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_documented_ladder() {
        let ladder: Vec<i64> = (1..=12).map(|n| backoff_seconds(10, n)).collect();
        assert_eq!(ladder, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 10240]);
    }

    proptest! {
        #[test]
        fn never_shrinks_and_never_passes_the_cap(base in 0_i64..1_000_000, attempts in 1_i64..10_000) {
            let now = backoff_seconds(base, attempts);
            prop_assert!(now <= backoff_seconds(base, attempts + 1));
            prop_assert!(now <= base * 1024);
            prop_assert!(now >= base);
        }
    }
}
