//! [`Semaphore`]: `sem_t` of the GNU C library.
//!
//! Use it to replay programs that have it. Do not use it where each waiter must get a unit in
//! bounded time: any task may take a unit that is free.
//!
//! ## States
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 15 | units that are free |
//! | 16 to 31 | tasks that wait, or are about to find a unit |
//!
//! ## Transitions
//!
//! ```text
//! down  a unit is free: units -= 1    else: waiters += 1, sleep until one is, and take both off
//! up    units += 1; with waiters: wake one
//! ```
//!
//! ## Invariants
//!
//! - I1 Units that are free and units that are taken have the same sum at all times.
//! - I2 A task sleeps only while it is counted and no unit is free, so the `up` that frees one sees
//!   it.
//!
//! ## Memory ordering
//!
//! The release of `up` pairs with the acquire of the operation that takes a unit.
//!
//! ## Progress and fairness
//!
//! A task that arrives at the right moment passes all waiters, any number of times. A woken task
//! that finds no unit sleeps again, behind the others.
//!
//! ## Cost
//!
//! 4 bytes. Uncontended: one compare-exchange and one addition. With waiters each `up` is a system
//! call.
//!
//! ## Lineage
//!
//! `sem_t` of the GNU C library since 2.21 on machines with atomic operations on 64 bits, which it
//! divides in two halves as these 32 are. It sleeps on the half that counts units; here a waiter
//! that arrives at the same time makes a task check once more before it sleeps.

use crate::event::LockEvent;
use crate::lock::{Cancel, Lock, WaitError, tell_taken};
use crate::platform::{Atomic, Platform, Sleep, Wake};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const UNITS: u32 = 0xFFFF;
const WAITER: u32 = UNITS + 1;

/// The semaphore. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct Semaphore<P: Platform> {
    word: P::AtomicU32,
}

impl<P: Platform> Semaphore<P> {
    /// Creates a semaphore with `units` free units, at most 65,535.
    pub fn with_count(units: u32) -> Self {
        assert!(units <= UNITS, "a semaphore has at most 65535 units");
        Self { word: Atomic::new(units) }
    }

    /// Takes a unit if one is free, and `off` with it. Returns whether it did, or the word.
    fn take(&self, off: u32) -> Result<(), u32> {
        // Relaxed: the exchange is what orders.
        let mut seen = self.word.load(Relaxed);
        while seen & UNITS != 0 {
            // Acquire pairs with the release in `up`.
            match self.word.compare_exchange(seen, seen - 1 - off, Acquire, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }

    /// Takes a unit if one is free. Returns whether one was.
    pub fn try_down(&self) -> bool {
        tell_taken::<P>(self, self.take(0).is_ok())
    }

    /// Takes a unit, unless a signal that `sleep` admits or `deadline`, in nanoseconds of
    /// [`Platform::now`], ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError`]: what ended the wait.
    pub fn down_unless(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        if self.take(0).is_err() {
            P::happened(LockEvent::Contended, self);
            self.down_slow(sleep, deadline)?;
        }
        P::happened(LockEvent::Acquired, self);
        Ok(())
    }

    #[cold]
    fn down_slow(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        // Relaxed: a count. I2: the comparison before the sleep is of the same word.
        self.word.fetch_add(WAITER, Relaxed);
        let mut ended = None;
        loop {
            let seen = match self.take(WAITER) {
                Ok(()) => return Ok(()),
                Err(seen) => seen,
            };
            if let Some(error) = ended {
                // Relaxed: nothing was taken. A unit that may have been released by now is for
                // other tasks, and its `up` wakes one of them unless it woke this task.
                self.word.fetch_sub(WAITER, Relaxed);
                return Err(error);
            }
            match P::wait(&self.word, seen, sleep, deadline) {
                Wake::Woken => {}
                Wake::TimedOut => ended = Some(WaitError::TimedOut),
                Wake::Interrupted => ended = Some(WaitError::Interrupted),
            }
        }
    }

    /// Frees a unit.
    pub fn up(&self) {
        P::happened(LockEvent::Released, self);
        // Release pairs with the acquire in `take`.
        let seen = self.word.fetch_add(1, Release);
        debug_assert!(seen & UNITS < UNITS, "a semaphore has at most 65535 units");
        if seen >= WAITER {
            P::wake(&raw const self.word, 1);
        }
    }
}

impl<P: Platform> Lock for Semaphore<P> {
    fn with_units(units: u32) -> Self {
        Self::with_count(units)
    }
    fn acquire(&self) {
        let taken = self.down_unless(Sleep::Uninterruptible, None);
        debug_assert!(taken.is_ok(), "only a unit ends this wait");
    }
    fn try_acquire(&self) -> bool {
        self.try_down()
    }
    fn acquire_unless(&self, cancel: Cancel) -> Result<(), WaitError> {
        match cancel {
            Cancel::Signal => self.down_unless(Sleep::Interruptible, None),
            Cancel::Kill => self.down_unless(Sleep::Killable, None),
            Cancel::After(timeout) => {
                let deadline = P::now().saturating_add(timeout);
                self.down_unless(Sleep::Uninterruptible, Some(deadline))
            }
        }
    }
    fn release(&self) {
        self.up();
    }
    fn waiters(&self) -> usize {
        // Relaxed: a snapshot orders nothing.
        (self.word.load(Relaxed) / WAITER) as usize
    }
}
