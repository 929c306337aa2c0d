//! The rules on locks of the kernel.

use std::collections::BTreeMap;

use convoy_record::{KernelObject, KernelWait, Kind as Primitive, Lock, Process, threads, total};

use super::plain::Plain;
use crate::account::LockAccount;
use crate::finding::{Finding, Source, Waiters};
use crate::interval::wilson;
use crate::problem::{Problem, Subject};

/// Minimum number of waits.
const FEW: u64 = 20;
/// Minimum part of the time spent waiting for a spinlock. These waits include interrupts and the
/// time that a hypervisor takes from the owner. Servers with another bottleneck had 2 %.
const SPINS: f64 = 0.05;

/// Returns whether the kernel is there to switch threads after an interrupt or a sleep, rather than
/// in a system call.
fn is_of_scheduler(place: &str) -> bool {
    let function = place.split([' ', ',']).next().unwrap_or(place).trim_start_matches('_');
    ["exit_to_user_mode", "schedule", "irqentry_exit", "preempt_schedule"]
        .iter()
        .any(|begin| function.starts_with(begin))
}

/// Returns the time of the threads that waited for a lock of the kernel, in seconds.
fn waiting_threads_s(lock: &Lock, processes: &[Process]) -> f64 {
    let times = processes.iter().flat_map(|process| {
        let locks = process.kernel_locks.iter();
        let locks = locks.filter(|known| known.name == lock.name && known.kernel == lock.kernel);
        locks.map(|known| {
            let waiting = known.sites.iter().map(|site| site.threads).max().unwrap_or(0);
            let waiting = if waiting > 0 { waiting as f64 } else { threads(process).ceil() };
            waiting * process.seconds
        })
    });
    times.sum()
}

/// Returns the finding of waits for a lock of the kernel, if they are relevant.
pub(crate) fn of_lock(
    account: &LockAccount,
    processes: &[Process],
    busy_s: f64,
) -> Option<Finding> {
    let lock = &account.lock;
    let process = processes.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let (wait_s, site) = (account.waited_s, lock.sites.first()?);
    if lock.count() < FEW || wait_s <= 0.0 || busy_s <= 0.0 {
        return None;
    }
    if lock.kernel == "spinlock" && wait_s < SPINS * busy_s {
        return None;
    }
    let threads_s = waiting_threads_s(lock, processes);
    let share = if threads_s > 0.0 { wait_s / threads_s } else { wait_s / busy_s };
    let plain = Plain {
        pid: process.pid,
        lock: &lock.name,
        share: Some(share.min(1.0)),
        cost_s: wait_s,
        source: Source::Counted,
        observations: lock.count(),
    };
    let finding = plain.finding(Problem::KernelLock {
        primitive: lock.kernel.clone(),
        place: site.place.clone(),
        owners: account.owners(),
        is_of_scheduler: is_of_scheduler(&site.place),
    });
    let sampled = process.kernel_waits.iter().filter(|wait| is_in_call(&site.place, &wait.call));
    let finding = Finding { waiters: waiters(sampled), ..finding };
    Some(finding.about(
        Subject::Unnamed { primitive: Primitive::Mutex, instances: lock.instances },
        lock.origin,
    ))
}

/// Returns whether a place in the kernel, such as `lock_rename, in rename(2)` or `fdget_pos under
/// ksys_write`, is in this system call.
fn is_in_call(place: &str, call: &str) -> bool {
    let name = call.trim_end_matches("(2)");
    place.split(' ').any(|word| {
        let function = word.trim_start_matches('_');
        word == call || !name.is_empty() && function.strip_prefix("ksys_") == Some(name)
    })
}

