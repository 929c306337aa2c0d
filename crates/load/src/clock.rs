//! The host's clocks and CPU count, in one place: nothing else in this crate asks for the time.

use rustix::time::{ClockId, clock_gettime};

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is before its epoch.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `CLOCK_MONOTONIC`, nanoseconds; the same in all processes.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// CPU time of the calling thread, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process, nanoseconds.
pub fn process_cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    nanoseconds(ClockId::Realtime) / 1_000_000_000
}

/// User-mode time of the children waited for, nanoseconds.
pub fn children_user_ns() -> u64 {
    crate::host::sys::children_user_ns()
}

/// CPUs that this process may use.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// Context switches of this process, summed over its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// The thread went to sleep.
    pub voluntary: u64,
    /// The scheduler took the CPU away.
    pub involuntary: u64,
}

/// Context switches of this process since its start.
pub fn process_switches() -> Switches {
    let (voluntary, involuntary) = crate::host::sys::process_switches();
    Switches { voluntary, involuntary }
}
