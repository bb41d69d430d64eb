//! The middle and the spread of figures.

/// The middle of some figures.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[middle]),
        _ => Some((figures[middle - 1] + figures[middle]) / 2.0),
    }
}

/// How far the figures lie apart: half of the distance from lowest to highest, as a share of the
/// middle.
pub fn spread(figures: &[f64]) -> Option<f64> {
    let lowest = figures.iter().copied().min_by(f64::total_cmp)?;
    let highest = figures.iter().copied().max_by(f64::total_cmp)?;
    Some((highest - lowest) / 2.0 / median(figures.iter().copied())?)
}

/// The figure that so many in a hundred do not exceed. The figures must be sorted.
pub fn percentile(sorted: &[f64], hundredths: usize) -> Option<f64> {
    sorted.get((sorted.len() * hundredths / 100).min(sorted.len().checked_sub(1)?)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn the_spread_is_half_of_the_range_over_the_median() {
        assert_eq!(spread(&[90.0, 100.0, 110.0]), Some(0.1));
        assert_eq!(spread(&[7.0]), Some(0.0));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn a_percentile_never_falls_off_the_end() {
        let figures: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&figures, 50), Some(51.0));
        assert_eq!(percentile(&figures, 100), Some(100.0));
        assert_eq!(percentile(&[7.0], 99), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
