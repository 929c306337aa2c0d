//! Baseline against candidate: every number of a row of a table, and the verdict.

use core::cmp::Ordering;

use crate::alternative::Alternative;
use crate::error::{Error, open_unit, positive};
use crate::multiple::{Correction, adjust};
use crate::question::{Better, Design, Question};
use crate::rank_test::{self, RankTest};
use crate::ratio::{self, Ratio};
use crate::sample::{Estimate, Interval, Sample};
use crate::shift::{self, Shift};
use crate::tail::Tail;
use crate::welch::Welch;

/// Everything that a row of a table may print about two samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The parameters.
    pub question: Question,
    /// The baseline alone.
    pub baseline: Estimate,
    /// The candidate alone.
    pub candidate: Estimate,
    /// `candidate / baseline` with its interval; `None` if a value is not positive.
    pub ratio: Option<Ratio>,
    /// Hodges-Lehmann shift `candidate - baseline`; `None` if there are too few values for its
    /// interval.
    pub shift: Option<Shift>,
    /// Signed-rank test in pairs, else rank-sum test; two-sided.
    pub test: RankTest,
    /// The p-value of the verdict: the test's or, by [`Comparison::watched`], a p-value that is
    /// valid at every evaluation; or its adjustment by [`adjust_table`].
    pub p: f64,
    /// Direction of the candidate, according to the test behind `p`.
    pub direction: Ordering,
    /// Chance that a run of the candidate is better than one of the baseline, ties counted half.
    pub superiority: f64,
    /// The smallest relative difference of typical runs that is excluded at the level `alpha`, 0.03
    /// for 3 %: the farther end of the interval of confidence `1 - 2 alpha`. Two one-sided tests
    /// (D. Schuirmann, 1987) reject every margin above it. The margin need not be chosen before, as
    /// the claim is wrong only if the interval misses the truth on one side.
    pub reach: f64,
    /// The same by a test that may be evaluated after every value: [`Comparison::watched`] spends
    /// half of `alpha` on it and half on the last look.
    pub reach_so_far: f64,
    /// Candidate less baseline in the arithmetic mean, with the interval of confidence `1 - 2
    /// alpha`.
    pub mean: Estimate,
    /// The runs that collapsed; `None` if a value is not positive.
    pub tail: Option<Tail>,
    /// The fewest values per side with which the test could reach `alpha` at all, in its table if
    /// that was adjusted, if there are fewer: then no difference can be claimed, whatever the
    /// effect.
    pub needs: Option<usize>,
}

impl Comparison {
    /// Compares two samples.
    ///
    /// A sample of one value or without spread is compared as far as possible; the verdict is then
    /// mostly *unsure*, and [`Comparison::needs`] has the required number.
    ///
    /// # Errors
    /// [`Error::Unpaired`] if pairs are asked for and the samples differ in length;
    /// [`Error::NotAProbability`] or [`Error::BadParameter`] for a level (which must lie below
    /// 0.5), confidence or margin out of range.
    pub fn new(baseline: &Sample, candidate: &Sample, question: Question) -> Result<Self, Error> {
        let Question { design, better, alpha, confidence, interval, .. } = question;
        open_unit("twice alpha", 2.0 * alpha)?;
        positive("margin", question.margin)?;
        let test = match design {
            Design::Paired => {
                let two_sided = Alternative::TwoSided;
                rank_test::signed_rank(baseline, candidate, question.zeros, two_sided)?
            }
            Design::Unpaired => rank_test::rank_sum(baseline, candidate, Alternative::TwoSided),
        };
        let shift = match design {
            Design::Paired => shift::paired_shift(baseline, candidate, confidence).ok(),
            Design::Unpaired => shift::unpaired_shift(baseline, candidate, confidence).ok(),
        };
        let larger = shift::probability_larger(baseline, candidate);
        let reach = reach(baseline, candidate, question, 1.0 - 2.0 * alpha)?;
        Ok(Self {
            question,
            baseline: baseline.serial_estimate(confidence, interval)?,
            candidate: candidate.serial_estimate(confidence, interval)?,
            ratio: ratio_of(baseline, candidate, question, (confidence, interval)),
            shift,
            test,
            p: test.p,
            direction: test.direction(),
            superiority: if better == Better::Higher { larger } else { 1.0 - larger },
            reach,
            reach_so_far: reach,
            mean: difference_of_means(baseline, candidate, question)?,
            tail: Tail::new(baseline, candidate, better),
            needs: needs(baseline.n(), candidate.n(), &test, question)?,
        })
    }

