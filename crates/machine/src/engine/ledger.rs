//! The locks that tasks own and wait for, for the watchdog and its reports.

use convoy_sync::{LockEvent, TaskId};
use core::cell::{Cell, RefCell};

/// A lock as its events name it.
#[derive(Clone, Copy)]
pub(crate) struct Lock {
    pub(crate) task: TaskId,
    pub(crate) offset: usize,
    pub(crate) kind: &'static str,
}

impl Lock {
    /// Returns the name of its type without path and parameters.
    pub(super) fn type_name(&self) -> &'static str {
        let plain = self.kind.split('<').next().unwrap_or(self.kind);
        plain.rsplit("::").next().unwrap_or(plain)
    }
}

/// A wait for a lock.
#[derive(Clone, Copy)]
pub(super) struct Want {
    pub(super) lock: Lock,
    pub(super) since: u64,
    /// The releaser has given it: the task owns it and need not say so.
    pub(super) given: bool,
}

/// How many locks taken on a CPU are found without a search.
pub(super) const RECENT: usize = 7;

/// Locks that were acquired on a CPU and are held, the latest last: an uncontended lock is added
/// and removed with a single access.
pub(super) struct Recent {
    pub(super) count: Cell<usize>,
    pub(super) locks: [Place; RECENT],
}

/// A [`Lock`], a cell for each field: it is stored from registers. Stored as one, it would go
/// through the stack in pieces and be read from there as a whole, for which the host's processor
/// waits until the pieces are in its cache.
pub(super) struct Place {
    pub(super) task: Cell<TaskId>,
    pub(super) offset: Cell<usize>,
    pub(super) kind: Cell<&'static str>,
}

impl Place {
    #[inline(always)]
    fn set(&self, task: TaskId, offset: usize, kind: &'static str) {
        self.task.set(task);
        self.offset.set(offset);
        self.kind.set(kind);
    }

    pub(super) fn get(&self) -> Lock {
        Lock { task: self.task.get(), offset: self.offset.get(), kind: self.kind.get() }
    }
}

/// Which locks are held, and wanted.
pub(crate) struct Ledger {
    /// By CPU.
    pub(super) recent: Box<[Recent]>,
    /// The rest of those held.
    pub(super) older: RefCell<Vec<Lock>>,
    /// By task; of an interrupted wait only the innermost.
    pub(super) wanted: RefCell<Vec<Option<Want>>>,
    /// The tasks that want one, a bit each.
    pub(super) wants: Box<[Cell<u64>]>,
}

impl Recent {
    pub(super) fn new() -> Self {
        let none =
            || Place { task: Cell::new(TaskId::MAX), offset: Cell::new(0), kind: Cell::new("") };
        Self { count: Cell::new(0), locks: core::array::from_fn(|_| none()) }
    }

    pub(super) fn held(&self) -> &[Place] {
        &self.locks[..self.count.get()]
    }

    /// Takes out the last of those that `is` holds of.
    pub(super) fn take(&self, is: impl Fn(&Lock) -> bool) -> bool {
        let held = self.held();
        let Some(at) = held.iter().rposition(|lock| is(&lock.get())) else { return false };
        for next in at + 1..held.len() {
            let Lock { task, offset, kind } = held[next].get();
            held[next - 1].set(task, offset, kind);
        }
        self.count.set(held.len() - 1);
        true
    }
}

impl Ledger {
    pub(super) fn new(cpus: usize, tasks: usize) -> Self {
        Self {
            recent: (0..cpus).map(|_| Recent::new()).collect(),
            older: RefCell::default(),
            wanted: RefCell::new(vec![None; tasks]),
            wants: (0..tasks.div_ceil(64)).map(|_| Cell::new(0)).collect(),
        }
    }

