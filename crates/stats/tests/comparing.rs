//! Comparing until the verdict is certain, as `convoy compare` does, under noise that is not
//! normal: equal sides must not be called different, a slower side must not be called faster, and
//! large differences must be found soon. The small version runs with every change, the large one
//! nightly.

#![expect(clippy::print_stdout, reason = "the shares are what one wants to read")]

use convoy_stats::{
    Betting, Comparison, Question, Rng, Sample, Verdict, log_ratios, smallest_found,
};

/// Pairs at most, and before the first look, as `convoy compare` has them.
const CAP: usize = 100;
const FIRST_LOOK: usize = 6;

/// Noise of the runs, in units of their standard deviation.
#[derive(Clone, Copy, Debug)]
enum Noise {
    Gaussian,
    /// Lognormal, of skewness 6.2.
    Skewed,
    /// Student's t with 3 degrees of freedom.
    HeavyTails,
    /// One run in 20 is slower, by 10 standard deviations or so.
    Outliers,
    /// Each run correlates with the previous one: AR(1) with this coefficient.
    Alike(f64),
    /// The machine becomes slower by 1 % over the longest series.
    Drift,
    /// Two speeds, as of two layouts in memory.
    TwoSpeeds,
    /// Other load comes and goes; while it is there, runs are slower and vary ten times as much.
    Load,
}

const NOISES: [Noise; 9] = [
    Noise::Gaussian,
    Noise::Skewed,
    Noise::HeavyTails,
    Noise::Outliers,
    Noise::Alike(0.3),
    Noise::Alike(0.6),
    Noise::Drift,
    Noise::TwoSpeeds,
    Noise::Load,
];

/// A machine that runs equal programs.
struct Machine<'a> {
    rng: &'a mut Rng,
    noise: Noise,
    cv: f64,
    runs: usize,
    /// What AR(1) keeps.
    last: f64,
    loaded: bool,
}

impl Machine<'_> {
    fn run(&mut self) -> f64 {
        let z = self.rng.normal();
        let noise = match self.noise {
            // The standard deviation of exp(z) is sqrt(e (e - 1)).
            Noise::Skewed => (z.exp() - 0.5_f64.exp()) / 2.1612,
            Noise::HeavyTails => {
                let chi: f64 = (0..3).map(|_| self.rng.normal().powi(2)).sum();
                z / chi.sqrt()
            }
            Noise::Outliers if self.rng.uniform() < 0.05 => z + 10.0 * self.rng.normal().abs(),
            Noise::Outliers | Noise::Gaussian => z,
            Noise::Alike(share) => {
                self.last = share * self.last + (1.0 - share * share).sqrt() * z;
                self.last
            }
            Noise::Drift => z + 0.01 / self.cv * self.runs as f64 / (2 * CAP) as f64,
            Noise::TwoSpeeds => 0.05 * z + if self.rng.uniform() < 0.5 { 1.0 } else { -1.0 },
            Noise::Load => {
                self.loaded ^= self.rng.uniform() < 0.1;
                if self.loaded { 3.0 + 3.0 * z } else { 0.3 * z }
            }
        };
        self.runs += 1;
        (self.cv * noise).exp()
    }
}

/// The verdict on a candidate that takes `1 + effect` of the time, and after how many pairs.
fn compare(rng: &mut Rng, noise: Noise, cv: f64, effect: f64) -> (Verdict, usize) {
    let question = Question::default();
    let last = rng.normal();
    let mut coin = Rng::new(rng.bits());
    let mut machine = Machine { rng, noise, cv, runs: 0, last, loaded: false };
    let margin = question.margin.ln_1p();
    let mut bets = Betting::default();
    for pairs in 1..=CAP {
        let (mut baseline, mut candidate) = (machine.run(), machine.run());
        if coin.below(2) == 1 {
            (baseline, candidate) = (candidate, baseline);
        }
        bets.push((candidate * (1.0 + effect) / baseline).ln());
        if pairs < FIRST_LOOK {
            continue;
        }
        // The verdict of `Comparison::watched` without what the table prints beside it.
        let lies = bets.one_sided(-margin)[0] <= question.alpha / 2.0;
        if lies && bets.one_sided(margin)[1] <= question.alpha / 2.0 {
            return (Verdict::Same { within: question.margin }, pairs);
        }
        if bets.p(0.0) <= question.alpha {
            let slower = bets.direction().is_gt();
            return (if slower { Verdict::Slower } else { Verdict::Faster }, pairs);
        }
    }
    (Verdict::Unsure, CAP)
}

