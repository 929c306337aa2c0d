//! Coverage of intervals and level of tests, measured by simulation.
//!
//! The small versions run with every change and allow for their size (four standard errors); the
//! large ones are ignored there, run nightly, and must be within one point of the stated value.

#![expect(clippy::print_stdout, reason = "the shares are what one wants to read")]

use convoy_stats::{
    Comparison, Design, Interval, Question, Rng, Sample, Verdict, paired_shift, precision,
    unpaired_ratio, unpaired_shift,
};

/// Histories of a small and of a large measurement.
const SMALL: u32 = 1_500;
const LARGE: u32 = 40_000;

/// The share of `tries` in which something happened.
fn share(tries: u32, seed: u64, mut happens: impl FnMut(&mut Rng) -> bool) -> f64 {
    let mut rng = Rng::new(seed);
    f64::from((0..tries).map(|_| u32::from(happens(&mut rng))).sum::<u32>()) / f64::from(tries)
}

/// Returns four standard errors of a share near `p`, and at least one point, the tolerance of the
/// large runs.
fn slack(tries: u32, p: f64) -> f64 {
    if tries == LARGE { 0.01 } else { 4.0 * (p * (1.0 - p) / f64::from(tries)).sqrt() }
}

#[track_caller]
fn near(what: &str, found: f64, nominal: f64, tries: u32) {
    println!("{what}: {found:.4} (nominal {nominal})");
    assert!((found - nominal).abs() <= slack(tries, nominal), "{what}: {found}");
}

#[track_caller]
fn at_most(what: &str, found: f64, nominal: f64, tries: u32) {
    println!("{what}: {found:.4} (at most {nominal})");
    assert!(found <= nominal + slack(tries, nominal), "{what}: {found}");
}

fn normals(rng: &mut Rng, n: usize, mean: f64, sd: f64) -> Sample {
    Sample::new((0..n).map(|_| mean + sd * rng.normal()).collect::<Vec<_>>()).unwrap()
}

/// Pairs measured next to each other in random order, of equal sides at 100 with a noise of 1 %,
/// while the machine drifts by `drift` (a share) from the first run to the last.
fn interleaved(rng: &mut Rng, n: usize, drift: f64) -> (Sample, Sample) {
    let (mut baseline, mut candidate) = (Vec::new(), Vec::new());
    for pair in 0..n {
        let swap = rng.below(2);
        for place in 0..2 {
            let when = (2 * pair + place) as f64 / (2 * n - 1) as f64;
            let value = 100.0 * (1.0 + drift * when) * (1.0 + 0.01 * rng.normal());
            if place == swap { baseline.push(value) } else { candidate.push(value) }
        }
    }
    (Sample::new(baseline).unwrap(), Sample::new(candidate).unwrap())
}

fn intervals_of_means(tries: u32) {
    for n in [3, 5, 15] {
        let covered = share(tries, 1, |rng| normals(rng, n, 7.0, 2.0).estimate().contains(7.0));
        near(&format!("t interval, n {n}"), covered, 0.95, tries);
    }
    // What the published tables print: at 4 values, 85.5 %.
    let covered = share(tries, 2, |rng| {
        normals(rng, 4, 7.0, 2.0).estimate_with(0.95, Interval::Z).unwrap().contains(7.0)
    });
    near("z interval, n 4", covered, 0.855, tries);
}

fn intervals_of_ratios_and_shifts(tries: u32) {
    for n in [6, 15] {
        let covered = share(tries, 3, |rng| {
            let (b, c) = interleaved(rng, n, 0.01);
            let row = Comparison::new(&b, &c, Question::default()).unwrap();
            row.ratio.is_some_and(|ratio| ratio.lo <= 1.0 && 1.0 <= ratio.hi)
        });
        near(&format!("paired ratio under drift, n {n}"), covered, 0.95, tries);
        let covered = share(tries, 4, |rng| {
            let (b, c) = (normals(rng, n, 100.0, 1.0), normals(rng, 2 * n, 110.0, 3.0));
            let ratio = unpaired_ratio(&b, &c, 0.95, Interval::T).unwrap();
            ratio.lo <= 1.1 && 1.1 <= ratio.hi
        });
        near(&format!("unpaired ratio, n {n}"), covered, 0.95, tries);
        // Exact intervals have the confidence that they state, which has steps.
        let (mut paired, mut unpaired) = (0.0, 0.0);
        let covered = share(tries, 5, |rng| {
            let (b, c) = interleaved(rng, n, 0.0);
            let shift = paired_shift(&b, &c, 0.95).unwrap();
            paired = shift.confidence;
            shift.lo <= 0.0 && 0.0 <= shift.hi
        });
        near(&format!("paired shift, n {n}"), covered, paired, tries);
        let covered = share(tries, 6, |rng| {
            let (b, c) = (normals(rng, n, 0.0, 1.0), normals(rng, n, 3.0, 1.0));
            let shift = unpaired_shift(&b, &c, 0.95).unwrap();
            unpaired = shift.confidence;
            shift.lo <= 3.0 && 3.0 <= shift.hi
        });
        near(&format!("unpaired shift, n {n}"), covered, unpaired, tries);
    }
}