    /// `event` of `lock`, on `cpu` at `now`.
    #[inline(always)]
    pub(crate) fn event(&self, event: LockEvent, lock: Lock, cpu: usize, now: u64) {
        // Its parts stay in registers, since no function gets a pointer to all of it.
        let Lock { task, offset, kind } = lock;
        match event {
            LockEvent::Contended => self.want(task, offset, kind, now),
            LockEvent::Acquired => {
                if self.wants(task) && self.unwant(task, offset) == Some(true) {
                    return;
                }
                self.hold(task, offset, kind, &self.recent[cpu]);
            }
            LockEvent::Handoff => self.give(task, offset, kind),
            LockEvent::Interrupted | LockEvent::TimedOut => {
                self.unwant(task, offset);
            }
            LockEvent::Released => {
                // Given and never said to be taken.
                if self.wants(task) {
                    self.unwant(task, offset);
                }
                let recent = &self.recent[cpu];
                let others = recent.count.get().wrapping_sub(1);
                // Mostly the lock that was taken last.
                let mine = |last: &Place| last.offset.get() == offset && last.task.get() == task;
                if recent.locks.get(others).is_some_and(mine) {
                    recent.count.set(others);
                } else {
                    self.release(task, offset, recent);
                }
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn hold(&self, task: TaskId, offset: usize, kind: &'static str, recent: &Recent) {
        let count = recent.count.get();
        match recent.locks.get(count) {
            Some(place) => {
                place.set(task, offset, kind);
                recent.count.set(count + 1);
            }
            None => self.hold_many(task, offset, kind, recent),
        }
    }

    #[cold]
    #[inline(never)]
    fn hold_many(&self, task: TaskId, offset: usize, kind: &'static str, recent: &Recent) {
        self.older.borrow_mut().extend(recent.held().iter().map(Place::get));
        recent.locks[0].set(task, offset, kind);
        recent.count.set(1);
    }

    /// `task` releases the lock at `offset`, which was not the last to be taken on this CPU. A unit
    /// of a semaphore may be given back by a task that never took one.
    #[cold]
    #[inline(never)]
    fn release(&self, task: TaskId, offset: usize, recent: &Recent) {
        let own = |held: &Lock| held.offset == offset && held.task == task;
        let any = |held: &Lock| held.offset == offset;
        let _maybe_held = recent.take(own) || self.take(own) || self.take(any);
    }

    /// Takes out one of those held that `is` holds of.
    pub(super) fn take(&self, is: impl Fn(&Lock) -> bool) -> bool {
        let mut older = self.older.borrow_mut();
        match older.iter().rposition(&is) {
            Some(at) => {
                older.swap_remove(at);
                true
            }
            None => self.recent.iter().any(|recent| recent.take(&is)),
        }
    }

    /// Calls `visit` with each lock held.
    pub(super) fn each_held(&self, mut visit: impl FnMut(&Lock)) {
        // A signal handler may ask in the middle of a change.
        if let Ok(older) = self.older.try_borrow() {
            older.iter().for_each(&mut visit);
        }
        self.recent.iter().flat_map(Recent::held).for_each(|lock| visit(&lock.get()));
    }

    pub(super) fn held(&self) -> Vec<Lock> {
        let mut locks = Vec::new();
        self.each_held(|lock| locks.push(*lock));
        locks
    }

    #[inline(always)]
    pub(super) fn wants(&self, task: TaskId) -> bool {
        let word = self.wants.get(task as usize / 64).map_or(0, Cell::get);
        word >> (task % 64) & 1 == 1
    }

    #[cold]
    #[inline(never)]
    fn want(&self, task: TaskId, offset: usize, kind: &'static str, since: u64) {
        let lock = Lock { task, offset, kind };
        let task = task as usize;
        self.wanted.borrow_mut()[task] = Some(Want { lock, since, given: false });
        let word = &self.wants[task / 64];
        word.set(word.get() | 1 << (task % 64));
    }

    /// Ends the wait of `task` for the lock at `offset`, if it waits for that lock; returns whether
    /// it received the lock by handoff.
    #[cold]
    #[inline(never)]
    pub(super) fn unwant(&self, task: TaskId, offset: usize) -> Option<bool> {
        let mut wanted = self.wanted.borrow_mut();
        let want = wanted.get_mut(task as usize)?.take_if(|want| want.lock.offset == offset)?;
        let word = &self.wants[task as usize / 64];
        word.set(word.get() & !(1 << (task % 64)));
        Some(want.given)
    }

    /// `task` owns the lock at `offset` from now on.
    #[cold]
    #[inline(never)]
    fn give(&self, task: TaskId, offset: usize, kind: &'static str) {
        if let Some(Some(want)) = self.wanted.borrow_mut().get_mut(task as usize) {
            want.given = true;
        }
        self.older.borrow_mut().push(Lock { task, offset, kind });
    }

    /// Describes each wait with its lock, which `name` names, and the owner: one line each.
    pub(super) fn describe(&self, name: impl Fn(&Lock) -> String) -> Vec<String> {
        let held = self.held();
        let wanted = self.wanted.borrow();
        let waits = wanted.iter().flatten().filter(|want| !want.given);
        let lines = waits.map(|Want { lock, .. }| {
            let owner = held.iter().find(|held| held.offset == lock.offset);
            let owner = owner.map_or_else(|| "no task".to_owned(), |o| format!("task {}", o.task));
            format!("task {} waits for {}, held by {owner}", lock.task, name(lock))
        });
        lines.collect()
    }

    /// Writes the locks that `task` owns and waits for without allocation: for a signal handler.
    pub(super) fn write(&self, task: TaskId, to: &mut dyn core::fmt::Write) {
        let mut write = |what: &str, lock: &Lock| {
            if lock.task == task {
                let _ = write!(to, "; {what} {} {:#x}", lock.type_name(), lock.offset);
            }
        };
        self.each_held(|lock| write("holds", lock));
        if let Ok(wanted) = self.wanted.try_borrow() {
            let wanted = wanted.iter().flatten().filter(|want| !want.given);
            wanted.for_each(|want| write("wants", &want.lock));
        }
    }

    /// Whether tasks have waited for each other in a circle since `before`.
    pub(super) fn circle(&self, before: u64) -> bool {
        let (held, wanted) = (self.held(), self.wanted.borrow());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_lock_gives_back_its_own_share() {
        const SHARED: usize = 64;
        const OTHER: usize = 128;
        let ledger = Ledger::new(2, 5);
        let event = |event, offset, task: TaskId| {
            let lock = Lock { task, offset, kind: "a lock" };
            ledger.event(event, lock, task as usize % 2, 1);
        };
        event(LockEvent::Acquired, SHARED, 1);
        event(LockEvent::Acquired, SHARED, 2);
        event(LockEvent::Released, SHARED, 1);
        event(LockEvent::Acquired, OTHER, 3);
        event(LockEvent::Contended, OTHER, 2);
        event(LockEvent::Contended, SHARED, 3);
        assert!(ledger.circle(2), "tasks 2 and 3 wait for each other");
        // A task that took nothing ends the share of another one.
        event(LockEvent::Released, SHARED, 4);
        assert!(!ledger.circle(2));
    }
}
