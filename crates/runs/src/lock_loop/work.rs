//! Work of the threads of a lock loop: its length, and which critical sections only read.

use convoy_stats::Rng;
use serde::{Deserialize, Serialize};

/// Variation of the work in a critical section, or between two, around its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vary {
    /// Constant.
    #[default]
    Fixed,
    /// Constant, but each thread starts with a uniformly drawn addition, so that no two threads are
    /// at the same point of the loop at a tick.
    Staggered,
    /// Drawn from the exponential distribution, by each thread with a separate generator.
    Exponential,
}

impl Vary {
    /// Returns its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Staggered => "staggered",
            Self::Exponential => "exponential",
        }
    }
}

/// Work of one thread, piece by piece.
pub(crate) enum Work {
    Fixed(u32),
    /// Addition to the first piece, and length of each.
    Staggered(u32, u32),
    Exponential(f64, Rng),
}

impl Work {
    /// Returns the work of thread `index`, `steps` long on average. The same seed and index give
    /// the same draws.
    pub(crate) fn new(vary: Vary, steps: u32, seed: u64, index: u32) -> Self {
        let mut rng = Rng::new(seed ^ (u64::from(index) << 32));
        match vary {
            Vary::Fixed => Self::Fixed(steps),
            Vary::Staggered => Self::Staggered((rng.uniform() * f64::from(steps)) as u32, steps),
            Vary::Exponential => Self::Exponential(f64::from(steps), rng),
        }
    }

    /// Draws the next length, in steps.
    pub(crate) fn draw(&mut self) -> u32 {
        match self {
            Self::Fixed(steps) => *steps,
            Self::Staggered(more, steps) => *steps + core::mem::take(more),
            // libm's logarithm has the same digits on every machine. The argument is never 0.
            Self::Exponential(mean, rng) => {
                (-libm::log(1.0 - rng.uniform()) * *mean).round() as u32
            }
        }
    }
}

/// Chooses the critical sections of one thread that acquire the lock for reading.
pub(crate) struct Readers(u32, Rng);

impl Readers {
    /// Returns a chooser of `percent` of the critical sections of thread `index`.
    pub(crate) fn new(percent: u32, seed: u64, index: u32) -> Self {
        Self(percent, Rng::new(seed.rotate_left(32) ^ !u64::from(index)))
    }

    /// Returns whether the next critical section only reads.
    pub(crate) fn draw(&mut self) -> bool {
        match self.0 {
            0 => false,
            100.. => true,
            percent => self.1.uniform() * 100.0 < f64::from(percent),
        }
    }
}

/// The work of one thread.
pub(crate) struct Works {
    /// In a critical section.
    pub(crate) inside: Work,
    /// Between two critical sections.
    pub(crate) outside: Work,
    /// Selects the critical sections that only read.
    pub(crate) readers: Readers,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staggered_threads_differ_in_their_first_stretch_only() {
        fn draws(index: u32) -> [u32; 3] {
            let mut outside = Work::new(Vary::Staggered, 1000, 7, index);
            [outside.draw(), outside.draw(), outside.draw()]
        }
        let (first, second) = (draws(0), draws(1));
        assert_ne!(first[0], second[0]);
        assert!((1000..2000).contains(&first[0]) && (1000..2000).contains(&second[0]));
        assert_eq!([first[1], first[2], second[1]], [1000; 3]);
    }

    #[test]
    fn of_mixed_sections_the_share_reads_that_was_asked_for() {
        fn share(percent: u32) -> usize {
            let mut readers = Readers::new(percent, 7, 3);
            (0..10_000).filter(|_| readers.draw()).count()
        }
        assert_eq!((share(0), share(100)), (0, 10_000));
        assert!((2_800..3_200).contains(&share(30)), "{}", share(30));
    }

    #[test]
    fn exponential_work_has_its_mean_and_each_thread_draws_its_own() {
        fn draws(index: u32) -> Vec<u32> {
            let mut outside = Work::new(Vary::Exponential, 1000, 7, index);
            (0..20_000).map(|_| outside.draw()).collect::<Vec<u32>>()
        }
        let first = draws(0);
        let mean = first.iter().map(|&steps| f64::from(steps)).sum::<f64>() / 20_000.0;
        // The standard error of the mean is 7.
        assert!((970.0..1030.0).contains(&mean), "{mean}");
        let short = first.iter().filter(|&&steps| steps < 693).count();
        assert!((9_700..10_300).contains(&short), "half are below ln 2 of the mean: {short}");
        assert_eq!(first, draws(0));
        assert_ne!(first, draws(1));
    }
}
