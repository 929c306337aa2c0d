//! What every path of the kernel uses: the scheduler, memory, prices, the kinds of locks, counters.
//! Paths that use nothing else know this and not the whole [`World`](crate::World).

use crate::costs::{Costs, spend};
use crate::lock_rules::LockRules;
use crate::locks::{InodeLock, Sleeping};
use crate::sched::scheduler::Sched;
use crate::zone::Zones;
use core::cell::Cell;
use std::rc::Rc;

/// Longest stretch of kernel work without a place to preempt, picoseconds: about the unmapping of
/// one page table.
const WORK_PART_PS: u64 = 20_000_000;

/// See the module documentation.
pub struct Base {
    pub(crate) sched: Rc<Sched>,
    pub(crate) costs: Costs,
    pub(crate) zones: Zones,
    pub(crate) locks: LockRules,
    pub(crate) counts: Counts,
}

/// Counters of the kernel, for reports and tests.
#[derive(Debug, Default)]
pub struct Counts {
    /// System calls, those inside programs and of the kernel's own shells included.
    pub calls: Cell<u64>,
    /// Acquisitions of the big kernel lock by call sites (nested ones count once).
    pub bkl: Cell<u64>,
    /// Page faults.
    pub faults: Cell<u64>,
}

/// Adds one.
pub(crate) fn bump(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl Base {
    /// The scheduler.
    pub fn sched(&self) -> &Rc<Sched> {
        &self.sched
    }

    /// The counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Frees `objects` that readers may still access, after a grace period; without RCU at once.
    pub(crate) fn free_later(&self, objects: u32) {
        if let Some(rcu) = &self.sched.rcu {
            (0..objects).for_each(|_| rcu.free());
        }
    }

    /// Runs `body` under the big kernel lock, if the kernel has one.
    pub(crate) fn big_kernel_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        if !self.sched.bkl.exists() {
            return body();
        }
        bump(&self.counts.bkl);
        self.sched.lock_kernel();
        let result = body();
        self.sched.unlock_kernel();
        result
    }

    /// A long stretch of kernel work outside locks, with the places to preempt that such paths
    /// have.
    pub(crate) fn work(&self, ps: u64) {
        let mut left = ps;
        while left > 0 {
            let part = left.min(WORK_PART_PS);
            spend(part);
            self.sched.cond_resched();
            left -= part;
        }
    }

    /// Runs `body` alone under `lock`, which is a place to preempt as every lock that sleeps.
    pub(crate) fn under<R>(&self, lock: &impl Sleeping, body: impl FnOnce() -> R) -> R {
        self.sched.might_sleep();
        lock.alone(body)
    }

    /// Runs `body`, which only reads, under `lock`, likewise.
    pub(crate) fn sharing<R>(&self, lock: &InodeLock, body: impl FnOnce() -> R) -> R {
        self.sched.might_sleep();
        lock.share(body)
    }
}
