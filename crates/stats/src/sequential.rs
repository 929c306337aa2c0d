//! Sequential evaluation of data without an excess of false claims.
//!
//! A test at 5 % that is repeated after every run until it rejects, rejects in the end. The methods
//! here may be evaluated after every run: their error is bounded over all evaluations together.

use crate::error::{Error, open_unit, positive};
use crate::sample::{Estimate, Sample};
use crate::student;

/// An interval of a mean that is valid at every look.
///
/// Its ends are where the evidence reaches `1 / alpha`: the Bayes factor of the t statistic with a
/// normal prior of variance `scale`^2 on the standardised mean under the alternative. With unknown
/// variance it is a martingale under the null hypothesis (T. Lai, 1976; M. Perez-Ortiz and others,
/// 2024), so by Ville's inequality it ever exceeds `1 / alpha` with probability at most `alpha`. It
/// assumes normal values; pairs are compared by [`Betting`](crate::Betting), which does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlwaysValid {
    /// One less the total error over all looks: 0.95.
    pub confidence: f64,
    /// The mean over the standard deviation that is looked for. It decides where the interval is
    /// narrow, never whether it is right.
    pub scale: f64,
}

impl Default for AlwaysValid {
    fn default() -> Self {
        Self { confidence: 0.95, scale: 1.0 }
    }
}

impl AlwaysValid {
    fn check(&self) -> Result<f64, Error> {
        positive("scale", self.scale)?;
        positive("square of the scale", self.scale * self.scale)?;
        Ok(1.0 - open_unit("confidence", self.confidence)?)
    }

    /// The interval of the mean after this many values; infinite while there are too few. With
    /// probability `confidence` the mean lies in all intervals of all looks.
    ///
    /// # Errors
    /// [`Error::NotAProbability`] or [`Error::BadParameter`] for a setting out of range.
    pub fn interval(&self, sample: &Sample) -> Result<Estimate, Error> {
        let alpha = self.check()?;
        let (mean, sd, n) = (sample.mean(), sample.sd(), sample.n());
        let half = match sd {
            Some(sd) => self.width_in_sd(n, alpha).map_or(f64::INFINITY, |width| width * sd),
            None => f64::INFINITY,
        };
        Ok(Estimate { mean, sd, n, lo: mean - half, hi: mean + half })
    }

    /// Half the width of the interval in standard deviations; `None` if it is infinite.
    fn width_in_sd(&self, n: usize, alpha: f64) -> Option<f64> {
        let count = n as f64;
        let c = 1.0 + count * self.scale * self.scale;
        let k = ((0.5 * c.ln() - alpha.ln()) * 2.0 / count).exp();
        // The evidence (1 + u)^(n/2) (1 + u/c)^(-n/2) c^(-1/2) reaches 1 / alpha at this u =
        // t^2/df.
        (n > 1 && k < c).then(|| ((k - 1.0) / (1.0 - k / c) * (count - 1.0) / count).sqrt())
    }
}

/// Whether a mean is known well enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The mean with its always-valid interval.
    pub estimate: Estimate,
    /// Whether half the interval is at most the wanted share of the mean.
    pub reached: bool,
}

/// The rule of run-until-precise: stop as soon as the interval of the mean is within `relative`
/// (0.01 is plus or minus 1 %) of the mean. May be asked after every value; at the end the interval
/// covers the mean with the stated confidence, because it does so at all looks together.
///
/// # Errors
/// [`Error::NotAProbability`] unless `confidence` lies strictly between 0 and 1,
/// [`Error::BadParameter`] unless `relative` is positive and finite.
pub fn precision(sample: &Sample, relative: f64, confidence: f64) -> Result<Precision, Error> {
    positive("relative width", relative)?;
    let rule = AlwaysValid { confidence, ..AlwaysValid::default() };
    let estimate = rule.interval(sample)?;
    let wanted = relative * estimate.mean.abs();
    let reached = estimate.half_width() <= wanted;
    Ok(Precision { estimate, reached })
}

/// Returns the interval of a mean whose first `pilot` values determined the number of values, as in
/// C. Stein's two-stage procedure (1945): from the spread of the pilot, which is independent of
/// every mean, so that the interval is exact for normal values however the number was chosen from
/// that spread. With no values beyond the pilot it is Student's.
///
/// # Errors
/// [`Error::TooFew`] of fewer than two values in the pilot, or fewer values than that;
/// [`Error::NotAProbability`].
pub fn two_stage_interval(
    sample: &Sample,
    pilot: usize,
    confidence: f64,
) -> Result<Estimate, Error> {
    let tail = (1.0 - open_unit("confidence", confidence)?) / 2.0;
    let (mean, n) = (sample.mean(), sample.n());
    if pilot < 2 || n < pilot {
        return Err(Error::TooFew { have: n.min(pilot), need: pilot.max(2) });
    }
    let sd = Sample::new(&sample.values()[..pilot])?.sd();
    let half = sd.map_or(f64::INFINITY, |sd| {
        student::tail_quantile(tail, (pilot - 1) as f64) * sd / (n as f64).sqrt()
    });
    Ok(Estimate { mean, sd, n, lo: mean - half, hi: mean + half })
}

