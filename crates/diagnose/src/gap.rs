//! What a record cannot show, why, and how to see it.

use convoy_record::Scheduler;
use serde::Serialize;

/// What waits in a function of Java's virtual machine may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JavaWaits {
    /// Locks of `java.util.concurrent`, or idle workers.
    Concurrent,
    /// Monitors, or idle threads.
    Monitors,
}

/// A fact that a record does not contain. The way to see it is part of its sentence in `report`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "gap", rename_all = "kebab-case")]
pub enum Gap {
    /// The waits have no finite sum: the record is damaged.
    Damaged,
    /// No thread used a lock that the recorder sees.
    Nothing,
    /// Not all threads were recorded.
    Threads {
        /// Threads that were not recorded.
        lost: u64,
        /// All threads.
        of: u64,
    },
    /// Not all processes were recorded.
    Processes {
        /// Processes that were not recorded.
        lost: u64,
        /// All processes.
        of: u64,
    },
    /// Tasks that wait without a thread are not visible from outside of the process.
    Tasks {
        /// Their runtime.
        scheduler: Scheduler,
    },
    /// Threads wait in `Atomics.wait` of JavaScript, and the program alone knows for which thread.
    Atomics {
        /// Wait time, in seconds.
        wait_s: f64,
        /// Number of waits.
        count: u64,
    },
    /// Only CPU time was sampled, since the waits could not be.
    OnlySamples {
        /// The recorder's reason.
        reason: String,
    },
    /// A program that is linked statically was started.
    StaticProgram {
        /// Its name.
        program: String,
    },
    /// Threads sleep in futex(2), which the program calls itself.
    FutexWaits,
    /// Several threads ran for too short a time to be sampled.
    Short {
        /// Time of the run, in seconds.
        seconds: f64,
    },
    /// Processes wait at semaphores, and only kernel events show whether for each other.
    ProcessWaits {
        /// Number of processes.
        processes: usize,
        /// Name of the program.
        program: String,
        /// Where they wait.
        place: String,
        /// Number of waits.
        waits: u64,
        /// Their most frequent sleeps, each with its part of all sleeps.
        sleeps: Vec<(String, f64)>,
    },
    /// Threads sleep in a system call, for a lock of the kernel or for a device.
    KernelWait {
        /// The call; empty for a page fault.
        call: String,
        /// Part of their time.
        share: f64,
    },
    /// The function of Python that holds a lock is not known.
    PythonFunction,
    /// No thread dump names the monitor of Java.
    JavaMonitor {
        /// Why no dump was taken, if the process refused it.
        refused: Option<String>,
        /// Whether the run was too short for a dump.
        is_short: bool,
    },
    /// Threads waited in a function of Java's virtual machine that serves locks and idle threads,
    /// and too few thread dumps distinguish these.
    JavaWaits {
        /// The function.
        waits: JavaWaits,
        /// The condition.
        lock: String,
        /// Wait time, in seconds.
        wait_s: f64,
        /// Number of waits.
        count: u64,
        /// Why no dump was taken, if the process refused it.
        refused: Option<String>,
    },
    /// Too few thread dumps to say which monitor it is.
    FewDumps,
    /// Too few observations of the owner to say why it was off its CPU.
    FewSamples {
        /// Number of samples.
        samples: u64,
    },
}
