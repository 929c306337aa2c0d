//! How evenly something was shared.

/// Jain's fairness index of the shares: `(sum x)^2 / (n sum x^2)`, from `1/n` (one has all) to 1
/// (all have the same). R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
///
/// `None` without shares, or if all are zero: nothing was shared, evenly or not.
pub fn jain(shares: &[u64]) -> Option<f64> {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_spans_one_nth_to_one() {
        assert_eq!(jain(&[5, 5, 5, 5]), Some(1.0));
        assert_eq!(jain(&[0, 0, 9, 0]), Some(0.25));
        assert_eq!(jain(&[1, 3]), Some(0.8));
    }

    #[test]
    fn nothing_shared_has_no_index() {
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0, 0]), None);
    }

    #[test]
    fn huge_shares_do_not_overflow() {
        assert!((jain(&[u64::MAX, u64::MAX]).unwrap() - 1.0).abs() < 1e-12);
    }
}
