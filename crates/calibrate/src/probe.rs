//! The parts of a measurement: threads, each on one CPU, and the least of many batches.

use std::io;
use std::path::Path;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

use rustix::thread::CpuSet;

use crate::calls;

/// Why this machine cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A system call failed.
    #[error("cannot measure {what}: {source}")]
    Call {
        /// The quantity to be measured.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Other programs used the CPUs.
    #[error("other programs use the CPUs, so that nothing could be measured in {0} s")]
    Busy(u64),
    /// The caller has ended the measurement.
    #[error("a signal has ended the measurement")]
    Interrupted,
    /// The units of user-mode work cannot be measured.
    #[error(transparent)]
    Units(#[from] crate::units::CalibrateError),
    /// System calls cannot be measured.
    #[error(transparent)]
    Calls(#[from] calls::CallsError),
}

fn call<T>(what: &'static str, result: rustix::io::Result<T>) -> Result<T, MachineError> {
    result.map_err(|errno| MachineError::Call { what, source: errno.into() })
}

/// Why a thread could not be started.
pub(crate) const A_THREAD: &str =
    "with a thread more than this process may have (ulimit -u, pids.max)";

/// Starts a thread that ends with `scope`.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, MachineError> {
    let started = std::thread::Builder::new().spawn_scoped(scope, body);
    started.map_err(|source| MachineError::Call { what: A_THREAD, source })
}

pub(crate) fn pin(cpu: usize) -> Result<(), MachineError> {
    let mut set = CpuSet::new();
    set.set(cpu);
    call("pinning to a CPU", rustix::thread::sched_setaffinity(None, &set))
}

/// Least nanoseconds of one of `each` things that `batch` does.
pub(crate) fn least(batches: usize, each: u64, mut batch: impl FnMut()) -> f64 {
    let sample = |_| {
        let start = Instant::now();
        batch();
        start.elapsed().as_nanos() as f64 / each as f64
    };
    (0..batches).map(sample).fold(f64::MAX, f64::min)
}

/// The content of a file of the kernel.
pub(crate) fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(Path::new(path)).ok()?.trim().to_owned())
}