/// One side of a ratio of two means: how far its values spread is read off the first of them, the
/// pilot, so that it does not depend on how many there are in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staged {
    /// Mean of all values, above zero.
    pub mean: f64,
    /// Standard deviation of the pilot over the mean.
    pub spread: f64,
    /// Values of the pilot, two or more.
    pub pilot: usize,
    /// Values in all.
    pub n: usize,
}

impl Staged {
    /// Returns the side of `values`, with the spread of the first `pilot`.
    ///
    /// # Errors
    /// The errors of [`two_stage_interval`]; [`Error::BadParameter`] of a mean that is not
    /// positive.
    pub fn new(values: &[f64], pilot: usize) -> Result<Self, Error> {
        let all = Sample::new(values)?;
        let mean = positive("mean", all.mean())?;
        let found = two_stage_interval(&all, pilot, 0.95)?;
        let sd = found.sd.ok_or(Error::TooFew { have: pilot, need: 2 })?;
        Ok(Self { mean, spread: sd / mean, pilot, n: values.len() })
    }

    /// The same with `n` values.
    #[must_use]
    pub fn of(self, n: usize) -> Self {
        Self { n, ..self }
    }

    fn variance(&self) -> f64 {
        self.spread * (self.spread / self.n as f64)
    }
}

/// Half the interval of `candidate` over `baseline`, of independent values: the first order of the
/// ratio, with Welch's degrees of freedom of the two pilots.
///
/// # Errors
/// [`Error::NotAProbability`].
pub fn staged_half_width(
    baseline: &Staged,
    candidate: &Staged,
    confidence: f64,
) -> Result<f64, Error> {
    let tail = (1.0 - open_unit("confidence", confidence)?) / 2.0;
    let (base, own) = (baseline.variance(), candidate.variance());
    let sum = base + own;
    if sum <= 0.0 {
        return Ok(0.0);
    }
    let free = |share: f64, pilot: usize| share * share / (pilot - 1) as f64;
    let df = 1.0 / (free(base / sum, baseline.pilot) + free(own / sum, candidate.pilot));
    Ok(student::tail_quantile(tail, df) * sum.sqrt() * candidate.mean / baseline.mean)
}

