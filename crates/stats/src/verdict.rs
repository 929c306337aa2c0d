//! The verdict of a comparison: on typical runs, on the mean and on the tail together.

use core::cmp::Ordering;
use core::{fmt, iter};

use crate::compare::{Comparison, relative};
use crate::question::{Better, Question, WIDER};
use crate::tail::Tail;

/// Chance that a share of collapsing runs stays unseen in as many runs as it takes to exclude it.
const UNSEEN: f64 = 0.05;

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The candidate is better, and not within the margin.
    Faster,
    /// The candidate is worse, and not within the margin.
    Slower,
    /// Shown to differ by less than this relative margin.
    Same {
        /// The margin, 0.01 for 1 %.
        within: f64,
    },
    /// Neither a difference nor equality is shown: more runs, less noise, or a wider margin.
    Unsure,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faster => f.write_str("faster"),
            Self::Slower => f.write_str("slower"),
            Self::Same { within } => {
                // Rounded to six digits, as 100 times 0.07 is not 7.
                let percent = (within * 1e8).round() / 1e6;
                write!(f, "same within {percent} %")
            }
            Self::Unsure => f.write_str("unsure"),
        }
    }
}

/// Level below which it is held possible that the candidate collapses more often: one collapse of
/// one side does not reach it, two to none do.
const TAIL_DOUBT: f64 = 0.25;

/// Level below which it is held possible where no difference of typical runs is shown.
const CLEAR_TAIL: f64 = 0.025;

/// The share of `alpha` at which collapses are a claim: it may be looked for after every pair.
const TAIL_CLAIM: f64 = 0.2;

/// What speaks against the verdict of the ranks or the bets, which is about typical runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The mean may be on the other side, or off by more than the margin.
    Mean,
    /// One side may collapse more often than the other.
    Tail,
}

impl Comparison {
    /// The verdict, on typical runs, mean and tail together: *faster* and *same* are never said
    /// while mean or tail may be worse, nor *slower* while they are shown to be better. *Same*
    /// within the margin of the question has precedence: a difference may be beyond doubt and
    /// still too small to matter. Collapses that are beyond doubt make a candidate slower that is
    /// not typically slower. Where nothing else is shown, a wider margin may be.
    pub fn verdict(&self) -> Verdict {
        let typical = self.typical();
        let claim = TAIL_CLAIM * self.question.alpha;
        match self.doubt() {
            None if matches!(typical, Verdict::Faster | Verdict::Slower) => typical,
            None => self.shown().map_or(Verdict::Unsure, |within| Verdict::Same { within }),
            Some(_) if typical == Verdict::Slower => Verdict::Unsure,
            Some(_) if self.tail.is_some_and(|tail| tail.worse <= claim) => Verdict::Slower,
            Some(_) => Verdict::Unsure,
        }
    }

    /// The smallest margin that holds typical runs and the mean: of the question, or a wider one.
    fn shown(&self) -> Option<f64> {
        let Question { margin, widest, .. } = self.question;
        let wider = WIDER.into_iter().filter(|wider| (margin..=widest).contains(wider));
        let reach = self.reach.max(self.reach_of_mean());
        iter::once(margin).chain(wider).find(|margin| reach < *margin)
    }

    /// The largest difference of the means that its interval admits, as a share of the baseline.
    fn reach_of_mean(&self) -> f64 {
        relative(self.mean.lo.abs().max(self.mean.hi.abs()), self.baseline.mean)
    }

    /// The verdict on typical runs alone.
    pub fn typical(&self) -> Verdict {
        let better = match self.question.better {
            Better::Lower => Ordering::Less,
            Better::Higher => Ordering::Greater,
        };
        if self.reach < self.question.margin {
            Verdict::Same { within: self.question.margin }
        } else if self.p > self.question.alpha || self.direction.is_eq() {
            Verdict::Unsure
        } else if self.direction == better {
            Verdict::Faster
        } else {
            Verdict::Slower
        }
    }