    /// How many times better the candidate is: `baseline / candidate` where lower is better, so
    /// that more than 1 is always an improvement.
    pub fn speedup(&self) -> Option<Ratio> {
        match self.question.better {
            Better::Lower => self.ratio.map(Ratio::inverse),
            Better::Higher => self.ratio,
        }
    }

    /// Stars of the p-value of the verdict; none where too few values could earn them.
    pub fn stars(&self) -> usize {
        rank_test::stars(self.p)
    }
}

/// Adjusts the p-values of all rows of one table, and with them their verdicts and stars; call it
/// once. The raw p-value of a fixed number of runs stays in [`Comparison::test`].
///
/// # Errors
/// None for comparisons made by [`Comparison::new`].
pub fn adjust_table(rows: &mut [Comparison], correction: Correction) -> Result<(), Error> {
    let raw: Vec<f64> = rows.iter().map(|row| row.p).collect();
    let adjusted = adjust(&raw, correction)?;
    let level = 1.0 / raw.len().max(1) as f64;
    for (index, row) in rows.iter_mut().enumerate() {
        let fixed = row.p.to_bits() == row.test.p.to_bits();
        row.p = adjusted[index];
        if fixed && row.needs.is_none() && row.p > row.question.alpha {
            // What the strongest outcome of this row would have come to in this table.
            let mut best = raw.clone();
            best[index] = row.test.floor;
            if adjust(&best, correction)?[index] > row.question.alpha {
                let need = fewest(row.question.design, row.question.alpha * level)?;
                row.needs = Some(need.max(row.baseline.n.min(row.candidate.n) + 1));
            }
        }
    }
    Ok(())
}

/// The fewest values on a side with which the test of a design can reach a level.
fn fewest(design: Design, alpha: f64) -> Result<usize, Error> {
    match design {
        Design::Paired => rank_test::pairs_needed(alpha),
        Design::Unpaired => rank_test::values_needed(alpha),
    }
}

/// `candidate / baseline` with this confidence; `None` if a value is not positive.
fn ratio_of(
    baseline: &Sample,
    candidate: &Sample,
    question: Question,
    (confidence, interval): (f64, Interval),
) -> Option<Ratio> {
    match question.design {
        Design::Paired => ratio::paired_ratio_with(baseline, candidate, confidence, interval),
        Design::Unpaired => ratio::unpaired_ratio(baseline, candidate, confidence, interval),
    }
    .ok()
}

/// The relative difference that the interval of this confidence excludes.
pub(crate) fn reach(
    baseline: &Sample,
    candidate: &Sample,
    question: Question,
    confidence: f64,
) -> Result<f64, Error> {
    match ratio_of(baseline, candidate, question, (confidence, Interval::T)) {
        Some(ratio) => Ok(ratio.reach()),
        None => reach_of_means(baseline, candidate, question.design, confidence),
    }
}

/// The difference of the arithmetic means, with the interval of confidence `1 - 2 alpha`.
/// Autocorrelated values count for fewer.
fn difference_of_means(
    baseline: &Sample,
    candidate: &Sample,
    question: Question,
) -> Result<Estimate, Error> {
    let confidence = 1.0 - 2.0 * question.alpha;
    if question.design == Design::Paired {
        return ratio::differences(baseline, candidate)?.serial_estimate(confidence, Interval::T);
    }
    let one = baseline.serial_estimate(confidence, Interval::T)?;
    let two = candidate.serial_estimate(confidence, Interval::T)?;
    let half = one.half_width().hypot(two.half_width());
    let mean = two.mean - one.mean;
    Ok(Estimate { mean, sd: None, n: one.n.min(two.n), lo: mean - half, hi: mean + half })
}