/// How many values each side needs, at most `most`, for half the interval of `candidate` over
/// `baseline` to be at most `half_width`: Stein's second stage of a ratio. The side that narrows it
/// more gets the next value, so a side without spread needs none.
///
/// # Errors
/// [`Error::NotAProbability`].
pub fn staged_values(
    sides: [Staged; 2],
    most: [usize; 2],
    half_width: f64,
    confidence: f64,
) -> Result<[usize; 2], Error> {
    let [mut base, mut own] = sides;
    while staged_half_width(&base, &own, confidence)? > half_width {
        let gain = |side: &Staged, most: usize| {
            let more = side.variance() - side.of(side.n + 1).variance();
            if side.n < most { more } else { 0.0 }
        };
        match (gain(&base, most[0]), gain(&own, most[1])) {
            (first, second) if first.max(second) <= 0.0 => break,
            (first, second) if first > second => base.n += 1,
            _ => own.n += 1,
        }
    }
    Ok([base.n, own.n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    #[test]
    fn the_price_of_looking_is_a_wider_interval() {
        let values: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i % 5)).collect();
        let (free, fixed) = (
            AlwaysValid::default().interval(&sample(&values)).unwrap(),
            sample(&values).estimate(),
        );
        let price = free.half_width() / fixed.half_width();
        assert!((1.4..1.8).contains(&price), "{price}");
    }

    #[test]
    fn an_interval_in_two_stages_covers_what_it_states() {
        // A coverage of 0.95 in 4000 samples is 0.95 ± 0.01; Student's of the same values, whose
        // number their spread has chosen, covers less.
        let mut rng = crate::Rng::new(11);
        let (mut covered, mut wide, rounds) = (0, 0, 4000);
        for _ in 0..rounds {
            let mut values: Vec<f64> = (0..4).map(|_| rng.normal()).collect();
            let sd = sample(&values).sd().unwrap();
            let n = ((student::tail_quantile(0.025, 3.0) * sd).powi(2).ceil() as usize).max(4);
            values.extend((4..n).map(|_| rng.normal()));
            let found = two_stage_interval(&sample(&values), 4, 0.95).unwrap();
            covered += usize::from(found.lo <= 0.0 && 0.0 <= found.hi);
            wide += usize::from(found.half_width() > 1.0 + 1e-9);
        }
        let share = covered as f64 / f64::from(rounds);
        assert!((0.94..0.98).contains(&share), "{share}");
        assert_eq!(wide, 0);
        let plain = sample(&[1.0, 3.0, 2.0, 2.0]);
        let both = (two_stage_interval(&plain, 4, 0.95).unwrap(), plain.estimate());
        assert!((both.0.half_width() - both.1.half_width()).abs() < 1e-12);
        assert!(two_stage_interval(&plain, 5, 0.95).is_err());
    }

    #[test]
    fn hostile_looks() {
        let rule = AlwaysValid::default();
        for few in [&[1.0][..], &[1.0, 2.0]] {
            assert!(rule.interval(&sample(few)).unwrap().hi.is_infinite());
        }
        assert_eq!(rule.interval(&sample(&[1.0; 9])).unwrap().half_width(), 0.0);
        assert!(!precision(&sample(&[-1.0, 1.0, -1.0, 1.0]), 0.1, 0.95).unwrap().reached);
        for bad in [0.0, f64::NAN, f64::INFINITY] {
            assert!(precision(&sample(&[5.0]), bad, 0.95).is_err());
            let rule = AlwaysValid { scale: bad, ..AlwaysValid::default() };
            assert!(rule.interval(&sample(&[5.0])).is_err());
        }
    }

    #[test]
    fn a_ratio_in_two_looks_covers_what_it_states() {
        // Three values, and eight of a side that has most of the spread: 1 % are missed by the
        // first look, 4 % by the second, whatever the spread is.
        // With 40,000 runs the largest of these is 5.0 %; three standard errors of 1000 are added.
        let bound = 0.07;
        for (at, sd) in [0.003, 0.01, 0.02, 0.04].into_iter().enumerate() {
            let (mut rng, mut missed, mut seen) = (Rng::new(at as u64 + 1), 0, 0);
            let runs = 1000;
            for _ in 0..runs {
                let mut draw = |n: usize, mean: f64, sd: f64| -> Vec<f64> {
                    (0..n).map(|_| mean * (1.0 + sd * rng.normal())).collect()
                };
                let (base, own) = (draw(3, 1.0, 0.002), draw(200, 0.6, sd));
                let side = Staged::new(&base, 3).unwrap();
                let first = Staged::new(&own[..3], 3).unwrap();
                let mut half = staged_half_width(&side, &first, 0.99).unwrap();
                let mut n = 3;
                if half > 0.015 {
                    let second = Staged::new(&own[..8], 8).unwrap();
                    [_, n] = staged_values([side, second], [3, 200], 0.015, 0.96).unwrap();
                    let all = Staged::new(&own[..n], 8).unwrap();
                    half = staged_half_width(&side, &all, 0.96).unwrap();
                }
                let ratio = Staged::new(&own[..n], 3).unwrap().mean / side.mean;
                missed += usize::from((ratio - 0.6).abs() > half);
                seen += n;
            }
            let share = f64::from(u32::try_from(missed).unwrap()) / f64::from(runs);
            assert!(share < bound, "spread {sd}: {share} missed, {seen} values");
        }
    }

    #[test]
    fn the_side_that_spreads_gets_the_values() {
        let quiet = Staged::new(&[10.0, 10.01, 9.99], 3).unwrap();
        let loud = Staged::new(&[6.0, 6.5, 5.5], 3).unwrap();
        let [base, own] = staged_values([quiet, loud], [50, 500], 0.1, 0.95).unwrap();
        assert!(base == 3 && own > 3, "{base} {own}");
        let found = |own| staged_half_width(&quiet, &loud.of(own), 0.95).unwrap();
        assert!(found(own) <= 0.1 && found(own - 1) > 0.1);
        // What has no spread is known, and what is never known gets all it may.
        let none = Staged::new(&[5.0; 3], 3).unwrap();
        assert_eq!(staged_half_width(&none, &none, 0.95), Ok(0.0));
        assert_eq!(staged_values([quiet, loud], [4, 5], 1e-9, 0.95), Ok([4, 5]));
        assert!(Staged::new(&[1.0], 2).is_err() && Staged::new(&[-1.0, -1.0], 2).is_err());
    }
}
