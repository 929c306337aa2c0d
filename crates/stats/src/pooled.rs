//! The mean of several means, as a source prints one number for a range of points.

use crate::error::{Error, open_unit};
use crate::sample::{Estimate, Sample};
use crate::student;

/// The unweighted mean of the means of `samples`, which are independent of each other, with its
/// two-sided interval: the squared standard errors add, and the degrees of freedom follow Welch and
/// Satterthwaite. The interval covers other seeds at the same points, not other points. `sd` is the
/// deviation that a single sample of this mean and interval would have; without an interval (a
/// sample of one value) it is `None`.
///
/// # Errors
/// [`Error::TooFew`] without a sample, [`Error::NotAProbability`] unless `confidence` lies strictly
/// between 0 and 1, [`Error::Overflow`] if an end does not fit a number.
pub fn mean_of_means(samples: &[Sample], confidence: f64) -> Result<Estimate, Error> {
    let tail = (1.0 - open_unit("confidence", confidence)?) / 2.0;
    if samples.is_empty() {
        return Err(Error::TooFew { have: 0, need: 1 });
    }
    let count = samples.len() as f64;
    let mean = samples.iter().map(|sample| sample.mean() / count).sum::<f64>();
    let n = samples.iter().map(Sample::n).sum();
    let square = |sample: &Sample| {
        let error = sample.sd()? / (sample.n() as f64).sqrt() / count;
        Some((error * error, (sample.n() - 1) as f64))
    };
    let parts: Option<Vec<(f64, f64)>> = samples.iter().map(square).collect();
    let Some(parts) = parts else {
        let (lo, hi) = (f64::NEG_INFINITY, f64::INFINITY);
        return Ok(Estimate { mean, sd: None, n, lo, hi });
    };
    let sum: f64 = parts.iter().map(|part| part.0).sum();
    if sum <= 0.0 {
        return Ok(Estimate { mean, sd: Some(0.0), n, lo: mean, hi: mean });
    }
    // In shares of the sum, so that nothing is raised to the fourth power.
    let df = 1.0 / parts.iter().map(|(square, df)| (square / sum).powi(2) / df).sum::<f64>();
    let half = crate::error::finite(student::tail_quantile(tail, df) * sum.sqrt())?;
    let sd = Some((sum * n as f64).sqrt());
    Ok(Estimate { mean, sd, n, lo: mean - half, hi: mean + half })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(all: &[&[f64]]) -> Vec<Sample> {
        all.iter().map(|values| Sample::new(*values).unwrap()).collect()
    }

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-9, "{left} is not {right}");
    }

    #[test]
    fn one_sample_keeps_its_own_interval() {
        let all = samples(&[&[1.0, 2.0, 4.0]]);
        let (ours, own) = (mean_of_means(&all, 0.95).unwrap(), all[0].estimate());
        close(ours.mean, own.mean);
        close(ours.half_width(), own.half_width());
        close(ours.sd.unwrap(), own.sd.unwrap());
    }

    #[test]
    fn equal_spreads_add_their_degrees_of_freedom() {
        // Three pairs a distance of 2 apart: squared errors of 1 each, 9 ways shared, 3 degrees.
        let all = samples(&[&[0.0, 2.0], &[10.0, 12.0], &[20.0, 22.0]]);
        let ours = mean_of_means(&all, 0.95).unwrap();
        close(ours.mean, 11.0);
        close(ours.half_width(), 3.182_446_305_284_263 * (3.0_f64 / 9.0).sqrt());
    }

    #[test]
    fn a_point_without_spread_adds_none_and_one_value_says_nothing() {
        let exact = mean_of_means(&samples(&[&[1.0, 1.0], &[3.0, 3.0]]), 0.95).unwrap();
        assert_eq!((exact.lo, exact.hi), (2.0, 2.0));
        let open = mean_of_means(&samples(&[&[1.0], &[3.0, 4.0]]), 0.95).unwrap();
        assert!(open.half_width().is_infinite() && open.sd.is_none());
        assert!(mean_of_means(&[], 0.95).is_err());
    }
}