/// The same for values without a ratio: the difference against the mean of the baseline.
fn reach_of_means(
    baseline: &Sample,
    candidate: &Sample,
    design: Design,
    confidence: f64,
) -> Result<f64, Error> {
    let (difference, half) = match design {
        Design::Paired => {
            let differences = ratio::differences(baseline, candidate)?;
            let estimate = differences.estimate_with(confidence, Interval::T)?;
            (estimate.mean, estimate.half_width())
        }
        Design::Unpaired => match Welch::new(baseline, candidate) {
            Ok(welch) => (welch.difference, welch.half_width(confidence, Interval::T)?),
            Err(Error::NoSpread) => (candidate.mean() - baseline.mean(), 0.0),
            Err(_) => return Ok(f64::INFINITY),
        },
    };
    Ok(relative(difference.abs() + half, baseline.mean()))
}

/// A difference as a share of the baseline; infinite if the baseline is zero, and 0 of none.
pub(crate) fn relative(difference: f64, baseline: f64) -> f64 {
    if difference <= 0.0 { 0.0 } else { difference / baseline.abs() }
}

/// How many values a side needs for the test to be able to reach `alpha`, if it has not got them.
fn needs(
    baseline: usize,
    candidate: usize,
    test: &RankTest,
    question: Question,
) -> Result<Option<usize>, Error> {
    let have = baseline.min(candidate);
    let need = fewest(question.design, question.alpha)?;
    let floor = match question.design {
        Design::Paired => rank_test::signed_rank_floor(baseline),
        Design::Unpaired => rank_test::rank_sum_floor(baseline, candidate),
    };
    if floor > question.alpha {
        return Ok(Some(need.max(have + 1)));
    }
    // Ties or zeros took the values away that would have been enough.
    Ok((test.floor > question.alpha).then_some(have + need))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    fn scaled(values: &[f64], factor: f64) -> Sample {
        Sample::new(values.iter().map(|value| value * factor).collect::<Vec<_>>()).unwrap()
    }

    const TIMES: [f64; 8] = [10.0, 10.3, 9.9, 10.1, 10.2, 9.8, 10.4, 10.05];

    #[test]
    fn faster_slower_and_their_reverse_for_rates() {
        let base = sample(&TIMES);
        let quick = scaled(&[10.01, 10.29, 9.9, 10.1, 10.2, 9.8, 10.4, 10.05], 0.9);
        let lower = Question::default();
        let higher = Question { better: Better::Higher, ..lower };
        for design in [Design::Paired, Design::Unpaired] {
            let ask = |question: Question| {
                Comparison::new(&base, &quick, Question { design, ..question }).unwrap()
            };
            assert_eq!(ask(lower).verdict(), Verdict::Faster);
            assert_eq!(ask(higher).verdict(), Verdict::Slower);
            assert!((ask(lower).speedup().unwrap().value - 1.0 / 0.9).abs() < 1e-2);
            assert!((ask(higher).speedup().unwrap().value - 0.9).abs() < 1e-2);
            assert!(ask(lower).superiority > 0.99 && ask(higher).superiority < 0.01);
            let back = Comparison::new(&quick, &base, Question { design, ..lower }).unwrap();
            assert_eq!(back.verdict(), Verdict::Slower);
        }
    }

    #[test]
    fn too_few_pairs_earn_no_star_and_hear_how_many_are_missing() {
        let (base, slow) = (sample(&TIMES[..5]), scaled(&TIMES[..5], 2.0));
        let found = Comparison::new(&base, &slow, Question::default()).unwrap();
        assert_eq!((found.verdict(), found.stars(), found.needs), (Verdict::Unsure, 0, Some(6)));
        let unpaired = Question { design: Design::Unpaired, ..Question::default() };
        let found =
            Comparison::new(&sample(&TIMES[..3]), &scaled(&TIMES[..3], 2.0), unpaired).unwrap();
        assert_eq!((found.verdict(), found.needs), (Verdict::Unsure, Some(4)));
    }

    #[test]
    fn a_difference_within_the_margin_is_the_same() {
        // 0.1 % beyond any doubt, and below the 1 % that matter.
        let found =
            Comparison::new(&sample(&TIMES), &scaled(&TIMES, 1.001), Question::default()).unwrap();
        assert!(found.p < 0.01);
        assert_eq!(found.verdict(), Verdict::Same { within: 0.01 });
        assert_eq!(found.verdict().to_string(), "same within 1 %");
        let strict = Question { margin: 0.0005, ..Question::default() };
        let found = Comparison::new(&sample(&TIMES), &scaled(&TIMES, 1.001), strict).unwrap();
        assert_eq!(found.verdict(), Verdict::Slower);
    }

    #[test]
    fn constants_and_single_values() {
        let three = sample(&[5.0; 3]);
        let found = Comparison::new(&three, &three, Question::default()).unwrap();
        assert_eq!(found.verdict(), Verdict::Same { within: 0.01 });
        let one = sample(&[5.0]);
        let found = Comparison::new(&one, &one, Question::default()).unwrap();
        assert_eq!(found.verdict(), Verdict::Unsure);
        let zeros = sample(&[0.0, 0.0, -0.0]);
        for design in [Design::Paired, Design::Unpaired] {
            let question = Question { design, ..Question::default() };
            let found = Comparison::new(&zeros, &zeros, question).unwrap();
            assert_eq!(found.ratio, None);
            assert_eq!(found.reach, 0.0);
            let found = Comparison::new(&zeros, &three, question).unwrap();
            assert_eq!(found.reach, f64::INFINITY);
        }
    }

    #[test]
    fn questions_out_of_range() {
        let base = sample(&TIMES);
        let ask = |question| Comparison::new(&base, &base, question);
        for alpha in [0.0, 0.5, 1.0, f64::NAN] {
            assert!(ask(Question { alpha, ..Question::default() }).is_err());
        }
        for margin in [0.0, -1.0, f64::INFINITY] {
            assert!(ask(Question { margin, ..Question::default() }).is_err());
        }
        assert!(ask(Question { confidence: 95.0, ..Question::default() }).is_err());
        assert!(Comparison::new(&base, &sample(&[1.0]), Question::default()).is_err());
    }

    #[test]
    fn a_table_may_need_more_values_than_a_row() {
        // Six pairs reach 0.031, which ten rows by Holm turn into 0.31: 9 pairs reach 0.005.
        let (base, slow) = (sample(&TIMES[..6]), scaled(&TIMES[..6], 1.1));
        let row = Comparison::new(&base, &slow, Question::default()).unwrap();
        let mut table = vec![row; 10];
        adjust_table(&mut table, Correction::BenjaminiHochberg).unwrap();
        assert!(table.iter().all(|row| row.needs.is_none() && row.stars() == 1));
        for row in &mut table {
            row.p = row.test.p;
        }
        adjust_table(&mut table, Correction::Holm).unwrap();
        assert!(table.iter().all(|row| row.needs == Some(9) && row.stars() == 0));
    }

    #[test]
    fn a_table_is_adjusted_as_a_whole() {
        let base = sample(&TIMES);
        let slow = Comparison::new(&base, &scaled(&TIMES, 1.1), Question::default()).unwrap();
        let same = Comparison::new(&base, &base, Question::default()).unwrap();
        let mut table = vec![slow.clone(), same.clone(), same];
        adjust_table(&mut table, Correction::Holm).unwrap();
        assert!((table[0].p - 3.0 * slow.p).abs() < 1e-15);
        assert_eq!(table[0].test.p, slow.p);
        assert_eq!(table[0].stars(), 1);
    }
}
