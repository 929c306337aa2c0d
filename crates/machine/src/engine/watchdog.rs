//! The watchdog: simulated code that gets nowhere is reported, neither waited for nor crashed on.
//!
//! *Progress* is work ([`Engine::compute`]) of a task that is not idle, outside interrupts, and the
//! start or end of a task. Without progress for [`PATIENCE`] of virtual time the CPUs idle or spin;
//! without progress for [`OPERATIONS`] memory operations tasks get into each other's way.
//!
//! Tasks that wait for each other in a circle are found although others work: each has waited for
//! [`PATIENCE`] for a lock whose only owner is the next one. An owner that waits gives nothing
//! back, so nobody in the circle ever goes on. (A task with a deadline might; no wait with a
//! deadline is that long.)
//!
//! It only looks on: at every action of the engine, at the count of memory operations, and at the
//! start of work. No limit on running ahead is its own, so it changes no schedule that it does not
//! end.

use super::{Cpu, Engine, Mode, Outcome};
use convoy_sync::{LockEvent, TaskId};
use core::cell::{Cell, RefCell};

/// Picoseconds of virtual time without progress: 10 s, beyond every sleep that nothing interrupts.
const PATIENCE: u64 = 10_000_000_000_000;
/// Memory operations without progress: some seconds of the host, and far beyond what 1024 CPUs
/// need for one turn each of a contended lock.
const OPERATIONS: u64 = 1 << 27;
/// A lock as its events name it.
#[derive(Clone, Copy)]
struct Lock {
    task: TaskId,
    offset: usize,
    kind: &'static str,
}

/// A wait for a lock.
#[derive(Clone, Copy)]
struct Want {
    lock: Lock,
    since: u64,
    /// The releaser has given it: the task owns it and need not say so.
    given: bool,
}

/// Which locks are held, and wanted.
#[derive(Default)]
pub(crate) struct Ledger {
    held: RefCell<Vec<Lock>>,
    /// By task; of an interrupted wait only the innermost.
    wanted: RefCell<Vec<Option<Want>>>,
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
                let own = |lock: &Lock| lock.offset == offset && lock.task == task;
                // Mostly the lock that was taken last.
                let others = held.len().saturating_sub(1);
                if held.last().is_some_and(own) {
                    held.truncate(others);
                    return;
                }
                // A unit of a semaphore may be given back by a task that never took one.
                let any = || held.iter().rposition(|lock| lock.offset == offset);
                if let Some(at) = held.iter().rposition(own).or_else(any) {
                    held.swap_remove(at);
                }
            }
            _ => {}
        }
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
    fn circle(&self, before: u64) -> bool {
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

pub(super) struct Watchdog {
    at: Cell<u64>,
    operations: Cell<u64>,
    check_at: Cell<u64>,
    pub(super) check_operations: Cell<u64>,
    /// Limit on virtual time of the present run.
    pub(super) until: Cell<u64>,
    pub(super) verdict: Cell<Option<Outcome>>,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self {
            at: Cell::new(0),
            operations: Cell::new(0),
            check_at: Cell::new(PATIENCE),
            check_operations: Cell::new(OPERATIONS),
            until: Cell::new(u64::MAX),
            verdict: Cell::new(None),
        }
    }
}

impl Engine {
    #[inline]
    pub(crate) fn progress(&self) {
        self.watchdog.at.set(self.clock.get());
        self.watchdog.operations.set(self.ops.get());
    }

    /// Progress if the running CPU works for a task. A task that works and never comes back to the
    /// engine meets the limit on virtual time here.
    #[inline]
    pub(super) fn progress_of(&self, cpu: &Cpu) {
        if !cpu.idle.get() && matches!(cpu.mode.get(), Mode::User | Mode::System) {
            self.progress();
        }
        self.patrol();
        if self.clock.get() > self.watchdog.until.get() {
            self.give_up(Outcome::TimeLimit);
        }
    }

    /// When [`Self::patrol`] looks next.
    #[inline]
    pub(super) fn patrols_at(&self) -> u64 {
        self.watchdog.check_at.get()
    }