    /// What speaks against the verdict on typical runs.
    pub fn doubt(&self) -> Option<Doubt> {
        let sign = if self.question.better == Better::Higher { -1.0 } else { 1.0 };
        // How much worse the mean is, at least and at most.
        let (one, two) = (sign * self.mean.lo, sign * self.mean.hi);
        let most = one.max(two);
        let collapses = |p: fn(&Tail) -> f64| self.tail.is_some_and(|tail| p(&tail) <= TAIL_DOUBT);
        let more = collapses(|tail| tail.worse);
        let (mean, tail) = match self.typical() {
            Verdict::Faster => (most > 0.0, more),
            Verdict::Same { .. } => (self.shown().is_none(), more),
            Verdict::Slower => (most < 0.0, collapses(|tail| tail.better) && most < 0.0),
            // Typical runs and the mean are the same: more collapses must be shown.
            Verdict::Unsure => (false, self.tail.is_some_and(|tail| tail.worse <= CLEAR_TAIL)),
        };
        if tail { Some(Doubt::Tail) } else { mean.then_some(Doubt::Mean) }
    }

    /// Whether measuring may end with this verdict. *Slower* is settled immediately; *faster* and
    /// *same* also need enough runs to show, with a probability of 95 %, collapses in at least the
    /// share `tail` of the candidate's runs, and at most as many of them as the baseline has.
    /// *Same* is not settled where only a last look shows it.
    pub fn is_settled(&self, tail: f64) -> bool {
        let runs = UNSEEN.ln() / (-tail.clamp(1e-6, 1.0 - 1e-6)).ln_1p();
        let seen = self.tail.is_none_or(|tail| tail.collapses[1] <= tail.collapses[0]);
        match self.verdict() {
            Verdict::Unsure => false,
            Verdict::Same { .. } if self.reach_so_far >= self.question.margin => false,
            Verdict::Slower => true,
            Verdict::Faster | Verdict::Same { .. } => seen && self.candidate.n as f64 >= runs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::{Design, Question};
    use crate::rng::Rng;
    use crate::sample::Sample;

    /// Watches a comparison as it is measured: verdict and number of pairs.
    fn watch(rng: &mut Rng, candidate: impl Fn(&mut Rng) -> f64) -> (Comparison, usize) {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        loop {
            one.push((0.01 * rng.normal()).exp());
            two.push(candidate(rng));
            let pairs = one.len();
            if pairs < 6 {
                continue;
            }
            let sample = |values: &Vec<f64>| Sample::new(values.clone()).unwrap();
            let found =
                Comparison::watched(&sample(&one), &sample(&two), Question::default()).unwrap();
            if pairs == 100 || found.is_settled(0.05) {
                return (found, pairs);
            }
        }
    }

    #[test]
    fn a_candidate_that_collapses_now_and_then_is_neither_faster_nor_the_same() {
        for typical in [0.97, 1.0] {
            let mut rng = Rng::new(5);
            let mut slower = 0;
            for history in 0..25 {
                let (found, pairs) = watch(&mut rng, |rng| {
                    let collapse = if rng.uniform() < 0.1 { 1.8 } else { 1.0 };
                    typical * collapse * (0.01 * rng.normal()).exp()
                });
                let verdict = found.verdict();
                assert!(
                    matches!(verdict, Verdict::Slower | Verdict::Unsure),
                    "history {history}: {verdict} after {pairs}"
                );
                let size = found.tail.unwrap().size[1].expect("it is named");
                assert!((1.6..2.0).contains(&size), "{size}");
                slower += usize::from(verdict == Verdict::Slower);
            }
            assert!(slower >= 20, "{slower} of 25");
        }
    }

    #[test]
    fn a_candidate_without_collapses_is_called_what_it_is() {
        let mut rng = Rng::new(6);
        for (typical, expected) in [
            (0.97, Verdict::Faster),
            (1.0, Verdict::Same { within: 0.01 }),
            (1.03, Verdict::Slower),
        ] {
            let mut right = 0;
            for _ in 0..20 {
                let (found, pairs) = watch(&mut rng, |rng| typical * (0.01 * rng.normal()).exp());
                right += usize::from(found.verdict() == expected);
                let early = matches!(found.verdict(), Verdict::Slower);
                assert_eq!(pairs >= 59, !early, "{pairs}");
            }
            // The level is 5 %.
            assert!(right >= 18, "{expected}: {right} of 20");
        }
    }

    /// Compares pairs of a program next to others, whose runs vary by a fifth.
    fn busy(rng: &mut Rng, pairs: usize, ratio: f64) -> Comparison {
        let mut runs = |level: f64| -> Vec<f64> {
            (0..pairs).map(|_| level * (0.2 * rng.normal()).exp()).collect()
        };
        let (one, two) = (runs(1.0), runs(ratio));
        let question = Question { widest: 0.05, ..Question::default() };
        Comparison::watched(&Sample::new(one).unwrap(), &Sample::new(two).unwrap(), question)
            .unwrap()
    }

    #[test]
    fn noise_that_hides_one_percent_shows_a_wider_margin() {
        let mut rng = Rng::new(7);
        let margins: Vec<f64> = (0..20)
            .filter_map(|_| match busy(&mut rng, 500, 1.0).verdict() {
                Verdict::Same { within } => Some(within),
                _ => None,
            })
            .collect();
        assert!(margins.len() >= 18, "{margins:?}");
        assert!(margins.iter().all(|within| *within > 0.02), "{margins:?}");
        // It does not end a measurement early, and is not a verdict for a question with one margin.
        let mut wide = busy(&mut rng, 500, 1.0);
        assert!(matches!(wide.verdict(), Verdict::Same { within } if within > 0.01));
        assert!(!wide.is_settled(0.05));
        wide.question.widest = 0.01;
        assert_eq!((wide.verdict(), wide.doubt()), (Verdict::Unsure, None));
        wide.question.margin = 0.1;
        assert!(wide.is_settled(0.05));
    }

    #[test]
    fn a_margin_that_the_values_choose_holds_the_truth() {
        // At the edge of a margin: the named margin is too narrow in at most 5 % of all cases, 5 of
        // 100 with a standard deviation of 2.2.
        let mut rng = Rng::new(8);
        for (pairs, truth) in [(300, 0.05), (400, 0.03), (40, 0.3)] {
            let wrong = (0..100).filter(|_| {
                let verdict = busy(&mut rng, pairs, 1.0 + truth).verdict();
                matches!(verdict, Verdict::Same { within } if within <= truth)
            });
            let wrong = wrong.count();
            assert!(wrong <= 12, "{wrong} of 100 at {truth}");
        }
    }

    #[test]
    fn a_difference_that_is_shown_is_not_the_same_within_a_wider_margin() {
        let mut rng = Rng::new(9);
        let (found, _) = watch(&mut rng, |rng| 1.02 * (0.01 * rng.normal()).exp());
        let question = Question { widest: 0.05, ..found.question };
        assert!(found.reach < 0.05, "{found:?}");
        assert_eq!(Comparison { question, ..found }.verdict(), Verdict::Slower);
    }

    #[test]
    fn a_mean_that_may_be_worse_is_no_improvement() {
        fn ask(one: &[f64], two: &[f64]) -> Comparison {
            let question = Question { design: Design::Unpaired, ..Question::default() };
            let [one, two] = [one, two].map(|side| Sample::new(side.to_vec()).unwrap());
            Comparison::new(&one, &two, question).unwrap()
        }
        // Twenty runs 3 % faster, four of twice the time: the median is better, the mean is not.
        let wave = |i: usize| 10.0 + 0.05 * ((i * 7) % 10) as f64;
        let base: Vec<f64> = (0..24).map(wave).collect();
        let mixed: Vec<f64> =
            (0..24).map(|i| if i % 6 == 5 { 2.0 } else { 0.97 } * wave(i)).collect();
        let found = ask(&base, &mixed);
        assert_eq!(found.typical(), Verdict::Faster);
        assert_eq!(found.doubt(), Some(Doubt::Tail));
        assert_ne!(found.verdict(), Verdict::Faster);
        // Nor is the other side slower, which never collapses and is better in the mean.
        let back = ask(&mixed, &base);
        assert_eq!((back.typical(), back.verdict()), (Verdict::Slower, Verdict::Unsure));
    }
}
