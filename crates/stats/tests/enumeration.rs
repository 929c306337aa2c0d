//! The exact tests against counting every outcome, with ties and zeros.

#![expect(clippy::float_cmp, reason = "the p-values are to be identical")]

use convoy_stats::{Alternative, Method, Rng, Sample, Zeros, rank_sum, signed_rank_of};

const ALTERNATIVES: [Alternative; 3] =
    [Alternative::TwoSided, Alternative::Less, Alternative::Greater];

/// Midranks by their definition: values below, and half of those equal, itself included.
fn midranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let equal = values.iter().filter(|other| *other == value).count() as f64;
        below + f64::midpoint(equal, 1.0)
    };
    values.iter().map(rank).collect()
}

/// The p-value of `observed` among all equally likely outcomes.
fn p(outcomes: &[f64], observed: f64, alternative: Alternative) -> f64 {
    let count = |fits: &dyn Fn(f64) -> bool| outcomes.iter().filter(|x| fits(**x)).count() as f64;
    // Sums of halves are exact.
    let less = count(&|x| x <= observed) / outcomes.len() as f64;
    let greater = count(&|x| x >= observed) / outcomes.len() as f64;
    match alternative {
        Alternative::TwoSided => (2.0 * less.min(greater)).min(1.0),
        Alternative::Less => less,
        Alternative::Greater => greater,
    }
}

/// Values on a coarse grid, so that most cases have ties.
fn coarse(rng: &mut Rng, n: usize, grid: usize) -> Vec<f64> {
    (0..n).map(|_| (rng.below(2 * grid + 1) as f64 - grid as f64) / 4.0).collect()
}

#[test]
fn the_signed_rank_test_is_the_count_of_all_signs() {
    let mut rng = Rng::new(11);
    let mut tied = 0;
    for case in 0..2_000 {
        let n = 1 + case % 9;
        let differences = coarse(&mut rng, n, 1 + case % 7);
        for zeros in [Zeros::Wilcoxon, Zeros::Pratt] {
            let kept: Vec<f64> = match zeros {
                Zeros::Wilcoxon => differences.iter().copied().filter(|d| *d != 0.0).collect(),
                Zeros::Pratt => differences.clone(),
            };
            let ranks = midranks(&kept.iter().map(|d| d.abs()).collect::<Vec<_>>());
            let (signs, ranks): (Vec<bool>, Vec<f64>) = kept
                .iter()
                .zip(ranks)
                .filter(|(d, _)| **d != 0.0)
                .map(|(d, r)| (*d > 0.0, r))
                .unzip();
            let sum = |positive: &dyn Fn(usize) -> bool| -> f64 {
                (0..ranks.len()).filter(|i| positive(*i)).map(|i| ranks[i]).sum()
            };
            let outcomes: Vec<f64> =
                (0..1_u32 << ranks.len()).map(|word| sum(&|i| word >> i & 1 == 1)).collect();
            let observed = sum(&|i| signs[i]);
            for alternative in ALTERNATIVES {
                let sample = Sample::new(differences.clone()).unwrap();
                let found = signed_rank_of(&sample, zeros, alternative);
                let expected = p(&outcomes, observed, alternative);
                let label = format!("{differences:?} {zeros:?} {alternative:?}");
                assert_eq!((found.p, found.statistic), (expected, observed), "{label}");
                assert_eq!((found.used, found.method), (ranks.len(), Method::Exact));
            }
        }
        tied += usize::from(midranks(&differences).iter().any(|rank| rank.fract() > 0.0));
    }
    assert!(tied > 1_000, "only {tied} cases have ties");
}

#[test]
fn the_rank_sum_test_is_the_count_of_all_deals() {
    let mut rng = Rng::new(12);
    for case in 0..324 {
        // Every pair of sizes up to 9 against 9, larger and smaller first sides alike.
        let (n, m) = (1 + case % 9, 1 + (case / 9) % 9);
        let grid = 1 + case % 11;
        let (x, y) = (coarse(&mut rng, n, grid), coarse(&mut rng, m, grid));
        let pool: Vec<f64> = y.iter().chain(&x).copied().collect();
        let ranks = midranks(&pool);
        let deals = (0..1_u32 << (n + m)).filter(|word| word.count_ones() as usize == m);
        let outcomes: Vec<f64> = deals
            .map(|word| (0..n + m).filter(|i| word >> i & 1 == 1).map(|i| ranks[i]).sum())
            .collect();
        let observed: f64 = ranks[..m].iter().sum();
        let (x, y) = (Sample::new(x).unwrap(), Sample::new(y).unwrap());
        for alternative in ALTERNATIVES {
            let found = rank_sum(&x, &y, alternative);
            let expected = p(&outcomes, observed, alternative);
            assert_eq!(found.p, expected, "{x:?} {y:?} {alternative:?}");
            assert_eq!(found.statistic, observed - (m * (m + 1)) as f64 / 2.0);
        }
        let (low, high) = outcomes
            .iter()
            .fold((f64::MAX, 0.0_f64), |(low, high), sum| (low.min(*sum), high.max(*sum)));
        let at = |sum| p(&outcomes, sum, Alternative::TwoSided);
        let floor = at(low).min(at(high));
        assert_eq!(rank_sum(&x, &y, Alternative::TwoSided).floor, floor);
    }
}
