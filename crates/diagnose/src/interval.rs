//! Confidence intervals of observed shares.

/// Two-sided 95 % quantile of the normal distribution.
pub(crate) const Z: f64 = 1.959_964;

/// Returns the 95 % interval of a share that was observed in `count` samples (Wilson 1927, without
/// continuity correction).
pub(crate) fn wilson(share: f64, count: u64) -> [f64; 2] {
    let n = count.max(1) as f64;
    let centre = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).max(0.0).sqrt();
    let scale = 1.0 + Z * Z / n;
    [((centre - half) / scale).max(0.0), ((centre + half) / scale).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_few_samples_is_wide() {
        // Newcombe (1998), table I: 81 of 263 and 1 of 29 by Wilson's method.
        let close = |interval: [f64; 2], expected: [f64; 2]| {
            interval.iter().zip(expected).all(|(a, b)| (a - b).abs() < 5e-5)
        };
        assert!(close(wilson(81.0 / 263.0, 263), [0.2553, 0.3662]));
        assert!(close(wilson(1.0 / 29.0, 29), [0.0061, 0.1718]));
        assert!(wilson(0.0, 0)[0] < 1e-9);
    }
}
