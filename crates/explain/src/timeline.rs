//! A run in a bounded number of intervals, which double in width as the run grows.

use crate::cpu::{State, Times};

/// Maximum number of intervals kept.
const BINS: usize = 2048;
/// Initial width in picoseconds: 100 us.
const WIDTH: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bin {
    pub(crate) times: Times,
    /// Time in stalls.
    pub(crate) stalled: u64,
    pub(crate) runnable_max: u32,
    pub(crate) waiters_max: u32,
}

/// Shares of the CPU time over a run, percent, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverTime {
    /// The middle of each interval, in seconds after the start.
    pub seconds: Vec<f64>,
    /// The lines of the CPU states: name, and a value for each interval.
    pub series: Vec<(String, Vec<f64>)>,
    /// Time of each interval in which a lock was wanted and its owner was on no CPU. A sum over all
    /// locks, so it may exceed 100.
    pub stalled: Vec<f64>,
}

/// The intervals since `from`.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) from: u64,
    pub(crate) width: u64,
    pub(crate) bins: Vec<Bin>,
}

impl Timeline {
    pub(crate) fn new(from: u64) -> Self {
        Self { from, width: WIDTH, bins: Vec::new() }
    }

    /// Returns at most `most` intervals of a machine of `cpus` CPUs: states that reach one percent
    /// in some interval, and the time in which a lock was wanted and its owner was on no CPU.
    pub(crate) fn over(&self, cpus: usize, most: usize) -> OverTime {
        let joined = self.bins.len().div_ceil(most.max(1)).max(1);
        let width_s = self.width as f64 * joined as f64 / 1e12;
        let parts: Vec<&[Bin]> = self.bins.chunks(joined).collect();
        let share = |of: &dyn Fn(&Bin) -> u64, all: f64| -> Vec<f64> {
            let one = |part: &&[Bin]| {
                let sum: u64 = part.iter().map(of).sum();
                100.0 * sum as f64 / (self.width as f64 * part.len() as f64 * all)
            };
            parts.iter().map(one).collect()
        };
        let mut series: Vec<(String, Vec<f64>)> = Vec::new();
        for state in State::ALL {
            let values = share(&|bin| bin.times[state as usize], cpus as f64);
            series.push((state.name().to_owned(), values));
        }
        series.retain(|(_, values)| values.iter().any(|value| *value >= 1.0));
        let seconds = (0..parts.len()).map(|at| (at as f64 + 0.5) * width_s).collect();
        OverTime { seconds, series, stalled: share(&|bin| bin.stalled, 1.0) }
    }

    fn bin(&mut self, at: u64) -> &mut Bin {
        let offset = at.saturating_sub(self.from);
        while offset / self.width >= BINS as u64 {
            self.halve();
        }
        let index = (offset / self.width) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }

    fn halve(&mut self) {
        let merged = self.bins.chunks(2).map(|pair| {
            let mut one = pair[0];
            if let Some(other) = pair.get(1) {
                for (sum, part) in one.times.iter_mut().zip(other.times) {
                    *sum += part;
                }
                one.stalled += other.stalled;
                one.runnable_max = one.runnable_max.max(other.runnable_max);
                one.waiters_max = one.waiters_max.max(other.waiters_max);
            }
            one
        });
        self.bins = merged.collect();
        self.width *= 2;
    }

    fn spread(&mut self, from: u64, to: u64, mut add: impl FnMut(&mut Bin, u64)) {
        let mut at = from.max(self.from);
        while at < to {
            self.bin(at);
            let offset = at - self.from;
            let end = (self.from + (offset / self.width + 1) * self.width).min(to);
            add(self.bin(at), end - at);
            at = end;
        }
    }

    /// Records that a CPU was in `state` from `from` to `to`.
    pub(crate) fn add(&mut self, from: u64, to: u64, state: State) {
        self.spread(from, to, |bin, span| bin.times[state as usize] += span);
    }

    /// Records that a lock was wanted and its owner was on no CPU.
    pub(crate) fn add_stall(&mut self, from: u64, to: u64) {
        self.spread(from, to, |bin, span| bin.stalled += span);
    }

    /// Records the numbers of tasks that waited for a CPU, and for a lock, at `at`.
    pub(crate) fn see(&mut self, at: u64, runnable: u32, waiters: u32) {
        let bin = self.bin(at);
        bin.runnable_max = bin.runnable_max.max(runnable);
        bin.waiters_max = bin.waiters_max.max(waiters);
    }
}
