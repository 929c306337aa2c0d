//! Mechanisms of a preset that are older than the kernel that it is named after, for tables and
//! lists. Nothing else asks for the version of a kernel: rules are keys.
//!
//! `docs/kernel.md` says what this list leaves out.

use crate::lock_rules::{FaultLock, MutexPolicy, PidLock, Rwlock, RwsemPolicy, Spinlock};
use crate::preset::KernelPreset;
use crate::sched::{Class, Imbalance, RtLimit};
use crate::vfs::{Create, DcacheLocks, SleepingLock};

/// A version, from its first number on.
type Version = [u32; 3];

/// The version of the preset `current`.
const CURRENT: Version = [6, 18, 0];

/// Something that Linux changed, and whether a preset has it as it was before.
struct Change {
    since: Version,
    before: fn(&KernelPreset) -> bool,
    text: &'static str,
}

const fn change(since: Version, before: fn(&KernelPreset) -> bool, text: &'static str) -> Change {
    Change { since, before, text }
}

const CHANGES: [Change; 17] = [
    change([2, 6, 29], sleeping, "mutexes that sleep at once (2.6.29: they spin)"),
    change([3, 10, 0], granted, "semaphores of readers and writers granted in turn (3.10: stolen)"),
    change([3, 11, 0], untracked, "loads of CPUs averaged at ticks (3.11: load tracking)"),
    change([3, 12, 0], separate, "counts of names apart from their lock (3.12)"),
    change([3, 15, 0], in_turn, "mutex spinners that cannot leave their queue (3.15)"),
    change([3, 16, 0], counted, "reader/writer spinlocks that count (3.16: waiters queue)"),
    change([3, 18, 0], |k| !k.zone.long_release, "14 pages freed under one lru_lock (3.18: 32)"),
    change([4, 2, 0], ticket, "ticket spinlocks (4.2: waiters queue)"),
    change([4, 7, 0], exclusive, "directories under a mutex (4.7: reader/writer semaphore)"),
    change([4, 15, 0], once, "pidmap_lock taken once for a process (4.15: for each step)"),
    change([4, 17, 0], |k| !k.zone.picked, "pages picked under the zone lock (4.17: before)"),
    change([4, 19, 0], |k| !k.zone.double_batch, "batches of 31 pages (4.19: 63)"),
    change([5, 11, 0], queueing, "readers that do not steal semaphores (5.11)"),
    change([6, 4, 0], mmap_sem, "mmap_sem for every page fault (6.4: a lock for each mapping)"),
    change([6, 6, 0], |k| k.sched.class != Class::Eevdf, "the scheduler before EEVDF (6.6)"),
    change([6, 12, 0], |k| k.vfs.create == Create::Locks, "open with O_CREAT locks first (6.12)"),
    change([6, 12, 0], |k| k.sched.rt.limit != RtLimit::Server, "no fair server (6.12)"),
];

fn sleeping(kernel: &KernelPreset) -> bool {
    kernel.locks.mutex == MutexPolicy::Sleep
}

fn granted(kernel: &KernelPreset) -> bool {
    kernel.locks.rwsem == RwsemPolicy::Grant
}

fn separate(kernel: &KernelPreset) -> bool {
    kernel.vfs.dcache != DcacheLocks::Lockref
}

fn in_turn(kernel: &KernelPreset) -> bool {
    kernel.locks.mutex == MutexPolicy::SpinInTurn
}

fn counted(kernel: &KernelPreset) -> bool {
    kernel.locks.rwlock == Rwlock::Counter
}

fn ticket(kernel: &KernelPreset) -> bool {
    kernel.locks.spinlock == Spinlock::Ticket
}

fn untracked(kernel: &KernelPreset) -> bool {
    kernel.sched.balance.imbalance != Imbalance::Tracked
}

fn exclusive(kernel: &KernelPreset) -> bool {
    kernel.vfs.inode_lock == SleepingLock::Mutex
}

fn once(kernel: &KernelPreset) -> bool {
    kernel.locks.pids == PidLock::Once
}

fn queueing(kernel: &KernelPreset) -> bool {
    kernel.locks.rwsem != RwsemPolicy::HandOver
}

fn mmap_sem(kernel: &KernelPreset) -> bool {
    kernel.locks.fault == FaultLock::MmapSem
}

/// The version in a label: that of a shipped preset, or of what a file is based on.
fn version(label: &str) -> Option<Version> {
    if label.split(|char: char| !char.is_ascii_lowercase()).any(|word| word == "current") {
        return Some(CURRENT);
    }
    let mut words = label.split(|char: char| !(char.is_ascii_digit() || char == '.'));
    words.find_map(|word| {
        let mut version = [0; 3];
        let mut parts = word.split('.');
        for number in &mut version[..2] {
            *number = parts.next()?.parse().ok()?;
        }
        version[2] = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        Some(version)
    })
}

impl KernelPreset {
    /// Mechanisms that are older than the kernel that it is named after, each with the version that
    /// changed it. Empty for a preset without a version in its name.
    pub fn older(&self) -> Vec<&'static str> {
        let Some(version) = version(&self.name) else { return Vec::new() };
        let changed = CHANGES.iter().filter(|change| change.since <= version);
        changed.filter(|change| (change.before)(self)).map(|change| change.text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn older(name: &str) -> Vec<&'static str> {
        KernelPreset::named(name).expect("shipped").older()
    }

    #[test]
    fn a_version_is_read_from_each_kind_of_label() {
        for (label, expected) in [
            ("2.6.26-rc1+bkl-spinlock", Some([2, 6, 26])),
            ("3.7.10+mcs", Some([3, 7, 10])),
            ("6.18 (changed: config.hz=250; 5eed1e55)", Some([6, 18, 0])),
            ("mine.toml (based on 3.0; 1c0ffee5)", Some([3, 0, 0])),
            ("current", Some(CURRENT)),
            ("current (changed: config.hz=1000; 5eed1e55)", Some(CURRENT)),
            ("mine", None),
        ] {
            assert_eq!(version(label), expected, "{label}");
        }
    }

    #[test]
    fn presets_of_2008_are_complete_and_later_ones_say_what_is_old() {
        let complete = ["2.6.16", "2.6.25", "2.6.26-rc1", "2.6.26-rc1+semaphore-speedup", "3.7"];
        for name in complete.into_iter().chain(["3.8", "current"]) {
            assert_eq!(older(name), [""; 0], "{name}");
        }
        let has = |name, start: &str| older(name).iter().any(|text| text.starts_with(start));
        assert!(has("3.0", "mutexes that sleep") && !has("3.7", "mutexes that sleep"));
        for name in ["4.10", "4.19", "6.18"] {
            assert!(has(name, "ticket spinlocks") && has(name, "directories"), "{name}");
        }
        assert!(has("4.18", "loads of CPUs") && !has("4.18", "batches"));
        assert!(has("6.18", "batches") && !has("4.19", "batches"));
        assert!(!has("6.18", "the scheduler before"));
        let mut changed = KernelPreset::named("current").expect("shipped");
        changed.vfs.inode_lock = SleepingLock::Mutex;
        assert_eq!(changed.older(), ["directories under a mutex (4.7: reader/writer semaphore)"]);
    }

    #[test]
    fn changes_are_in_the_order_of_their_versions() {
        assert!(CHANGES.is_sorted_by_key(|change| change.since));
    }
}
