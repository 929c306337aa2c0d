//! The locks of the table of mounts, and the counts of a mount.

use super::dentry::Super;
use super::locks::VfsLocks;
use super::rules::MountLocks;
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock};

impl Super {
    /// Adds `by` to the count of the mount, this CPU's if each has one.
    pub(super) fn count_mount(&self, by: i32) {
        match &self.mounts[..] {
            [] if by > 0 => self.hot.mount.get(),
            [] => {
                self.hot.mount.put();
            }
            of_cpus => {
                Smp::preempt_disable();
                of_cpus[Here::cpu()].update(|count| count + by);
                Smp::preempt_enable();
            }
        }
    }
}

impl VfsLocks {
    /// Looks a mount up by `body`.
    pub(super) fn mounts<R>(&self, body: impl FnOnce() -> R) -> R {
        match self.rules.mounts {
            MountLocks::VfsmountLock => self.hot.mounts.hold(body),
            MountLocks::PerCpu | MountLocks::PerCpuCounts => {
                self.on_this_cpu(|locks, _| locks.mounts.hold(body))
            }
            MountLocks::Seqlock => body(),
        }
    }

    /// Begins a section in which no mount changes.
    pub(super) fn enter_section(&self) {
        match self.rules.mounts {
            MountLocks::VfsmountLock => self.hot.mounts.lock(),
            MountLocks::PerCpu | MountLocks::PerCpuCounts => {
                Smp::preempt_disable();
                self.cpus[Here::cpu()].mounts.lock();
            }
            MountLocks::Seqlock => (),
        }
    }

    /// Ends it.
    pub(super) fn leave_section(&self) {
        match self.rules.mounts {
            MountLocks::VfsmountLock => self.hot.mounts.unlock(),
            MountLocks::PerCpu | MountLocks::PerCpuCounts => {
                self.cpus[Here::cpu()].mounts.unlock();
                Smp::preempt_enable();
            }
            MountLocks::Seqlock => (),
        }
    }

    /// Takes back a reference to the mount of `sb`.
    pub(super) fn put_mount(&self, sb: &Super) {
        if self.rules.mounts.counts_by_cpu() {
            // In case it is being unmounted.
            self.mounts(|| sb.count_mount(-1));
        } else {
            sb.count_mount(-1);
        }
    }
}
