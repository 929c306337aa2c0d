//! The host's clocks and CPU count, in one place: nothing else asks for the time.

use crate::usage;
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
    usage::duration(usage::usage(libc::RUSAGE_CHILDREN).ru_utime).as_nanos() as u64
}

/// CPU time of the children of this process that have ended and were waited for, in nanoseconds.
pub fn children_cpu_ns() -> u64 {
    let usage = usage::usage(libc::RUSAGE_CHILDREN);
    (usage::duration(usage.ru_utime) + usage::duration(usage.ru_stime)).as_nanos() as u64
}

/// CPUs that this process may use.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// Returns the numbers of the CPUs that this process may use; empty if the kernel does not report
/// them.
pub fn usable_cpus() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// The CPUs that a program is kept to cannot be chosen.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the program to {cpus} of its CPUs: {source}; give fewer, or all")]
pub struct CpusError {
    /// CPUs asked for.
    pub cpus: u32,
    /// The system's reason.
    pub source: std::io::Error,
}

/// Calls `body` while the calling thread, and threads and processes that it starts, are restricted
/// to the first `count` of its CPUs.
///
/// # Errors
/// [`CpusError`].
pub fn keeping_to<R>(count: u32, body: impl FnOnce() -> R) -> Result<R, CpusError> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let fail = |errno: rustix::io::Errno| CpusError { cpus: count, source: errno.into() };
    let all = sched_getaffinity(None).map_err(fail)?;
    let mut some = CpuSet::new();
    usable_cpus().into_iter().take(count as usize).for_each(|cpu| some.set(cpu));
    sched_setaffinity(None, &some).map_err(fail)?;
    let result = body();
    sched_setaffinity(None, &all).map_err(fail)?;
    Ok(result)
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
    let usage = usage::usage(libc::RUSAGE_SELF);
    Switches { voluntary: usage.ru_nvcsw as u64, involuntary: usage.ru_nivcsw as u64 }
}

/// CPU times since boot of the CPUs that this process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Ticks in user mode, nice or not.
    pub user: u64,
    /// Ticks in the kernel, interrupts included.
    pub system: u64,
    /// Ticks without work, waiting for a device or not.
    pub idle: u64,
    /// Ticks that a hypervisor gave to others.
    pub steal: u64,
    /// All ticks: the sum of the above.
    pub total: u64,
}

impl CpuTicks {
    /// The share of the time since `before` in which CPUs were not idle; `None` if no tick came.
    pub fn busy_since(&self, before: &Self) -> Option<f64> {
        let total = self.total.saturating_sub(before.total) as f64;
        let idle = self.idle.saturating_sub(before.idle) as f64;
        (total > 0.0).then(|| 1.0 - idle / total)
    }
}

/// Reads [`CpuTicks`]; `None` if the kernel does not report them.
pub fn cpu_ticks() -> Option<CpuTicks> {
    let usable = rustix::thread::sched_getaffinity(None).ok()?;
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks = parse_ticks(&text, |cpu| usable.is_set(cpu));
    (ticks.total > 0).then_some(ticks)
}

/// Sums the lines `cpuN user nice system idle iowait ...` of the CPUs that `usable` names.
fn parse_ticks(text: &str, usable: impl Fn(usize) -> bool) -> CpuTicks {
    let mut ticks = CpuTicks::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().and_then(|name| name.strip_prefix("cpu"));
        let Some(cpu) = name.and_then(|number| number.parse::<usize>().ok()) else { continue };
        // The two fields after these eight are contained in the first two.
        let fields: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] =
            std::array::from_fn(|index| fields.get(index).copied().unwrap_or(0));
        if usable(cpu) && fields.len() >= 5 {
            ticks.user += user + nice;
            ticks.system += system + irq + softirq;
            ticks.idle += idle + iowait;
            ticks.steal += steal;
            ticks.total += fields.iter().sum::<u64>();
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_usable_cpus_are_summed() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\n\
                    cpu0 10 0 5 70 5 1 1 8 4 0\n\
                    cpu1 1 1 1 1 1 1 1 1 1 1\n\
                    intr 1 2 3\n";
        let first = CpuTicks { user: 10, system: 7, idle: 75, steal: 8, total: 100 };
        assert_eq!(parse_ticks(text, |cpu| cpu == 0), first);
        let both = CpuTicks { user: 12, system: 10, idle: 77, steal: 9, total: 108 };
        assert_eq!(parse_ticks(text, |_| true), both);
        let later = CpuTicks { idle: 75 + 30, total: 100 + 120, ..first };
        assert_eq!(later.busy_since(&first), Some(0.75));
        assert_eq!(first.busy_since(&first), None);
        assert_eq!(parse_ticks("nothing", |_| true), CpuTicks::default());
    }
}
