//! The power of a measurement, stated before its first run that counts.

use super::request::Request;
use convoy_stats::{Design, Goal, Sample, WIDER, smallest_found};
use std::fmt;

/// Chance with which the stated difference is found.
const POWER: f64 = 0.8;

/// The power of the planned runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// Runs of each side, at most.
    pub runs: u32,
    /// Whether there may be fewer.
    pub at_most: bool,
    /// Their time, seconds.
    pub seconds: f64,
    /// The relative difference that is found in 80 of 100 cases.
    pub difference: f64,
    /// The relative differences up to which sides are the same: the least that is shown, and the
    /// largest.
    pub same_within: [f64; 2],
}

impl Planned {
    /// Plans `runs` of each side from the warm-up: the logarithms of the values of each side, block
    /// by block, and the seconds of a block. `None` if the warm-up does not show a spread, or if
    /// that number of runs finds no difference.
    pub(super) fn new(
        request: &Request,
        runs: u32,
        blocks: &[Vec<f64>],
        seconds: f64,
    ) -> Option<Self> {
        let within = request.max_time.map_or(f64::INFINITY, |most| (most / seconds).ceil());
        let runs = runs.min(within as u32);
        let sides = blocks.first()?.len();
        let variances = (0..sides).map(|side| variance(blocks, side));
        let variances = variances.collect::<Option<Vec<f64>>>()?;
        let (baseline, candidates) = variances.split_first()?;
        let spread = (baseline + candidates.iter().copied().fold(0.0, f64::max)).sqrt();
        let found = match request.runs {
            None => smallest_found(runs as usize, request.alpha, POWER).ok()?,
            Some(_) => smallest_of_ranks(runs as usize, request.alpha)?,
        };
        (spread > 0.0).then_some(Self {
            runs,
            at_most: request.runs.is_none(),
            seconds: seconds * f64::from(runs),
            difference: (found * spread).exp_m1(),
            same_within: [request.same_within, request.widest],
        })
    }
}

/// The variance of one side, from the steps between neighbouring blocks, as a program that warms up
/// drifts.
fn variance(blocks: &[Vec<f64>], side: usize) -> Option<f64> {
    let steps = blocks.windows(2).map(|pair| Some(pair[1].get(side)? - pair[0].get(side)?));
    let steps = Sample::new(steps.collect::<Option<Vec<f64>>>()?).ok()?;
    let squares = steps.values().iter().map(|step| step * step);
    Some(squares.sum::<f64>() / (2 * steps.n()) as f64)
}

/// Returns the smallest effect that the signed-rank test of `pairs` finds, in standard deviations.
fn smallest_of_ranks(pairs: usize, alpha: f64) -> Option<f64> {
    let (mut low, mut high) = (1e-3, 100.0);
    let mut goal = Goal { design: Design::Paired, effect: high, alpha, power: POWER };
    if goal.runs().ok()? > pairs {
        return None;
    }
    while high / low > 1.01 {
        goal.effect = f64::sqrt(low * high);
        let end = if goal.runs().is_ok_and(|runs| runs <= pairs) { &mut high } else { &mut low };
        *end = goal.effect;
    }
    Some(high)
}

/// A share as percent, rounded to six digits, as 100 times 0.07 is not 7.
fn as_percent(share: f64) -> f64 {
    (1e8 * share).round() / 1e6
}

/// Two digits.
fn rounded(value: f64) -> String {
    let digits = (1.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 4.0);
    format!("{value:.*}", digits as usize)
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.difference;
        write!(
            f,
            "{} runs of each side{}, about {} s, find a difference of {} % in 80 of 100 cases, by \
             the spread of the warm-up",
            self.runs,
            if self.at_most { " at most" } else { "" },
            rounded(self.seconds),
            rounded(percent),
        )?;
        let [least, widest] = self.same_within;
        let wider = WIDER.into_iter().find(|margin| (self.difference..=widest).contains(margin));
        match wider {
            _ if self.difference <= least => Ok(()),
            Some(margin) => write!(f, "; equality within {} %", as_percent(margin)),
            None => {
                let (same, percent) = (as_percent(widest), rounded(percent));
                write!(f, "; too few to show equality within {same} %: --same-within {percent}%")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_find_what_the_usual_tables_say() {
        // 34 pairs find half a standard deviation by the t-test, and the ranks need 3 / pi as many.
        let effect = smallest_of_ranks(36, 0.05).expect("enough");
        assert!((0.48..0.52).contains(&effect), "{effect}");
        assert_eq!(smallest_of_ranks(5, 0.05), None);
    }

    #[test]
    fn a_plan_is_one_sentence() {
        let plan = Planned {
            runs: 100,
            at_most: true,
            seconds: 8.72,
            difference: 0.0234,
            same_within: [0.01, 0.01],
        };
        let text = plan.to_string();
        assert!(
            text.starts_with(
                "100 runs of each side at most, about 8.7 s, find a difference of 2.3 %"
            )
        );
        assert!(text.ends_with("equality within 1 %: --same-within 2.3%"), "{text}");
        let wide = Planned { same_within: [0.01, 0.05], ..plan };
        assert!(wide.to_string().ends_with("of the warm-up; equality within 3 %"), "{wide}");
        let fine = Planned { difference: 0.004, ..plan };
        assert!(fine.to_string().ends_with("by the spread of the warm-up"));
    }
}