/// Shares of faster, slower and same, and the mean number of pairs.
fn shares(noise: Noise, cv: f64, effect: f64, tries: u32) -> [f64; 4] {
    let mut rng = Rng::new(1);
    let mut sums = [0.0; 4];
    for _ in 0..tries {
        let (verdict, pairs) = compare(&mut rng, noise, cv, effect);
        match verdict {
            Verdict::Faster => sums[0] += 1.0,
            Verdict::Slower => sums[1] += 1.0,
            Verdict::Same { .. } => sums[2] += 1.0,
            Verdict::Unsure => {}
        }
        sums[3] += pairs as f64;
    }
    let found = sums.map(|sum| sum / f64::from(tries));
    let [faster, slower, same, pairs] = found;
    println!(
        "{noise:?}, cv {cv}, {effect:+.2}: faster {faster:.4}, slower {slower:.4}, same {same:.4}, \
         {pairs:.1} pairs"
    );
    found
}

/// Four standard errors of a share, so that a small simulation does not fail by chance.
fn slack(share: f64, tries: u32) -> f64 {
    4.0 * (share * (1.0 - share) / f64::from(tries)).sqrt()
}

fn errors(tries: u32, cvs: &[f64]) {
    for noise in NOISES {
        for &cv in cvs {
            let [faster, slower, ..] = shares(noise, cv, 0.0, tries);
            assert!(faster + slower <= 0.05 + slack(0.05, tries), "{noise:?} {cv}: false alarms");
            let [faster, ..] = shares(noise, cv, 0.03, tries);
            assert!(faster <= 0.01 + slack(0.01, tries), "{noise:?} {cv}: wrong side");
        }
    }
}

fn power(tries: u32) {
    for noise in NOISES {
        let [_, slower, _, pairs] = shares(noise, 0.01, 0.03, tries);
        assert!(slower > 0.99 && pairs < 16.0, "{noise:?}");
    }
    let [_, slower, _, pairs] = shares(Noise::Gaussian, 0.01, 0.03, tries);
    assert!(slower > 0.999 && pairs < 9.0);
    let [_, _, same, pairs] = shares(Noise::Gaussian, 0.01, 0.0, tries);
    assert!(same > 0.95 && pairs < 40.0);
}

#[test]
fn small() {
    errors(200, &[0.05]);
    power(100);
}

#[test]
#[ignore = "takes minutes; nightly runs it"]
fn large() {
    errors(2_000, &[0.01, 0.02, 0.05, 0.1, 0.2]);
    power(2_000);
}

#[test]
fn the_power_that_is_stated_is_found() {
    let (mut rng, tries) = (Rng::new(9), 400);
    for (pairs, power) in [(15, 0.8), (30, 0.8), (30, 0.95), (100, 0.5), (100, 0.8)] {
        let mean = smallest_found(pairs, 0.05, power).unwrap();
        let sure = (0..tries).filter(|_| {
            let mut bets = Betting::default();
            (0..pairs).any(|pair| {
                bets.push(mean + rng.normal());
                pair + 1 >= FIRST_LOOK && bets.p(0.0) <= 0.05
            })
        });
        let share = sure.count() as f64 / f64::from(tries);
        println!("{pairs} pairs, {mean:.2} sd: {share:.3} for {power}");
        assert!((share - power).abs() < 0.12, "{pairs} pairs, {mean} sd: {share} for {power}");
    }
    assert!(smallest_found(7, 0.05, 0.8).is_err() && smallest_found(8, 0.05, 0.8).is_ok());
}

#[test]
fn the_verdict_is_that_of_the_table() {
    let mut rng = Rng::new(5);
    for case in 0..300 {
        let effect = [0.0, 0.0, 0.03, -0.03][case % 4];
        let cv = [0.002, 0.01, 0.05][case % 3];
        let side = |rng: &mut Rng, level: f64| {
            let values: Vec<f64> = (0..12).map(|_| level * (cv * rng.normal()).exp()).collect();
            Sample::new(values).unwrap()
        };
        let (baseline, candidate) = (side(&mut rng, 1.0), side(&mut rng, 1.0 + effect));
        let row = Comparison::watched(&baseline, &candidate, Question::default()).unwrap();
        let bets = Betting::new(log_ratios(&baseline, &candidate).unwrap().values());
        let margin = 0.01_f64.ln_1p();
        let same = bets.one_sided(-margin)[0].max(bets.one_sided(margin)[1]) <= 0.025;
        assert_eq!(row.reach_so_far < 0.01, same);
        assert_eq!(matches!(row.typical(), Verdict::Same { .. }), row.reach < 0.01);
        assert!(row.reach <= row.reach_so_far);
        // The interval leaves each side half of the error, p their sum: it never claims more.
        let ratio = row.ratio.unwrap();
        let is_last = row.reach < 0.01 && row.reach_so_far >= 0.01;
        let open = bets.p(0.0) > 0.05 && !is_last;
        assert!(!open || (ratio.lo..=ratio.hi).contains(&1.0), "{row:?}");
        assert_eq!(row.p.to_bits(), bets.p(0.0).to_bits());
    }
}
