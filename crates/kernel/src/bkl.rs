//! The big kernel lock: one lock for the whole kernel, dropped and taken again across `schedule`.
//!
//! A task counts its nesting in `lock_depth` (-1: not held). As a semaphore (2.6.25, 2.6.26-rc1) it
//! may sleep, is released by `schedule` and taken again, with a full `down`, when the task runs
//! again. As a spinlock (commit 8e3e076c5a78) its holder runs with preemption disabled.

use crate::config::Preempt;
use crate::lock_rules::{BklKind, LockRules, SemaphorePolicy, Spinlock};
use crate::sched::queue::preempt_enable_no_resched;
use crate::sched::task::Tcb;
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::{
    ArchSemaphore, Handoff, LockEvent, Opportunistic, Platform, PublishedFix, QueuedLock, RawLock,
    RawSemaphore, TasLock, TicketLock, kernel::Semaphore,
};
use core::any::Any;

/// The name under which it is watched.
pub const BKL: &str = "BKL";

/// A semaphore in simulated memory, of whatever policy and with whatever spinlock inside.
trait Placed {
    fn semaphore(&self) -> &dyn RawSemaphore;
    /// The lock as its events name it.
    fn object(&self) -> &dyn Any;
}

impl<S: RawSemaphore> Placed for Sim<S> {
    fn semaphore(&self) -> &dyn RawSemaphore {
        &**self
    }
    fn object(&self) -> &dyn Any {
        &**self
    }
}

fn place<L: RawLock<Smp> + Default>(policy: SemaphorePolicy) -> Box<dyn Placed> {
    match policy {
        SemaphorePolicy::Arch => Box::new(Here::place(ArchSemaphore::<Smp, L>::new(1))),
        SemaphorePolicy::Handoff => Box::new(Here::place(Semaphore::<Smp, Handoff, L>::new(1))),
        SemaphorePolicy::PublishedFix => {
            Box::new(Here::place(Semaphore::<Smp, PublishedFix, L>::new(1)))
        }
        SemaphorePolicy::Opportunistic => {
            Box::new(Here::place(Semaphore::<Smp, Opportunistic, L>::new(1)))
        }
    }
}

enum Lock {
    /// The kernel has none (from 2.6.39 on).
    None,
    Semaphore(Box<dyn Placed>),
    Spin(Sim<TicketLock<Smp>>),
}

/// The big kernel lock of one kernel.
pub(crate) struct Bkl {
    lock: Lock,
    preemptible: bool,
}

impl Bkl {
    pub(crate) fn new(kind: BklKind, locks: LockRules, preempt: Preempt) -> Self {
        let lock = match (kind, locks.spinlock) {
            (BklKind::None, _) => Lock::None,
            (BklKind::Spinlock, _) => Lock::Spin(Here::place(TicketLock::default())),
            (BklKind::Semaphore, Spinlock::Ticket) => {
                Lock::Semaphore(place::<TicketLock<Smp>>(locks.semaphore))
            }
            (BklKind::Semaphore, Spinlock::Plain) => {
                Lock::Semaphore(place::<TasLock<Smp>>(locks.semaphore))
            }
            (BklKind::Semaphore, Spinlock::Queued) => {
                Lock::Semaphore(place::<QueuedLock<Smp>>(locks.semaphore))
            }
        };
        Self { lock, preemptible: preempt == Preempt::Full }
    }

    /// The lock as its events name it.
    pub(crate) fn lock_object(&self) -> Option<&dyn Any> {
        Some(match &self.lock {
            Lock::None => return None,
            Lock::Semaphore(lock) => lock.object(),
            Lock::Spin(lock) => &**lock,
        })
    }

    /// Whether the kernel has one.
    pub(crate) fn exists(&self) -> bool {
        !matches!(self.lock, Lock::None)
    }

    fn down(&self) {
        match &self.lock {
            Lock::None => (),
            Lock::Semaphore(lock) => lock.semaphore().down(),
            Lock::Spin(lock) => self.spin(lock),
        }
    }

    fn up(&self) {
        match &self.lock {
            Lock::None => (),
            Lock::Semaphore(lock) => lock.semaphore().up(),
            Lock::Spin(lock) => {
                Smp::event(LockEvent::Released, &**lock, Here::task());
                lock.unlock();
                Smp::preempt_enable();
            }
        }
    }

    /// The spinlock form of `lock_kernel`. A preemptible kernel tries, and polls with preemption
    /// enabled.
    fn spin(&self, lock: &TicketLock<Smp>) {
        Smp::preempt_disable();
        if self.preemptible {
            while !lock.try_lock() {
                Smp::preempt_enable();
                lock.spin_while_locked(|| false);
                Smp::preempt_disable();
            }
        } else {
            lock.lock();
        }
        Smp::event(LockEvent::Acquired, lock, Here::task());
    }

    pub(crate) fn lock(&self, me: &Tcb) {
        let depth = me.lock_depth.get() + 1;
        if depth == 0 {
            self.down();
        }
        me.lock_depth.set(depth);
    }

    pub(crate) fn unlock(&self, me: &Tcb) {
        assert!(me.lock_depth.get() >= 0, "task {} unlocks a kernel it has not locked", me.id);
        me.lock_depth.set(me.lock_depth.get() - 1);
        if me.lock_depth.get() < 0 {
            self.up();
        }
    }

    /// Releases the lock for a task that enters `schedule`; whether it must be taken again.
    pub(crate) fn release_in_schedule(&self, me: &Tcb) -> bool {
        let held = me.lock_depth.get() >= 0;
        if held {
            if let Lock::Spin(lock) = &self.lock {
                Smp::event(LockEvent::Released, &**lock, Here::task());
                lock.unlock();
                preempt_enable_no_resched();
            } else {
                self.up();
            }
        }
        held
    }

    /// Reacquires the lock for a task that returns from `schedule`. Returns `false` if the spinlock
    /// form gave up because this CPU is `wanted`: the caller schedules again.
    pub(crate) fn reacquire_in_schedule(&self, wanted: impl Fn() -> bool, me: &Tcb) -> bool {
        if let Lock::Spin(lock) = &self.lock {
            while !lock.try_lock() {
                lock.spin_while_locked(&wanted);
                if wanted() {
                    return false;
                }
            }
            Smp::preempt_disable();
            Smp::event(LockEvent::Acquired, &**lock, Here::task());
            return true;
        }
        let depth = me.lock_depth.replace(-1);
        self.down();
        me.lock_depth.set(depth);
        true
    }
}
