//! A generator of random numbers and the noise of simulated machines.

use convoy_stats::{GOLDEN, mix};

/// A small generator (`SplitMix64`): the same numbers everywhere for a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(GOLDEN) ^ 0x5851_F42D_4C95_7F2D)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform in `(0, 1)`.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    /// Standard normal (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// The noise of runs, with unit standard deviation (of the core, where outliers, slow phases or a
/// drift come on top).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Noise {
    Gaussian,
    /// Student t with 3 degrees of freedom, scaled to unit variance.
    T3,
    /// Logarithm normal with sd 1.
    Lognormal,
    /// 5 % of the runs are slower by the size of a normal value with sd 10.
    Outliers,
    /// Two modes, each with a tenth of the sd; the slow one has this share.
    Modes(f64),
    /// Each run keeps 0.9 of the previous run's disturbance.
    Correlated,
    /// The machine is slow (times 1.5) for 4 s of 12; a run takes a second.
    SlowPhases,
    /// The level rises by 0.2 % with each run.
    Drift,
    /// Three equally likely modes, each with a tenth of the sd.
    ThreeModes,
    /// The level walks by 0.3 sd from run to run, in addition to Gaussian noise.
    Walk,
    /// Cauchy, with quartiles one sd apart.
    Cauchy,
}

/// Every shape, with the name that is printed and given. The last three are outside the model.
pub(crate) const NOISES: [(&str, Noise); 13] = [
    ("gaussian", Noise::Gaussian),
    ("t3", Noise::T3),
    ("lognormal", Noise::Lognormal),
    ("outliers", Noise::Outliers),
    ("modes-50-50", Noise::Modes(0.5)),
    ("modes-30-70", Noise::Modes(0.3)),
    ("modes-10-90", Noise::Modes(0.1)),
    ("ar-0.9", Noise::Correlated),
    ("slow-phases", Noise::SlowPhases),
    ("drift", Noise::Drift),
    ("three-modes", Noise::ThreeModes),
    ("walk", Noise::Walk),
    ("cauchy", Noise::Cauchy),
];

/// A machine that runs one thing after another.
pub(crate) struct Machine {
    noise: Noise,
    /// Remainder of earlier disturbances, in sd.
    state: f64,
    /// Seconds since the begin of a slow phase.
    clock: f64,
    runs: f64,
}

impl Machine {
    pub(crate) fn new(noise: Noise, random: &mut Random) -> Self {
        let (state, clock) = match noise {
            Noise::Correlated => (random.normal(), 0.0),
            Noise::SlowPhases => (0.0, 12.0 * random.uniform()),
            _ => (0.0, 0.0),
        };
        Self { noise, state, clock, runs: 0.0 }
    }

    /// Noise of the next run, in sd.
    pub(crate) fn draw(&mut self, random: &mut Random) -> f64 {
        match self.noise {
            Noise::Gaussian | Noise::SlowPhases | Noise::Drift => random.normal(),
            Noise::T3 => {
                let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                random.normal() / squares.sqrt()
            }
            Noise::Lognormal => {
                let (mean, variance) = (0.5_f64.exp(), 2.0_f64.exp() - 1.0_f64.exp());
                (random.normal().exp() - mean) / variance.sqrt()
            }
            Noise::Outliers => {
                let core = random.normal();
                let slow = 10.0 * random.normal().abs();
                if random.uniform() < 0.05 { core + slow } else { core }
            }
            Noise::Modes(share) => {
                let apart = 1.0 / (share * (1.0 - share)).sqrt();
                let slow = f64::from(u8::from(random.uniform() < share));
                0.1 * random.normal() + apart * (slow - share)
            }
            Noise::ThreeModes => {
                let mode = random.below(3) as f64 - 1.0;
                0.1 * random.normal() + 1.5_f64.sqrt() * mode
            }
            Noise::Walk => {
                self.state += 0.3 * random.normal();
                self.state + random.normal()
            }
            Noise::Cauchy => 0.5 * (std::f64::consts::PI * (random.uniform() - 0.5)).tan(),
            Noise::Correlated => {
                self.state = 0.9 * self.state + 0.19_f64.sqrt() * random.normal();
                self.state
            }
        }
    }

    /// The value of the next run at `level`.
    pub(crate) fn run(&mut self, level: f64, sd: f64, random: &mut Random) -> f64 {
        let value = level + sd * self.draw(random);
        self.runs += 1.0;
        match self.noise {
            Noise::SlowPhases => {
                let value = if self.clock % 12.0 < 4.0 { 1.5 * value } else { value };
                self.clock += (value / level).max(0.0);
                value
            }
            Noise::Drift => value + 0.002 * level * self.runs,
            _ => value,
        }
    }
}
