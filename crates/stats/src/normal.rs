//! The normal distribution: `erfc` of libm, and its inverse by Newton steps on the logarithm.

use core::f64::consts::{PI, SQRT_2};

use crate::error::{Error, open_unit};

/// Newton steps of the quantile; from its starting point it needs fewer than ten.
const STEPS: u32 = 60;

/// P(Z > z), with full relative precision in the upper tail.
pub(crate) fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / SQRT_2)
}

/// P(Z <= z), with full relative precision in the lower tail.
pub(crate) fn cdf(z: f64) -> f64 {
    upper_tail(-z)
}

pub(crate) fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// The `z` >= 0 with P(Z > z) = `tail`, for `tail` in (0, 0.5].
///
/// `ln P(Z > z)` is concave, and `P(Z > z) <= exp(-z^2 / 2) / 2`. Newton's method on a concave
/// function, started on the far side of the root, approaches it from that side without
/// overshooting.
pub(crate) fn tail_quantile(tail: f64) -> f64 {
    let mut z = (-2.0 * (2.0 * tail).ln()).max(0.0).sqrt();
    for _ in 0..STEPS {
        let upper = upper_tail(z);
        if upper <= 0.0 {
            // Only where the tail is subnormal; there the bound is exact enough to step back.
            z *= 1.0 - 1e-3;
            continue;
        }
        let step = (upper.ln() - tail.ln()) * upper / density(z);
        z += step;
        if step.abs() <= 1e-16 * z.abs() {
            break;
        }
    }
    z.max(0.0)
}

/// The `z` with P(Z <= z) = `p`, for `p` strictly between 0 and 1.
pub(crate) fn quantile(p: f64) -> f64 {
    if p < 0.5 { -tail_quantile(p) } else { tail_quantile(1.0 - p) }
}

/// P(Z <= z) of the standard normal distribution; 0 and 1 at the infinities.
///
/// # Errors
/// [`Error::NotFinite`] if `z` is NaN.
pub fn normal_cdf(z: f64) -> Result<f64, Error> {
    if z.is_nan() { Err(Error::NotFinite { index: 0 }) } else { Ok(cdf(z)) }
}

/// The `z` with P(Z <= z) = `p`.
///
/// # Errors
/// [`Error::NotAProbability`] unless `p` lies strictly between 0 and 1.
pub fn normal_quantile(p: f64) -> Result<f64, Error> {
    open_unit("p", p).map(quantile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_inverts_the_distribution_into_the_far_tail() {
        for exponent in 1..300 {
            let p = 10_f64.powi(-exponent);
            let back = cdf(quantile(p));
            // A relative error of one rounding in z is z^2 roundings in the tail.
            assert!((back / p - 1.0).abs() < 1e-12, "{p}: {back}");
        }
        assert!(quantile(0.5).abs() < 1e-300);
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-15);
    }

    #[test]
    fn hostile_arguments() {
        assert!(matches!(normal_cdf(f64::NAN), Err(Error::NotFinite { .. })));
        assert_eq!(normal_cdf(f64::INFINITY), Ok(1.0));
        assert_eq!(normal_cdf(f64::NEG_INFINITY), Ok(0.0));
        for p in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(normal_quantile(p), Err(Error::NotAProbability { .. })), "{p}");
        }
        assert!(normal_quantile(5e-324).unwrap() < -38.0);
    }
}
