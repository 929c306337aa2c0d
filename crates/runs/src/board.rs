//! State that the threads of a run write and its coordinator reads, and the result computed from
//! it.

use std::cell::{self, RefCell};

use convoy_machine::Machine;
use convoy_stats::LogHistogram;

use crate::lock_loop::{LoopResult, Trace};
use crate::replay::{Gates, Tally};
use crate::snapshot::Snapshot;
use crate::steady::Settling;

/// Additional tasks of the machine.
pub(crate) const TASKS_BESIDE: usize = 16;

/// The result.
#[derive(Clone, Debug, Default)]
pub struct VirtualLocksPoint {
    /// Measurements of the threads.
    pub result: LoopResult,
    /// Simulated memory operations.
    pub operations: u64,
    /// Schedule hash of the whole run.
    pub hash: u64,
    /// Waits at conditions; of replays.
    pub gates: Gates,
    /// Counts by call site and class; of replays.
    pub tally: Tally,
    /// Half of the 95 % interval of this run's throughput, as a fraction of it, or its drift before
    /// the window if that is larger; 0 if the throughput is known closely enough; of replays.
    pub uncertainty: f64,
}

/// Results of the threads and the coordinator.
#[derive(Default)]
pub(crate) struct Board {
    pub(crate) traces: RefCell<Vec<Trace>>,
    pub(crate) window: RefCell<(Snapshot, Snapshot)>,
    pub(crate) broken: RefCell<Option<String>>,
    pub(crate) gates: RefCell<Gates>,
    pub(crate) tally: RefCell<Tally>,
    pub(crate) uncertainty: cell::Cell<f64>,
    /// CPU time of other programs in the window, nanoseconds.
    pub(crate) others_ns: cell::Cell<f64>,
    pub(crate) settling: cell::Cell<Option<Settling>>,
}

impl VirtualLocksPoint {
    pub(crate) fn of(board: &Board, machine: &Machine) -> Self {
        let (begin, end) = *board.window.borrow();
        let span_s = (end.now_ns - begin.now_ns) as f64 / 1e9;
        let mut waits = LogHistogram::new();
        let traces = board.traces.borrow();
        traces.iter().for_each(|trace| waits.merge(&trace.waits));
        Self {
            result: LoopResult {
                window_s: span_s,
                acquisitions: traces.iter().map(|trace| trace.acquisitions).collect(),
                locks: 1,
                cpus_used: (end.busy_ps - begin.busy_ps) as f64 / 1e12 / span_s,
                others_cpus: None,
                alone_ns: None,
                voluntary_switches: end.voluntary - begin.voluntary,
                settling: board.settling.get(),
                waiting_threads: traces.iter().filter(|trace| trace.waiting).count() as u32,
                waits,
            },
            operations: machine.operations(),
            hash: machine.hash(),
            gates: *board.gates.borrow(),
            tally: board.tally.borrow().clone(),
            uncertainty: board.uncertainty.get(),
        }
    }
}
