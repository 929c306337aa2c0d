//! One lock loop on this machine, measured once.

use std::sync::OnceLock;

use super::cell::{self, Plan};
use super::work::Calibration;
use super::{NativeError, NativeRun, measure};
use crate::lock_loop::{Policy, Think};

/// One lock loop on this machine, measured once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The lock.
    pub policy: Policy,
    /// CPUs that the threads are kept to, if not all.
    pub cpus: Option<u32>,
    /// Threads.
    pub threads: u32,
    /// Length of the section, in nanoseconds.
    pub section_ns: u32,
    /// Work between two sections, in nanoseconds.
    pub outside_ns: u32,
    /// How that work varies.
    pub think: Think,
    /// Looks of a lock that spins before it sleeps, instead of its own number.
    pub spin_limit: Option<u32>,
    /// Seed of the draws.
    pub seed: u64,
    /// Time before the window, in milliseconds.
    pub warmup_ms: u32,
    /// Length of the window, in milliseconds.
    pub window_ms: u32,
}

/// Measures one lock loop. The length of the work is calibrated once in a process.
///
/// # Errors
/// [`NativeError::Threads`], [`NativeError::Stuck`] and [`NativeError::Cpus`].
pub fn once(what: &Loop) -> Result<NativeRun, NativeError> {
    static CALIBRATION: OnceLock<Calibration> = OnceLock::new();
    CALIBRATION.get_or_init(Calibration::measure).run(what)
}

impl Calibration {
    pub(super) fn run(&self, what: &Loop) -> Result<NativeRun, NativeError> {
        let plan = Plan {
            threads: what.threads,
            cpus: what.cpus,
            section_steps: self.steps(what.section_ns),
            outside_steps: self.steps(what.outside_ns),
            think: what.think,
            spin_limit: what.spin_limit,
            seed: what.seed,
            warmup_ms: what.warmup_ms,
            window_ms: what.window_ms,
            drain_ms: cell::DRAIN_MS,
        };
        let tally = measure(what.policy, &plan)?;
        Ok(tally.into_run(0, 0, what.section_ns, what.threads, what.policy))
    }
}
