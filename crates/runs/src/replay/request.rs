//! One run of a replay: the program, and the locks, CPUs and kernel that it gets.

use std::sync::Arc;

use convoy_kernel::KernelPreset;
use convoy_machine::Preset;

use super::anchor::Anchor;
use super::behaviour::Behaviour;
use super::effort::Effort;
use crate::lock_loop::Policy;

/// Most acquisitions of a program that is replayed from its beginning to its end.
const WHOLE: u64 = 100_000;

/// One run of the replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What is replayed.
    pub behaviour: Arc<Behaviour>,
    /// Its anchor.
    pub anchor: Anchor,
    /// Threads.
    pub threads: u32,
    /// The lock in place of all of them.
    pub policy: Policy,
    /// Whether only the first lock has the policy, and the others are libc's.
    pub alone: bool,
    /// Looks before it sleeps, instead of its own number.
    pub looks: Option<u32>,
    /// Whether a program of few acquisitions is replayed from its beginning to its end: a convoy
    /// that begins by chance sooner or later bounds a part of such a run, and the rest of a long
    /// one.
    pub whole: bool,
    /// CPUs that other programs take from it.
    pub others_cpus: f64,
    /// How much of the host's time it may take.
    pub effort: Effort,
    /// Seed of the draws and of the machine.
    pub seed: u64,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine with its CPUs.
    pub machine: Preset,
}

impl Replay {
    /// Whether the window is all that the program did.
    pub(super) fn is_whole(&self) -> bool {
        self.whole && (1..=WHOLE).contains(&self.behaviour.total)
    }
}