/// Equal sides, measured as `convoy compare` does. The verdict has the level of the exact test,
/// which has steps: at most 5 %, and not far below.
fn false_alarms(tries: u32) {
    fn side(rng: &mut Rng, from: usize) -> Sample {
        let value = |i| 100.0 + (from + i) as f64 / 29.0 + rng.normal();
        Sample::new((0..15).map(value).collect::<Vec<_>>()).unwrap()
    }
    let strict = Question { margin: 1e-6, ..Question::default() };
    for (n, drift) in [(6, 0.0), (15, 0.0), (15, 0.01), (15, 0.02), (40, 0.01)] {
        let alarm = share(tries, 7, |rng| {
            let (b, c) = interleaved(rng, n, drift);
            let verdict = Comparison::new(&b, &c, strict).unwrap().verdict();
            matches!(verdict, Verdict::Faster | Verdict::Slower)
        });
        let label = format!("false alarms, {n} pairs, drift {:.0} %", drift * 100.0);
        at_most(&label, alarm, 0.05, tries);
        assert!(n == 6 || alarm > 0.03, "{label}: {alarm} is no test of 5 %");
    }
    // Why runs are interleaved: one side after the other, and the same drift.
    let alarm = share(tries, 8, |rng| {
        let (b, c) = (side(rng, 0), side(rng, 15));
        let question = Question { design: Design::Unpaired, ..strict };
        matches!(Comparison::new(&b, &c, question).unwrap().verdict(), Verdict::Slower)
    });
    println!("false alarms, blocks of 15, drift 1 %: {alarm:.4}");
    assert!(alarm > 0.15);
}

/// Sides that differ by just the margin must not be called the same more often than the level.
fn false_equality(tries: u32) {
    let called = share(tries, 9, |rng| {
        let (b, c) = interleaved(rng, 20, 0.01);
        let moved: Vec<f64> = c.values().iter().map(|value| value * 1.01).collect();
        let row = Comparison::new(&b, &Sample::new(moved).unwrap(), Question::default()).unwrap();
        matches!(row.verdict(), Verdict::Same { .. })
    });
    at_most("called same at the margin", called, 0.05, tries);
}

/// A look after every value until the interval is narrow.
fn looking_all_the_time(tries: u32) {
    let mut runs = 0;
    let covered = share(tries, 11, |rng| {
        let mut values: Vec<f64> = vec![100.0 + rng.normal()];
        loop {
            values.push(100.0 + rng.normal());
            let now = precision(&Sample::new(values.clone()).unwrap(), 0.01, 0.95).unwrap();
            if now.reached {
                runs += now.estimate.n;
                return now.estimate.contains(100.0);
            }
        }
    });
    println!("run until 1 % at cv 1 %: {:.1} runs", runs as f64 / f64::from(tries));
    println!("covered at the stop: {covered:.4} (at least 0.95)");
    assert!(covered >= 0.95 - slack(tries, 0.95));
}

#[test]
fn small() {
    intervals_of_means(SMALL);
    intervals_of_ratios_and_shifts(SMALL);
    false_alarms(SMALL);
    false_equality(SMALL);
    looking_all_the_time(SMALL / 3);
}

#[test]
#[ignore = "takes minutes; nightly runs it"]
fn large() {
    intervals_of_means(LARGE);
    intervals_of_ratios_and_shifts(LARGE);
    false_alarms(LARGE);
    false_equality(LARGE);
    looking_all_the_time(LARGE);
}
