//! Student's t distribution: the regularised incomplete beta function `I_x(df/2, 1/2)` by its
//! continued fraction or series, and its inverse by Newton steps.

use core::f64::consts::PI;

use crate::error::{Error, positive};

/// Relative size of a term at which a series, a continued fraction or a Newton iteration has
/// converged.
const EPSILON: f64 = 1e-16;

/// Limit of steps of a series or fraction; none needs a hundred.
const STEPS: u32 = 10_000;

/// Steps of the quantile search; bisection alone would need fewer than this.
const QUANTILE_STEPS: u32 = 300;

/// `Gamma(a + 1/2) / Gamma(a)` for `a` > 0: the asymptotic series of its logarithm from 30 on, and
/// below that the recurrence. A difference of two `ln_gamma` would lose digits with growing `a`.
pub(crate) fn gamma_ratio(mut a: f64) -> f64 {
    let mut product = 1.0;
    while a < 30.0 {
        product *= a / (a + 0.5);
        a += 1.0;
    }
    let (inverse, square) = (1.0 / a, 1.0 / (a * a));
    let series =
        -1.0 / 8.0 + square * (1.0 / 192.0 + square * (-1.0 / 640.0 + square * 17.0 / 14_336.0));
    product * a.sqrt() * (inverse * series).exp()
}

/// `I_x(a, 1/2)` over `x^a y^(1/2) / B(a, 1/2)`, by the continued fraction of Didonato and Morris
/// (1992, equation 9 and BFRAC), for `x` below the mean of the distribution. It takes
/// `y = 1 - x` as it is: with many degrees of freedom `x` is so near 1 that it has lost its digits.
#[expect(clippy::many_single_char_names, reason = "the names of the paper")]
fn beta_fraction(a: f64, y: f64) -> f64 {
    const B: f64 = 0.5;
    let x = 1.0 - y;
    let c = 1.0 + (a + B) * y - B;
    let c1 = 1.0 + 1.0 / a;
    let (mut p, mut s) = (1.0, a + 1.0);
    let (mut above_before, mut above) = (0.0, 1.0);
    let (mut below_before, mut below) = (1.0, c / c1);
    let mut result = c1 / c;
    for step in 1..=STEPS {
        let n = f64::from(step);
        let t = n / a;
        let w = n * (B - n) * x;
        let e = a / s;
        let alpha = p * (p + B / a) * e * e * w * x;
        let beta = n + w / s + (1.0 + t) / (c1 + t + t) * (c + n * (y + 1.0));
        p = 1.0 + t;
        s += 2.0;
        (above_before, above) = (above, alpha * above_before + beta * above);
        (below_before, below) = (below, alpha * below_before + beta * below);
        let last = result;
        result = above / below;
        if (result - last).abs() <= EPSILON * result {
            break;
        }
        // Scaled by the denominator, so that neither part overflows.
        (above_before, below_before) = (above_before / below, below_before / below);
        (above, below) = (result, 1.0);
    }
    result
}

/// `I_y(1/2, a)` over `2 y^(1/2) x^a / B(a, 1/2)` by its series of positive terms.
fn beta_series(a: f64, y: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for step in 0..STEPS {
        let k = f64::from(step);
        term *= (0.5 + a + k) / (1.5 + k) * y;
        sum += term;
        if term <= EPSILON * sum {
            break;
        }
    }
    sum
}

/// P(T > t) for `t` >= 0 and `df` > 0, with full relative precision far out in the tail.
fn tail_of_positive(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    let a = df / 2.0;
    let square = t * t / df;
    let y = if square.is_finite() { square / (1.0 + square) } else { 1.0 };
    let front = (a * ln_share(t, df)).exp() * (y / PI).sqrt() * gamma_ratio(a);
    if y > 1.5 / (a + 2.5) {
        0.5 * front * beta_fraction(a, y)
    } else {
        0.5 - front * beta_series(a, y)
    }
}

/// `ln(df / (df + t^2))`, also where the square overflows.
fn ln_share(t: f64, df: f64) -> f64 {
    let square = t * t / df;
    if square.is_finite() { -square.ln_1p() } else { df.ln() - 2.0 * t.ln() }
}

/// P(T > t) for any `t`; `df` > 0.
pub(crate) fn upper_tail(t: f64, df: f64) -> f64 {
    if t >= 0.0 { tail_of_positive(t, df) } else { 1.0 - tail_of_positive(-t, df) }
}

fn density(t: f64, df: f64) -> f64 {
    (0.5 * (df + 1.0) * ln_share(t, df)).exp() * gamma_ratio(df / 2.0) / (PI * df).sqrt()
}

