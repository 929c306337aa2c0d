//! Limits of the host's time for a simulation. They count operations of the virtual machine instead
//! of using a clock, so that results do not depend on the host.

/// Minimum number of batches from which a throughput is judged.
pub(super) const BATCHES: usize = 10;
/// Longest batch, nanoseconds.
pub(super) const BATCH_MAX_NS: f64 = 50e6;

/// Limits of the host's time for a simulation. Work is counted in memory operations of the virtual
/// machine, of which the host makes about 30 million per second; a resumption of a coroutine counts
/// as three of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Work after which the window ends although the throughput is not known well enough.
    pub window: u64,
    /// Work after which the window begins although the run has not settled.
    pub before: u64,
    /// Memory operations after which the run is aborted.
    pub most: u64,
    /// Minimum number of batches of a window, unless they take too much work; and their largest
    /// length, nanoseconds.
    pub batches: usize,
    /// See `batches`.
    pub batch_ns: u64,
    /// Largest number of simulations that fit the anchor.
    pub steps: usize,
    /// Whether to refuse the result of a run that has not settled, or of which the throughput is
    /// not known.
    pub refuses: bool,
}

impl Effort {
    /// The effort that results need: settling and window take about a fifth of a second of the
    /// host, so that the 80 simulations of four numbers of CPUs take less than ten seconds on two
    /// CPUs.
    pub const FULL: Self = Self {
        window: 3_000_000,
        before: 4_000_000,
        most: 12_000_000,
        batches: BATCHES,
        batch_ns: BATCH_MAX_NS as u64,
        steps: 10,
        refuses: true,
    };
    /// Returns the effort of one of the simulations that fit the anchor, of which each round makes
    /// up to ten one after another: a drift that remains is fitted, too.
    pub(super) fn of_fit(self) -> Self {
        Self { window: self.window / 3, before: self.before / 3, ..self }
    }

    /// A few milliseconds of the host: all code runs, but the numbers mean nothing. For tests of
    /// many records.
    pub const LEAST: Self = Self {
        window: 2000,
        before: 2000,
        most: 1_000_000,
        batches: 1,
        batch_ns: 100_000,
        steps: 2,
        refuses: false,
    };
}