/// Returns the place in the program from which threads entered the kernel in most of these samples.
fn waiters<'a>(waits: impl Iterator<Item = &'a KernelWait>) -> Option<Waiters> {
    /// Minimum part of the samples at one place that makes it the only relevant one.
    const ONLY: f64 = 0.9;
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for wait in waits {
        *places.entry(&wait.place).or_default() += wait.samples;
    }
    let samples = total(places.values().copied());
    let (place, most) = places.into_iter().max_by_key(|(_, samples)| *samples)?;
    let place_share = most as f64 / samples.max(1) as f64;
    (!place.is_empty()).then(|| Waiters {
        place: Some(place.to_owned()),
        place_share,
        is_only_place: place_share >= ONLY,
    })
}

/// Sleeps of a process for locks of the kernel that protect one kind of object, by samples.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSleep {
    /// What the lock protects.
    pub object: KernelObject,
    /// The system call with most of the samples.
    pub call: String,
    /// Number of samples.
    pub samples: u64,
    /// Time that threads slept for it, seconds, summed over threads.
    pub slept_s: f64,
}

/// Returns the sleeps for locks of the kernel that are known by samples alone: kernel events time
/// these waits.
pub fn kernel_sleeps(process: &Process) -> Vec<KernelSleep> {
    const KNOWN: [KernelObject; 4] = [
        KernelObject::AddressSpace,
        KernelObject::FilePosition,
        KernelObject::File,
        KernelObject::Directory,
    ];
    if process.scheduling.is_some() || process.looks == 0 {
        return Vec::new();
    }
    let sleeps = KNOWN.into_iter().filter_map(|object| {
        let waits = process.kernel_waits.iter().filter(|wait| wait.object == object);
        let most = waits.clone().max_by_key(|wait| wait.samples)?;
        let samples = total(waits.map(|wait| wait.samples));
        let slept_s = samples as f64 * process.seconds / process.looks as f64;
        let call = most.call.clone();
        (samples >= FEW).then_some(KernelSleep { object, call, samples, slept_s })
    });
    sleeps.collect()
}

/// Returns the findings of a process whose threads sleep for locks of the kernel, by samples.
pub(crate) fn sampled(process: &Process, busy_s: f64) -> Vec<Finding> {
    let sleeps = kernel_sleeps(process).into_iter().filter(|_| busy_s > 0.0);
    let findings = sleeps.map(|KernelSleep { object, call, samples, slept_s }| {
        let plain = Plain {
            pid: process.pid,
            lock: &call.clone(),
            share: Some((slept_s / busy_s).min(1.0)),
            cost_s: slept_s,
            source: Source::Sampled,
            observations: samples,
        };
        let mut finding = plain.finding(Problem::KernelWait { object, call });
        finding.waiters = waiters(process.kernel_waits.iter().filter(|wait| wait.object == object));
        let threads_s = process.looks.saturating_mul(process.threads.max(1));
        let part = samples as f64 / threads_s as f64;
        finding.confidence.interval = Some(wilson(part.min(1.0), threads_s));
        finding
    });
    findings.collect()
}

/// Returns the sleep in the kernel that may be for a lock or for a device, with its part of the
/// samples of all threads, if it is a relevant one.
pub(crate) fn unknown(process: &Process) -> Option<(&str, f64)> {
    /// Minimum part of the samples.
    const MUCH: f64 = 0.05;
    let samples = total(process.activity.iter().map(|seen| seen.count));
    let waits = process.kernel_waits.iter().filter(|wait| wait.object == KernelObject::Unknown);
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    for wait in waits {
        *calls.entry(&wait.call).or_default() += wait.samples;
    }
    let (call, most) = calls.into_iter().max_by_key(|(_, samples)| *samples)?;
    let share = most as f64 / samples.max(1) as f64;
    (process.scheduling.is_none() && most >= FEW && share >= MUCH).then_some((call, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_known_by_functions_of_the_kernel() {
        assert!(is_in_call("lock_rename, in rename(2)", "rename(2)"));
        assert!(is_in_call("fdget_pos under ksys_write", "write(2)"));
        assert!(!is_in_call("fdget_pos under ksys_write", "pwrite64(2)"));
        assert!(!is_in_call("exc_page_fault", ""));
    }
}