/// The `t` with P(T <= t) = `p`, for `p` strictly between 0 and 1 and `df` > 0.
pub(crate) fn quantile(p: f64, df: f64) -> f64 {
    if p < 0.5 { -tail_quantile(p, df) } else { tail_quantile(1.0 - p, df) }
}

/// The `t` >= 0 with P(T > t) = `tail`, for `tail` in (0, 0.5]: Newton steps inside a shrinking
/// bracket. Infinite where `t` does not fit a number.
pub(crate) fn tail_quantile(tail: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while tail_of_positive(high, df) > tail {
        low = high;
        high *= 2.0;
        if high.is_infinite() {
            return f64::INFINITY;
        }
    }
    let mut t = f64::midpoint(low, high);
    for _ in 0..QUANTILE_STEPS {
        let excess = tail_of_positive(t, df) - tail;
        if excess > 0.0 {
            low = t;
        } else {
            high = t;
        }
        let newton = t + excess / density(t, df);
        let next = if newton > low && newton < high { newton } else { f64::midpoint(low, high) };
        let step = (next - t).abs();
        t = next;
        if step <= EPSILON * t {
            break;
        }
    }
    t
}

/// P(T <= t) for Student's t with `df` degrees of freedom; 0 and 1 at the infinities.
///
/// # Errors
/// [`Error::NotFinite`] if `t` is NaN, [`Error::BadParameter`] unless `df` is positive and finite.
pub fn t_cdf(t: f64, df: f64) -> Result<f64, Error> {
    positive("df", df)?;
    if t.is_nan() { Err(Error::NotFinite { index: 0 }) } else { Ok(upper_tail(-t, df)) }
}

/// The `t` with P(T <= t) = `p` for Student's t with `df` degrees of freedom.
///
/// # Errors
/// [`Error::NotAProbability`] unless `p` lies strictly between 0 and 1, [`Error::BadParameter`]
/// unless `df` is positive and finite, [`Error::Overflow`] if `t` does not fit a number.
pub fn t_quantile(p: f64, df: f64) -> Result<f64, Error> {
    positive("df", df)?;
    crate::error::finite(quantile(crate::error::open_unit("p", p)?, df))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64, relative: f64) {
        assert!((left - right).abs() <= relative * right.abs(), "{left} is not {right}");
    }

    #[test]
    fn closed_forms_of_one_and_two_degrees_hold_far_into_the_tail() {
        for p in [0.6, 0.9, 0.975, 0.999, 0.999_999] {
            // Cauchy, and the quadratic of two degrees of freedom.
            close(quantile(p, 1.0), (PI * (p - 0.5)).tan(), 1e-9);
            let alpha = 4.0 * p * (1.0 - p);
            close(quantile(p, 2.0), 2.0 * (p - 0.5) * (2.0 / alpha).sqrt(), 1e-12);
        }
        close(quantile(1e-300, 1.0), -1.0 / (PI * 1e-300), 1e-12);
    }

    #[test]
    fn many_degrees_of_freedom_approach_the_normal() {
        close(quantile(0.975, 1e6), 1.959_966_356_814_22, 1e-10);
        close(quantile(0.999, 1e9), 3.090_232_314_317_8, 1e-12);
        close(quantile(0.999, 1e15), 3.090_232_306_167_814, 1e-12);
    }

    #[test]
    fn the_quantile_inverts_the_distribution() {
        for df in [0.3, 1.0, 1.5, 3.0, 17.0, 250.0, 1e5] {
            for p in [1e-12, 0.01, 0.3, 0.5, 0.7, 0.99] {
                close(t_cdf(quantile(p, df), df).unwrap(), p, 1e-11);
            }
        }
    }

    #[test]
    fn hostile_arguments() {
        for p in [f64::NAN, 1.5, 0.0, 1.0, -0.1] {
            assert!(matches!(t_quantile(p, 3.0), Err(Error::NotAProbability { .. })), "{p}");
        }
        for df in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(t_quantile(0.9, df), Err(Error::BadParameter { .. })), "{df}");
            assert!(matches!(t_cdf(0.0, df), Err(Error::BadParameter { .. })), "{df}");
        }
        close(quantile(0.5, 3.0).abs() + 1.0, 1.0, 1e-12);
        assert!(t_cdf(f64::NAN, 3.0).is_err());
        assert_eq!(t_cdf(f64::INFINITY, 3.0), Ok(1.0));
        assert_eq!(t_cdf(f64::NEG_INFINITY, 3.0), Ok(0.0));
        assert!(t_quantile(1e-300, 0.01).is_err());
    }
}
