//! The watchdog: reports simulated code that does not make progress, instead of waiting forever or
//! crashing.
//!
//! *Progress* is work ([`Engine::compute`]) of a task that is not idle, outside interrupts, and the
//! start or end of a task. Without progress for [`PATIENCE`] of virtual time the CPUs idle or spin;
//! without progress for [`OPERATIONS`] memory operations tasks livelock.
//!
//! Tasks that wait for each other in a cycle are found while others work: each has waited for
//! [`PATIENCE`] for a lock that only the next task owns. A waiting owner does not release its lock,
//! so no task of the cycle makes progress. (A task with a deadline might; but waits with a deadline
//! are shorter.)
//!
//! It only observes every action of the engine, the count of memory operations, and the start of
//! work. It sets no limits on running ahead, so it does not change the schedule of a run that makes
//! progress.

use super::Engine;
use super::cpu::Cpu;
use super::ledger::{Lock, OPERATIONS, PATIENCE, Want};
use super::mode::{Mode, Outcome};
use convoy_sync::TaskId;

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

    /// Checks the time without progress, at an action of the engine.
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

    /// Ends a run after so many memory operations in all.
    pub(crate) fn limit_operations(&self, most: u64) {
        let dog = &self.watchdog;
        dog.most_operations.set(most);
        dog.check_operations.set(dog.check_operations.get().min(most));
    }

    /// Checks the memory operations without progress, and their limit.
    #[cold]
    #[inline(never)]
    pub(super) fn inspect_operations(&self) {
        let dog = &self.watchdog;
        if self.ops.get() >= dog.most_operations.get() {
            self.give_up(Outcome::OperationLimit);
        } else if self.ops.get() - dog.operations.get() >= OPERATIONS {
            self.give_up(Outcome::Livelock);
        } else {
            let next = dog.operations.get() + OPERATIONS;
            dog.check_operations.set(next.min(dog.most_operations.get()));
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

    /// Describes the state of every CPU, and every waiting task with its lock and the owner: one
    /// line each.
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
        let held = self.ledger.held();
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
        self.ledger.each_held(|lock| write("holds", lock));
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
