//! One run of a replay: the program, and the locks, CPUs and kernel that it uses.

use std::sync::Arc;

use convoy_kernel::KernelPreset;
use convoy_machine::Preset;

use super::anchor::Anchor;
use super::behaviour::Behaviour;
use super::effort::Effort;
use crate::lock_loop::Policy;

/// Largest number of acquisitions of a program that is replayed from its beginning to its end.
const WHOLE: u64 = 100_000;

/// One run of the replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The replayed behaviour.
    pub behaviour: Arc<Behaviour>,
    /// Its anchor.
    pub anchor: Anchor,
    /// Threads.
    pub threads: u32,
    /// The policy that replaces all of its locks.
    pub policy: Policy,
    /// Whether only the first lock has the policy, and the others are libc's.
    pub alone: bool,
    /// Attempts before a waiter sleeps; `None` for the policy's default.
    pub looks: Option<u32>,
    /// Whether a program with few acquisitions is replayed from its beginning to its end. A convoy
    /// that starts by chance limits only a part of such a run, but the rest of a long one.
    pub whole: bool,
    /// CPUs that other programs take from it.
    pub others_cpus: f64,
    /// Limits of the host's time.
    pub effort: Effort,
    /// Seed of the draws and of the machine.
    pub seed: u64,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine with its CPUs.
    pub machine: Preset,
}

impl Replay {
    /// Returns whether the window covers the whole program.
    pub(super) fn is_whole(&self) -> bool {
        self.whole && (1..=WHOLE).contains(&self.behaviour.total)
    }
}
