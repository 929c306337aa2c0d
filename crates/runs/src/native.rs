//! Lock loops with threads of this machine.
//!
//! Each thread repeats: work outside, acquire the lock, work inside, release it. Both kinds of work
//! are dependent chains of multiplications of a calibrated length, so that time spent preempted
//! does not count as work. The chain inside continues from a word that all threads share.
//!
//! The loop itself is [`lock_loop`](crate::lock_loop); the same source also runs on the virtual
//! kernel.
//!
//! Notes on the numbers:
//!
//! - A wait lasts from before `down` to after it, including its beginning in the warm-up. The wait
//!   of a thread that still waits when the window ends counts as if it ended there; without these
//!   waits, a lock that starves threads would seem fast.
//! - The clock read that ends a wait happens with the semaphore held, so it is part of the critical
//!   section and is subtracted from the chain by the calibration.
//! - Context switches and CPU time cover the whole process.
//! - Other programs compete for CPUs, so they make a policy that keeps the CPUs busy look worse
//!   compared with a policy that lets them idle. `cpus_used` shows it.

mod cell;
pub mod hogs;
mod library;
mod pthread;
mod work;

pub use library::Library;

use std::sync::OnceLock;

use convoy_sync::{AdaptiveLock, Native, with_lock};

use crate::lock_loop::{Loop, LoopResult, Measured};
use cell::{CellError, Plan};
use work::Calibration;

/// Errors of lock loops on this machine.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The system refused a thread.
    #[error(
        "only {started} of {wanted} threads could start ({source}); raise `ulimit -u` or \
         lower `threads`"
    )]
    Threads {
        /// Threads that were running when it refused.
        started: u32,
        /// Requested threads.
        wanted: u32,
        /// Reason of the system.
        source: std::io::Error,
    },
    /// Threads never returned from the lock: a wakeup was lost, or too many threads spin.
    #[error(
        "{lock}: {missing} of {threads} threads did not leave the lock in time; a wake-up was \
         lost, or the lock has collapsed"
    )]
    Stuck {
        /// The lock.
        lock: &'static str,
        /// Threads that were started.
        threads: u32,
        /// Threads that did not exit.
        missing: u32,
    },
    /// The threads cannot be restricted to some CPUs.
    #[error(transparent)]
    Cpus(convoy_os::clock::CpusError),
}

static CALIBRATION: OnceLock<Calibration> = OnceLock::new();

/// Measures one lock loop. The length of the work is calibrated once in a process.
///
/// # Errors
/// Returns a [`NativeError`] if the system refuses a thread, if the threads cannot be restricted to
/// the CPUs, or if a thread does not leave the lock.
pub fn once(what: &Loop) -> Result<LoopResult, NativeError> {
    let calibration = CALIBRATION.get_or_init(Calibration::measure);
    let plan = Plan { what, calibration, drain_ms: cell::DRAIN_MS };
    let result = match what.lock {
        // User space cannot forbid preemption, so the inner locks may sleep.
        Measured::Generic(lock) => {
            with_lock!(lock, Native, AdaptiveLock<Native>, T => cell::run::<T>(&plan))
        }
        Measured::Library(lock) => lock.run(&plan),
    };
    result.map_err(|error| match error {
        CellError::Threads { started, source } => {
            NativeError::Threads { started, wanted: what.threads, source }
        }
        CellError::Stuck { missing } => {
            NativeError::Stuck { lock: what.lock.name(), threads: what.threads, missing }
        }
        CellError::Cpus(error) => NativeError::Cpus(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock_loop::{Library, Policy, Vary};

    fn short(lock: Measured) -> LoopResult {
        let what = Loop {
            lock,
            threads: 5,
            section_ns: 50,
            section: Vary::Exponential,
            outside_ns: 100,
            window_ms: 10,
            ..Loop::default()
        };
        once(&what).unwrap()
    }

    #[test]
    fn a_short_loop_gives_every_number() {
        let result = short(Measured::Generic(Policy::Opportunistic));
        // The window lasts for the requested time, and then until a thread has completed a critical
        // section.
        assert!(result.window_s >= 0.01 && result.acquisitions_per_s() > 0.0);
        let of = |key: &str| result.metrics().iter().find(|(name, _)| *name == key).unwrap().1;
        assert!(of("wait_p50_us") <= of("wait_p99_us") && of("wait_p99_us") <= of("wait_max_us"));
        assert!(of("starved_threads") < 5.0 && of("waiting_threads") <= 5.0);
        assert!(of("cpus_used") > 0.0 && of("jain") <= 1.0 + 1e-9);
        assert!(of("cpu_ns_per_section") > 0.0 && of("alone_ns") > 0.0);
    }

    #[test]
    fn every_lock_of_a_library_runs() {
        for &lock in Library::ALL {
            assert!(short(Measured::Library(lock)).acquisitions_per_s() > 0.0, "{}", lock.name());
        }
    }
}
