//! Which task holds which lock, and which it waits for: the one place that knows it.

use convoy_sync::{LockEvent, TaskId};
use core::cell::RefCell;

/// A lock as its events name it.
#[derive(Clone, Copy)]
pub(crate) struct Lock {
    pub(crate) task: TaskId,
    pub(crate) offset: usize,
    pub(crate) kind: &'static str,
}

/// A wait for a lock.
#[derive(Clone, Copy)]
pub(crate) struct Want {
    pub(crate) lock: Lock,
    since: u64,
    /// The releaser has given it: the task owns it and need not say so.
    pub(crate) given: bool,
}

/// Which locks are held, and wanted.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) held: RefCell<Vec<Lock>>,
    /// By task; of an interrupted wait only the innermost.
    pub(crate) wanted: RefCell<Vec<Option<Want>>>,
    /// The tasks that want one, a bit each.
    wants: RefCell<Vec<u64>>,
}

impl Ledger {
    #[inline(always)]
    pub(crate) fn event(
        &self,
        event: LockEvent,
        offset: usize,
        task: TaskId,
        kind: &'static str,
        now: u64,
    ) {
        let lock = Lock { task, offset, kind };
        match event {
            LockEvent::Contended => self.want(lock, now),
            LockEvent::Acquired => {
                if self.wants(task) && self.unwant(task, offset) == Some(true) {
                    return;
                }
                self.held.borrow_mut().push(lock);
            }
            LockEvent::Handoff => self.give(lock),
            LockEvent::Interrupted | LockEvent::TimedOut => {
                self.unwant(task, offset);
            }
            LockEvent::Released => {
                // Given and never said to be taken.
                if self.wants(task) {
                    self.unwant(task, offset);
                }
                let mut held = self.held.borrow_mut();
                // Mostly the lock that was taken last.
                let others = held.len().saturating_sub(1);
                if held.last().is_some_and(|lock| lock.offset == offset) {
                    held.truncate(others);
                } else if let Some(at) = held.iter().rposition(|lock| lock.offset == offset) {
                    held.swap_remove(at);
                }
            }
            _ => {}
        }
    }

    /// Who holds the lock at `offset`; of several the one that took it first, mostly.
    pub(crate) fn owner(&self, offset: usize) -> Option<TaskId> {
        self.held.borrow().iter().find(|lock| lock.offset == offset).map(|lock| lock.task)
    }

    #[inline(always)]
    fn wants(&self, task: TaskId) -> bool {
        let word = self.wants.borrow().get(task as usize / 64).copied().unwrap_or(0);
        word >> (task % 64) & 1 == 1
    }

    #[cold]
    #[inline(never)]
    fn want(&self, lock: Lock, since: u64) {
        let (mut wanted, mut wants) = (self.wanted.borrow_mut(), self.wants.borrow_mut());
        let task = lock.task as usize;
        if task >= wanted.len() {
            wanted.resize(task + 1, None);
            wants.resize(task / 64 + 1, 0);
        }
        wanted[task] = Some(Want { lock, since, given: false });
        wants[task / 64] |= 1 << (task % 64);
    }

    /// Ends the wait of `task` for the lock at `offset`, if that is what it waits for; whether it
    /// has been given the lock.
    #[cold]
    #[inline(never)]
    fn unwant(&self, task: TaskId, offset: usize) -> Option<bool> {
        let mut wanted = self.wanted.borrow_mut();
        let want = wanted.get_mut(task as usize)?.take_if(|want| want.lock.offset == offset)?;
        self.wants.borrow_mut()[task as usize / 64] &= !(1 << (task % 64));
        Some(want.given)
    }

    /// Its task owns `lock` from now on.
    #[cold]
    #[inline(never)]
    fn give(&self, lock: Lock) {
        if let Some(Some(want)) = self.wanted.borrow_mut().get_mut(lock.task as usize) {
            want.given = true;
        }
        self.held.borrow_mut().push(lock);
    }

    /// Whether tasks have waited for each other in a circle since `before`.
    pub(crate) fn circle(&self, before: u64) -> bool {
        let (held, wanted) = (self.held.borrow(), self.wanted.borrow());
        // Whom `task` waits for: the only owner of what it wants.
        let next = |task: TaskId| {
            let want = wanted.get(task as usize)?.as_ref()?;
            let mut owners = held.iter().filter(|lock| lock.offset == want.lock.offset);
            let owner = owners.next().map(|lock| lock.task);
            let waits = !want.given && want.since <= before && owners.next().is_none();
            owner.filter(|_| waits)
        };
        // Twice as fast and once: they meet in a circle, and nowhere else.
        (0..wanted.len() as TaskId).any(|task| {
            let (mut slow, mut fast) = (Some(task), next(task));
            while slow != fast && fast.is_some() {
                slow = slow.and_then(next);
                fast = fast.and_then(next).and_then(next);
            }
            fast.is_some()
        })
    }
}
