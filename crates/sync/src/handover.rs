//! [`FutexHandoff`]: a user-space lock that is never free while it has waiters.
//!
//! `convoy with --mutex handoff` replaces a program's mutexes with it, to show the effect of the
//! semaphore of 2008 on a program: every contended release hands the lock to a task that is not
//! running. Use it for this demonstration; in your own programs [`Quota`](crate::Quota) bounds
//! waits without handoff at each release.
//!
//! ## States
//!
//! | state | meaning |
//! |---|---|
//! | 0 | free |
//! | low half: n | n own it or wait for it: one owns it, unless a grant is on its way |
//! | high half: 1 | the owner has left, and no waiter has taken the grant yet |
//!
//! Waiters sleep on a separate number, which each grant changes, in the order of the kernel's
//! queue.
//!
//! ## Transitions
//!
//! ```text
//! lock    0 -> 1, owner                n -> n + 1; sleep until a grant is taken: high -= 1, owner
//! unlock  1 -> 0                       n -> n - 1 and high += 1; number += 1; wake one
//! late    n -> n - 1, unless there is a grant to take
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`: a grant is made by an owner that leaves,
//!   and taken once.
//! - I2 The low half is zero if and only if the lock has neither an owner nor waiters; then no
//!   grant is left.
//! - I3 A waiter that sleeps has read the number before it was seen to wait, so a grant after that
//!   changes the number it compares with.
//!
//! ## Memory ordering
//!
//! Every change of the state acquires and releases: it acquires or releases the lock. The number is
//! read with acquire before the state is changed, and changed with release after a grant is made.
//!
//! ## Progress and fairness
//!
//! The task that has slept longest is woken first. A waiter that arrives during a grant reads the
//! number after the grant and sleeps behind the others. Any waiter may take a grant, including a
//! task that is about to sleep and a woken task that runs earlier; the task that was woken for the
//! grant continues to wait. So a task that waits for a CPU may be passed any number of times.
//!
//! ## Cost
//!
//! 12 bytes. Uncontended: two compare-exchanges. Contended: a system call to sleep and one to wake,
//! and, as the new owner has to run first, a switch of tasks for every owner.
//!
//! ## Lineage
//!
//! The rule follows Linux 2.6.26-rc1, kernel/semaphore.c (commit 64ac24e73882), with two words and
//! a futex instead of a spinlock and a list, so that it fits into libc's mutex.

use crate::event::LockEvent;
use crate::lock::{Cancel, WaitError, locks_by, tell_taken};
use crate::platform::{Atomic, Platform, Sleep, Wake};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const ONE_USER: usize = 1;
const ONE_GRANT: usize = 1 << 32;

/// Returns the number of users of a state: owner and waiters.
fn users(state: usize) -> usize {
    state & (ONE_GRANT - 1)
}

/// The two words of such a lock, wherever they are stored.
#[derive(Debug)]
pub struct Handover<'a, P: Platform, S: Atomic<usize>> {
    state: &'a S,
    number: &'a P::AtomicU32,
}

impl<'a, P: Platform, S: Atomic<usize>> Handover<'a, P, S> {
    /// Returns a handover with this state and this number.
    pub const fn new(state: &'a S, number: &'a P::AtomicU32) -> Self {
        Self { state, number }
    }

    /// Changes the state if `change` returns a new one. Returns the old one.
    #[inline]
    pub fn change(&self, change: impl Fn(usize) -> Option<usize>) -> Option<usize> {
        let mut state = self.state.load(Relaxed);
        loop {
            let new = change(state)?;
            // Acquire and release: this is taking and giving up the lock.
            match self.state.compare_exchange(state, new, AcqRel, Relaxed) {
                Ok(_) => return Some(state),
                Err(seen) => state = seen,
            }
        }
    }

    /// Returns the number to sleep on. Read it before this task is seen to wait, so that no grant
    /// for it is missed.
    pub fn number(&self) -> u32 {
        // Acquire pairs with the release of `grant`.
        self.number.load(Acquire)
    }

    /// Sleeps with `sleep` until `take` finds a grant; this task is among the waiters since it read
    /// `number`. When a sleep `ends` the wait, `leave` takes it from there.
    ///
    /// # Errors
    ///
    /// The sleep that ended the wait.
    pub fn wait<T: Copy>(
        &self,
        mut number: u32,
        sleep: impl Fn(u32) -> T,
        ends: impl Fn(T) -> bool,
        take: impl Fn(usize) -> Option<usize>,
        leave: impl Fn(usize) -> usize,
    ) -> Result<(), T> {
        loop {
            let slept = sleep(number);
            // Before the look, so that a grant after it ends the next sleep.
            number = self.number();
            if self.change(&take).is_some() {
                return Ok(());
            }
            if ends(slept) {
                // A grant that arrives at the last moment is taken.
                let before = self.change(|state| take(state).or_else(|| Some(leave(state))));
                let took = before.is_some_and(|state| take(state).is_some());
                return if took { Ok(()) } else { Err(slept) };
            }
        }
    }

    /// Adds a grant, which the longest sleeper takes.
    pub fn grant(&self) {
        // Release pairs with the load of a task that is about to sleep.
        self.number.fetch_add(1, Release);
        P::wake(core::ptr::from_ref(self.number), 1);
    }

    /// Acquires the lock if it is free. Returns whether it did.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.change(|state| (state == 0).then_some(ONE_USER)).is_some()
    }

    /// Acquires the lock. While it has to wait it sleeps by `sleep`, unless a sleep `ends` the
    /// wait. Calls `contended` if it has to wait.
    ///
    /// # Errors
    ///
    /// The sleep that ended the wait.
    #[inline]
    pub fn lock<T: Copy>(
        &self,
        contended: impl FnOnce(),
        sleep: impl Fn(u32) -> T,
        ends: impl Fn(T) -> bool,
    ) -> Result<(), T> {
        let number = self.number();
        if self.change(|state| Some(state + ONE_USER)) == Some(0) {
            return Ok(());
        }
        contended();
        self.wait(
            number,
            sleep,
            ends,
            |state| (state >= ONE_GRANT).then(|| state - ONE_GRANT),
            |state| state - ONE_USER,
        )
    }

    /// Releases the lock, by handoff if there is a waiter.
    #[inline]
    pub fn unlock(&self) {
        let leave = |state: usize| {
            let left = state - ONE_USER;
            if users(left) == 0 { left } else { left + ONE_GRANT }
        };
        let before = self.change(|state| Some(leave(state)));
        if before.is_some_and(|state| users(state) > 1) {
            self.grant();
        }
    }
}

/// The lock with its words. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct FutexHandoff<P: Platform> {
    state: P::AtomicUsize,
    number: P::AtomicU32,
}

impl<P: Platform> FutexHandoff<P> {
    /// Returns an unlocked lock.
    pub fn new() -> Self {
        Self { state: P::AtomicUsize::new(0), number: P::AtomicU32::new(0) }
    }

    fn words(&self) -> Handover<'_, P, P::AtomicUsize> {
        Handover::new(&self.state, &self.number)
    }

    fn lock_until(&self, deadline: Option<u64>) -> bool {
        let sleep = |number| P::wait(&self.number, number, Sleep::Uninterruptible, deadline);
        let late = |wake| wake == Wake::TimedOut;
        let contended = || P::happened(LockEvent::Contended, self);
        tell_taken::<P>(self, self.words().lock(contended, sleep, late).is_ok())
    }

    /// Acquires the lock. Returns when the caller owns it.
    pub fn lock(&self) {
        self.lock_until(None);
    }

    /// Acquires the lock, waiting at most `timeout` nanoseconds. Returns whether it did.
    pub fn lock_timeout(&self, timeout: u64) -> bool {
        self.lock_until(Some(P::now().saturating_add(timeout)))
    }

    /// Acquires the lock if it is free. Returns whether it did.
    pub fn try_lock(&self) -> bool {
        tell_taken::<P>(self, self.words().try_lock())
    }

    /// Releases the lock, by handoff if there is a waiter.
    pub fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        self.words().unlock();
    }
}

impl<P: Platform> Default for FutexHandoff<P> {
    fn default() -> Self {
        Self::new()
    }
}

locks_by! {
    [P: Platform] FutexHandoff<P>, lock try_lock unlock {
        fn acquire_unless(&self, cancel: Cancel) -> Result<(), WaitError> {
            match cancel {
                Cancel::After(timeout) if !self.lock_timeout(timeout) => Err(WaitError::TimedOut),
                Cancel::After(_) => Ok(()),
                Cancel::Signal | Cancel::Kill => {
                    self.lock();
                    Ok(())
                }
            }
        }
    }
}
