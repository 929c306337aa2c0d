//! Watched locks: their owners, hold times, and whether the owner is running.

use convoy_sync::{LockEvent, TaskId};
use core::cell::{Cell, RefCell};

/// Statistics of one watched lock. Times are in picoseconds of virtual time.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Name, as printed.
    pub name: String,
    pub(crate) offset: usize,
    owner: Option<TaskId>,
    running: bool,
    since: u64,
    /// Time with an owner that was not on a CPU.
    pub owner_not_running: u64,
    /// Acquisitions, hand-offs included.
    pub acquisitions: u64,
    /// Acquisitions by another task than the last owner.
    pub owner_changes: u64,
    /// Acquisitions that had to queue.
    pub contended: u64,
    /// Ownerships that were given to a sleeping waiter.
    pub handoffs: u64,
    /// Acquisitions past waiting tasks.
    pub stolen: u64,
    last: Option<TaskId>,
}

impl Watch {
    fn settle(&mut self, now: u64) {
        if self.owner.is_some() && !self.running {
            self.owner_not_running += now.saturating_sub(self.since);
        }
        self.since = now;
    }

    fn own(&mut self, task: TaskId, running: bool) {
        self.owner = Some(task);
        self.running = running;
        self.acquisitions += 1;
        if self.last != Some(task) {
            self.owner_changes += 1;
        }
        self.last = Some(task);
    }
}

/// The watched locks of a machine.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    list: RefCell<Vec<Watch>>,
    any: Cell<bool>,
    /// A bit for each watched lock, by its address: for most locks one test shows that they are not
    /// watched.
    bits: Cell<u64>,
}

/// The bit of the lock at `offset`.
#[inline(always)]
fn bit(offset: usize) -> u64 {
    1 << (offset as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(58)
}

impl Watches {
    pub(crate) fn add(&self, name: &str, offset: usize) {
        self.list.borrow_mut().push(Watch { name: name.to_owned(), offset, ..Watch::default() });
        self.any.set(true);
        self.bits.set(self.bits.get() | bit(offset));
    }

    /// The name of the lock at `offset`, if it is watched.
    pub(crate) fn name(&self, offset: usize) -> Option<String> {
        let list = self.list.borrow();
        list.iter().find(|watch| watch.offset == offset).map(|watch| watch.name.clone())
    }

    /// The watches, settled at `now`.
    pub(crate) fn snapshot(&self, now: u64) -> Vec<Watch> {
        let mut list = self.list.borrow_mut();
        for watch in list.iter_mut() {
            watch.settle(now);
        }
        list.clone()
    }

    /// As [`Self::snapshot`], of the accounts as they are.
    pub(crate) fn so_far(&self, now: u64) -> Vec<Watch> {
        let mut list = self.list.borrow().clone();
        for watch in &mut list {
            watch.settle(now);
        }
        list
    }

    /// A CPU switched from `prev` to `next`.
    #[inline]
    pub(crate) fn switched(&self, prev: TaskId, next: TaskId, now: u64) {
        if !self.any.get() {
            return;
        }
        for watch in self.list.borrow_mut().iter_mut() {
            if watch.owner == Some(prev) || watch.owner == Some(next) {
                watch.settle(now);
                watch.running = watch.owner == Some(next);
            }
        }
    }

    /// Whether the lock at `offset` may be watched.
    #[inline(always)]
    pub(crate) fn may_have(&self, offset: usize) -> bool {
        self.bits.get() & bit(offset) != 0
    }

    /// `event` of the lock at `offset` for `task`; `current` is the running task.
    #[cold]
    #[inline(never)]
    pub(crate) fn event(
        &self,
        event: LockEvent,
        offset: usize,
        task: TaskId,
        current: TaskId,
        now: u64,
    ) {
        for watch in self.list.borrow_mut().iter_mut().filter(|watch| watch.offset == offset) {
            match event {
                // After a hand-off the new owner's own report changes nothing: it has owned the
                // lock since then.
                LockEvent::Acquired if watch.owner == Some(task) => {}
                LockEvent::Acquired => {
                    watch.settle(now);
                    watch.own(task, task == current);
                }
                LockEvent::Handoff => {
                    watch.settle(now);
                    watch.handoffs += 1;
                    watch.own(task, task == current);
                }
                LockEvent::Released if watch.owner == Some(task) => {
                    watch.settle(now);
                    watch.owner = None;
                }
                LockEvent::Contended => watch.contended += 1,
                LockEvent::Stolen => watch.stolen += 1,
                _ => {}
            }
        }
    }
}
