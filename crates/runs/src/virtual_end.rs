//! The end of a run on the virtual machine.

use std::cell::RefCell;

use convoy_kernel::WorldError;
use convoy_machine::{Machine, Outcome};

/// Virtual time after which a run is aborted, nanoseconds: a hundred times the longest published
/// run.
const LIMIT_NS: u64 = 40_000_000_000_000;

/// Errors of runs on the virtual machine.
#[derive(Debug, thiserror::Error)]
pub enum VirtualError {
    /// The host cannot reserve the machine's address space.
    #[error(
        "cannot reserve address space for a virtual machine of {tasks} tasks: {source}; it takes \
         24 GiB of addresses and a small part of that in memory: raise the limit of addresses \
         (ulimit -v) or allow overcommit (sysctl vm.overcommit_memory=0)"
    )]
    AddressSpace {
        /// Requested tasks.
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
    /// A job of the mix cannot run on the virtual kernel.
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
    /// The run was aborted because it took too much of the host's time.
    #[error("the simulation had no result after {operations} memory operations")]
    OperationLimit {
        /// Memory operations until it was aborted.
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
        /// The tasks with the resources that they wait for, and the command that repeats the run.
        what: String,
    },
}

/// Runs `machine` until its first process stops it. If that process left a message in `broken`, it
/// could not set up its `users`, and the message is the reason.
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
