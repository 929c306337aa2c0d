//! How a run on the virtual machine ends.

use std::cell::RefCell;

use convoy_kernel::WorldError;
use convoy_machine::{Machine, Outcome};

/// Virtual time after which a run is given up, nanoseconds: a hundred times the longest published.
const LIMIT_NS: u64 = 40_000_000_000_000;

/// Why a virtual run ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum VirtualError {
    /// The host cannot reserve the machine's address space.
    #[error(
        "cannot reserve address space for a virtual machine of {tasks} tasks: {source}; it takes \
         24 GiB of addresses and a small part of that in memory: raise the limit of addresses \
         (ulimit -v) or allow overcommit (sysctl vm.overcommit_memory=0)"
    )]
    AddressSpace {
        /// Tasks asked for.
        tasks: usize,
        /// Why.
        source: std::io::Error,
    },
    /// The kernel cannot be built.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The calibration lacks a unit.
    #[error(transparent)]
    Calibration(#[from] convoy_workload::calibration::CalibrationError),
    /// A job of the mix cannot run there.
    #[error(
        "{job} cannot run on a virtual kernel: {reason}; load this machine with it, or drop it"
    )]
    HostOnly {
        /// The job.
        job: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// The run cannot be set up on the virtual kernel.
    #[error("{users} users on the virtual kernel: {what}; use fewer users")]
    Setup {
        /// The users.
        users: u32,
        /// What failed.
        what: String,
    },
    /// The run is given up, since it takes too much of the host's time.
    #[error("the simulation had no result after {operations} memory operations")]
    OperationLimit {
        /// Memory operations that it may make.
        operations: u64,
    },
    /// Tasks wait for each other, or the time limit was reached.
    #[error(
        "the virtual machine came to no end ({outcome:?} at {at_s:.3} s) with seed {seed} on \
         kernel {kernel}; this is a defect of a lock or of the model: {what}"
    )]
    NoEnd {
        /// How the machine stopped.
        outcome: Outcome,
        /// Virtual time.
        at_s: f64,
        /// The seed.
        seed: u64,
        /// The kernel.
        kernel: String,
        /// Which task waits for what, and the command that repeats the run.
        what: String,
    },
}

/// Runs `machine` until its first process stops it. What that process left in `broken` is why it
/// could not set up its `users`.
pub fn run_to_end(
    machine: &Machine,
    users: u32,
    seed: u64,
    kernel: &str,
    broken: &RefCell<Option<String>>,
) -> Result<(), VirtualError> {
    let outcome = machine.run(LIMIT_NS);
    if let Some(what) = broken.take() {
        return Err(VirtualError::Setup { users, what });
    }
    if outcome == Outcome::OperationLimit {
        return Err(VirtualError::OperationLimit { operations: machine.operations() });
    }
    if outcome != Outcome::Stopped {
        return Err(VirtualError::NoEnd {
            outcome,
            at_s: machine.now_ns() as f64 / 1e9,
            seed,
            kernel: kernel.to_owned(),
            what: machine.explain_no_end(),
        });
    }
    Ok(())
}
