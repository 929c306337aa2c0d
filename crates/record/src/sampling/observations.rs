//! Observations of a process while it ran.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::hotspot::Hot;
use crate::record::origin::Scheduler;
use crate::sampling::attached::Attached;
use crate::sampling::holds::Holding;
use crate::sampling::kernel_waits::KernelObject;
use crate::sampling::thread_state::{Edge, State, Wait};

/// Observations of one process.
#[derive(Default)]
pub(crate) struct Look {
    /// Activity of owners while others waited, with the number of observations.
    pub(crate) owners: BTreeMap<(Edge, State), u64>,
    /// Activity of owners while no thread waited.
    pub(crate) held: Holding,
    /// Activity of all threads, with the number of observations.
    pub(crate) threads: BTreeMap<State, u64>,
    /// Sleeps in the kernel that may be waits for its locks, by the number of the system call (-1
    /// for a page fault) and the words on the stack that point into code, with the number of
    /// observations.
    pub(crate) kernel: BTreeMap<(i64, KernelObject, Vec<u64>), u64>,
    /// Runtimes with tasks that wait without a thread, by the libraries that it maps.
    pub(crate) schedulers: BTreeSet<Scheduler>,
    /// Owners that could run, of lower real-time priority than the waiting thread: both threads
    /// with their priorities, by the wait, with the number of observations.
    pub(crate) inversions: BTreeMap<(Edge, [(u64, u32); 2]), u64>,
    /// Waits at the time of the last sample.
    pub(crate) waits: Vec<Wait>,
    /// Waits that their threads have left by a jump, each with the start of the wait.
    pub(crate) left: BTreeSet<(u64, u64)>,
    /// Whether no thread could run at the time of the last sample: all waited without a timeout,
    /// one of them for long.
    pub(crate) is_stuck: bool,
    /// Number of samples.
    pub(crate) count: u64,
    /// Time from the first to the last sample, in seconds.
    pub(crate) seconds: f64,
    /// Waits that bypassed the recorded functions.
    pub(crate) outside: Option<Attached>,
    /// Functions in which its threads spent CPU time, and the number of all samples of that.
    pub(crate) hot: (Vec<Hot>, u64),
}
