//! The locks of a replay, each kind with its own source.

use convoy_machine::{Here, Sim, User};
use convoy_sync::{AdaptiveLock, AtMost, Lock, NoSignals, Promise, QuotaRwLock, Within};
use convoy_sync::{glibc, with_lock};

use super::behaviour::{Kind, Mode};
use super::request::Replay;
use crate::lock_loop::Policy;

/// The inner lock of locks that queue. Signals do not interrupt it, as in the locks that replace
/// libc's.
type Inner = NoSignals<User, AdaptiveLock<User>>;

/// The mutex of libc, which does not spin before it sleeps.
type Libcs = AdaptiveLock<User, AtMost>;

/// A lock in simulated memory.
pub(super) trait Taken {
    /// Acquires the lock.
    fn take(&self, mode: Mode);
    /// Acquires the lock exclusively after a wait at a condition that released it.
    fn take_again(&self);
    /// Releases the lock.
    fn give(&self, mode: Mode);
    /// Acquires the lock if it is free. Returns whether it was.
    fn try_take(&self) -> bool;
}

impl<C: Lock> Taken for Sim<C> {
    fn take(&self, mode: Mode) {
        match mode {
            Mode::Read => self.acquire_shared(),
            Mode::Exclusive | Mode::Write => self.acquire(),
        }
    }

    fn take_again(&self) {
        self.acquire_again();
    }

    fn give(&self, mode: Mode) {
        match mode {
            Mode::Read => self.release_shared(),
            Mode::Exclusive | Mode::Write => self.release(),
        }
    }

    fn try_take(&self) -> bool {
        self.try_acquire()
    }
}

/// Creates a lock with a number of units and a number of attempts before a waiter sleeps; `None`
/// for the lock's default.
type Make = fn(u32, Option<u32>) -> Box<dyn Taken>;

fn make<C: Lock>(units: u32, looks: Option<u32>) -> Box<dyn Taken> {
    let free = C::with_units(units);
    let placed = Here::place(match looks {
        Some(looks) => free.spin_limit(looks),
        None => free,
    });
    Here::name(&*placed, "a lock");
    Box::new(placed)
}

impl Replay {
    /// Creates the locks of one name.
    pub(super) fn locks(&self, name: usize) -> Vec<Box<dyn Taken>> {
        let behaviour = &self.behaviour;
        let is_private = behaviour.private.contains(&name);
        let count = if is_private { self.threads } else { behaviour.locks[name] };
        let (make, units, looks) = self.choose(name);
        (0..count.max(1)).map(|_| make(units, looks)).collect()
    }

    /// Returns the constructor, units and attempts for the locks of one name: the policy's lock if
    /// it can replace them, otherwise libc's.
    fn choose(&self, name: usize) -> (Make, u32, Option<u32>) {
        let is_libcs = self.behaviour.others.contains(&name) || self.alone && name != 0;
        let own: Make = with_lock!(self.policy, User, Inner, T => make::<T>);
        let can = |promise| !is_libcs && self.policy.promises_to(promise);
        let is_quota = self.policy == Policy::Quota;
        match self.behaviour.kind(name) {
            Kind::Mutex if is_libcs => (make::<Libcs>, 1, Some(0)),
            Kind::Mutex => (own, 1, self.looks),
            Kind::RwLock { .. } if can(Promise::Shared) => (own, 1, self.looks),
            Kind::RwLock { .. } if is_quota && !is_libcs => {
                (make::<QuotaRwLock<User, Within<User, Inner>>>, 1, None)
            }
            Kind::RwLock { prefers_writers: true } => (make::<glibc::RwLock<User, true>>, 1, None),
            Kind::RwLock { prefers_writers: false } => (make::<glibc::RwLock<User>>, 1, None),
            Kind::Spinlock => (make::<glibc::SpinLock<User>>, 1, None),
            Kind::Semaphore { units } if can(Promise::Units) => (own, units, self.looks),
            Kind::Semaphore { units } => (make::<glibc::Semaphore<User>>, units, None),
        }
    }
}