    /// Looks at the time without progress, at an action of the engine.
    #[inline]
    pub(super) fn patrol(&self) {
        if self.clock.get() >= self.watchdog.check_at.get() {
            self.inspect_time();
        }
    }

    #[cold]
    fn inspect_time(&self) {
        let dog = &self.watchdog;
        if self.clock.get().saturating_sub(dog.at.get()) >= PATIENCE {
            if self.os().expects() {
                dog.at.set(self.clock.get());
            } else {
                self.give_up(Outcome::Quiescent);
            }
        }
        if self.ledger.circle(self.clock.get().saturating_sub(PATIENCE)) {
            self.give_up(Outcome::Quiescent);
        }
        dog.check_at.set(dog.at.get().saturating_add(PATIENCE));
    }

    /// Looks at the memory operations without progress.
    #[cold]
    #[inline(never)]
    pub(super) fn inspect_operations(&self) {
        let dog = &self.watchdog;
        if self.ops.get() - dog.operations.get() >= OPERATIONS {
            self.give_up(Outcome::Livelock);
        } else {
            dog.check_operations.set(dog.operations.get() + OPERATIONS);
        }
    }

    /// Ends the run at the next return to the engine, which is the next memory operation.
    fn give_up(&self, verdict: Outcome) {
        if self.watchdog.verdict.get().is_none() {
            self.watchdog.verdict.set(Some(verdict));
        }
        self.stop.set(true);
        self.near.set(0);
        self.far.set(0);
    }

    /// What every CPU does, and which task waits for which lock of whom: one line each.
    pub(crate) fn describe(&self) -> Vec<String> {
        let name = |offset: usize, kind: &'static str| {
            self.watches.name(offset).unwrap_or_else(|| format!("{} {offset:#x}", short(kind)))
        };
        let mut lines = Vec::new();
        for (index, cpu) in self.cpus.iter().enumerate() {
            if cpu.idle.get() || cpu.slot.get().is_null() {
                continue;
            }
            let what = match cpu.spin.get() {
                Some(spin) => format!("spins on the word at {:#x}", spin.offset),
                None => format!("is in mode {:?}", cpu.mode.get()),
            };
            lines.push(format!("CPU {index}: task {} {what}", cpu.task.get()));
        }
        let held = self.ledger.held.borrow();
        let wanted = self.ledger.wanted.borrow();
        for Want { lock: want, .. } in wanted.iter().flatten().filter(|want| !want.given) {
            let owner = held.iter().find(|lock| lock.offset == want.offset);
            let owner = owner.map_or_else(|| "no task".to_owned(), |o| format!("task {}", o.task));
            let lock = name(want.offset, want.kind);
            lines.push(format!("task {} waits for {lock}, held by {owner}", want.task));
        }
        lines
    }

    /// The locks that `task` holds and wants, written without allocation: for a signal handler.
    pub(super) fn write_locks(&self, task: TaskId, to: &mut dyn core::fmt::Write) {
        let mut write = |what: &str, lock: &Lock| {
            if lock.task == task {
                let _ = write!(to, "; {what} {} {:#x}", short(lock.kind), lock.offset);
            }
        };
        if let Ok(held) = self.ledger.held.try_borrow() {
            held.iter().for_each(|lock| write("holds", lock));
        }
        if let Ok(wanted) = self.ledger.wanted.try_borrow() {
            let wanted = wanted.iter().flatten().filter(|want| !want.given);
            wanted.for_each(|want| write("wants", &want.lock));
        }
    }
}

/// A type's name without its path and parameters.
fn short(kind: &'static str) -> &'static str {
    let plain = kind.split('<').next().unwrap_or(kind);
    plain.rsplit("::").next().unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_lock_gives_back_its_own_share() {
        const SHARED: usize = 64;
        const OTHER: usize = 128;
        let ledger = Ledger::default();
        let event = |event, offset, task| ledger.event(event, offset, task, "a lock", 1);
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
