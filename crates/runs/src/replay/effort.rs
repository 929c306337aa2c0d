//! How much of the host's time a simulation may take. It is counted in what the virtual machine
//! does and not by a clock, so that results do not depend on the host.

/// Batches by which a throughput is judged, at least.
pub(super) const BATCHES: usize = 10;
/// Longest batch, nanoseconds.
pub(super) const BATCH_MAX_NS: f64 = 50e6;

/// How much of the host's time a simulation may take. Work is counted in memory operations of the
/// virtual machine, of which the host makes some 30 million a second; a resumption of a coroutine
/// counts as three of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Work after which the window ends, though the throughput is not known well enough.
    pub window: u64,
    /// Work after which the window begins, though the run has not settled.
    pub before: u64,
    /// Memory operations after which the run is given up.
    pub most: u64,
    /// Batches of a window, at least, unless they take too much work; and their greatest length,
    /// nanoseconds.
    pub batches: usize,
    /// See `batches`.
    pub batch_ns: u64,
    /// Simulations by which the anchor is found, at most.
    pub steps: usize,
    /// Whether the result of a run that has not settled, or whose throughput is not known, is
    /// refused.
    pub refuses: bool,
}

impl Effort {
    /// As much as results need: settling and window take about a fifth of a second of the host, so
    /// that the 80 simulations of four numbers of CPUs take less than ten seconds on two CPUs.
    pub const FULL: Self = Self {
        window: 3_000_000,
        before: 4_000_000,
        most: 12_000_000,
        batches: BATCHES,
        batch_ns: BATCH_MAX_NS as u64,
        steps: 10,
        refuses: true,
    };
    /// A few milliseconds of the host: all code runs, and the numbers mean nothing. For tests of
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
