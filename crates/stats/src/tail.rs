//! Runs that collapse, to which a median is blind and a mean almost.

use crate::question::Better;
use crate::sample::Sample;

/// A run is a collapse if it is worse than the worse of the two medians by this many robust
/// standard deviations of the logarithms, and by [`LEAST`].
const FAR: f64 = 5.0;

/// Relative distance below which nothing is called a collapse.
const LEAST: f64 = 0.1;

/// The collapses of two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// How many runs of the baseline and of the candidate collapsed.
    pub collapses: [usize; 2],
    /// How many runs there are of each.
    pub runs: [usize; 2],
    /// The middle collapse of each side over the median of that side, 1.8 for values 1.8 times as
    /// bad; `None` without one.
    pub size: [Option<f64>; 2],
    /// Probability that this many of all collapses, or more, are the candidate's if both sides
    /// collapse equally often (Fisher's exact test).
    pub worse: f64,
    /// The same of the baseline.
    pub better: f64,
}

impl Tail {
    /// The collapses of two sides; `None` if a value is not positive.
    pub fn new(baseline: &Sample, candidate: &Sample, better: Better) -> Option<Self> {
        let sign = if better == Better::Higher { -1.0 } else { 1.0 };
        // Larger is worse.
        let badness = |sample: &Sample| {
            let positive = sample.values().iter().all(|value| *value > 0.0);
            let logs = sample.values().iter().map(|value| sign * value.ln()).collect();
            positive.then(|| Sample::of_differences(logs).ok()).flatten()
        };
        let sides = [badness(baseline)?, badness(candidate)?];
        let medians = sides.each_ref().map(Sample::median);
        let spread = sides[0].robust_sd().max(sides[1].robust_sd());
        let fence = medians[0].max(medians[1]) + (FAR * spread).max(LEAST.ln_1p());
        let collapsed = sides.each_ref().map(|side| {
            side.values().iter().copied().filter(|value| *value > fence).collect::<Vec<f64>>()
        });
        let size = |side: usize| {
            let middle = Sample::new(collapsed[side].clone()).ok()?.median();
            Some((middle - medians[side]).exp())
        };
        let collapses = collapsed.each_ref().map(Vec::len);
        let runs = sides.each_ref().map(Sample::n);
        let [one, two] = [0, 1].map(|side| share_or_more(collapses, runs, side));
        Some(Self { collapses, runs, size: [size(0), size(1)], worse: two, better: one })
    }
}

/// The probability that, of all collapses, `side` has as many as it has or more, if each run is as
/// likely as any other to be one.
fn share_or_more(collapses: [usize; 2], runs: [usize; 2], side: usize) -> f64 {
    // Logarithms: the counts themselves do not fit a number.
    fn ways(n: usize, k: usize) -> f64 {
        (0..k).map(|at| ((n - at) as f64 / (k - at) as f64).ln()).sum()
    }
    let (all, total) = (runs[0] + runs[1], collapses[0] + collapses[1]);
    let (here, own) = (runs[side], collapses[side]);
    let chance = |k: usize| -> f64 {
        if total - k > all - here {
            return 0.0;
        }
        (ways(here, k) + ways(all - here, total - k) - ways(all, total)).exp()
    };
    (own..=total.min(here)).map(chance).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fisher_s_exact_test() {
        // The tea: 3 of 4 on the side that has 4 of 8.
        let p = share_or_more([1, 3], [4, 4], 1);
        assert!((p - 17.0 / 70.0).abs() < 1e-12, "{p}");
        assert!((share_or_more([0, 0], [30, 30], 1) - 1.0).abs() < 1e-12);
        assert!((share_or_more([3, 0], [30, 30], 1) - 1.0).abs() < 1e-12);
        assert!(share_or_more([0, 10], [100, 100], 1) < 0.001);
        assert!((share_or_more([0, 1], [100, 1], 1) - 1.0 / 101.0).abs() < 1e-12);
    }

    #[test]
    fn collapses_are_counted_and_sized() {
        // Of rates, low ones are the collapses.
        fn rates(sample: &Sample) -> Sample {
            Sample::new(sample.values().iter().map(|v| 1.0 / v).collect::<Vec<_>>()).unwrap()
        }
        let wave = |i: usize| 10.0 + 0.1 * ((i * 7) % 10) as f64;
        let base = Sample::new((0..40).map(wave).collect::<Vec<_>>()).unwrap();
        let bad = |i: usize| if i % 10 == 3 { 1.8 * wave(i) } else { 0.97 * wave(i) };
        let candidate = Sample::new((0..40).map(bad).collect::<Vec<_>>()).unwrap();
        let tail = Tail::new(&base, &candidate, Better::Lower).unwrap();
        assert_eq!((tail.collapses, tail.runs), ([0, 4], [40, 40]));
        let size = tail.size[1].unwrap();
        assert!((1.7..2.0).contains(&size), "{size}");
        assert!(tail.worse < 0.06 && tail.better > 0.99, "{tail:?}");
        let [one, two] = [rates(&base), rates(&candidate)];
        let tail = Tail::new(&one, &two, Better::Higher).unwrap();
        assert_eq!(tail.collapses, [0, 4]);
        assert!(Tail::new(&one, &Sample::new([0.0]).unwrap(), Better::Higher).is_none());
    }
}
