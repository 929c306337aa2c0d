//! [`ArchSemaphore`]: the per-architecture semaphore of Linux 2.6.25 on x86.
//!
//! Kept as a baseline: it neither hands units to sleeping tasks nor has the hole of the published
//! patch. For new code use [`Semaphore`](super::Semaphore), which is easier to reason about.
//!
//! ## States
//!
//! `count` (signed) is changed by any task; the inner lock protects `sleepers` and the queue.
//!
//! | count | sleepers | meaning |
//! |---|---|---|
//! | n > 0 | 0 | n units are free; waiters, if any, are on their way to look |
//! | 0 | 0 | no unit is free; waiters, if any, are on their way to look |
//! | -1 | 1 | no unit is free, there are sleepers |
//! | less | any | newcomers have decremented and not yet corrected it |
//!
//! ## Transitions
//!
//! ```text
//! down          count -= 1; >= 0: owner                       otherwise slow path
//! slow path     queue, sleepers += 1
//!   look        count += sleepers - 1; >= 0: sleepers = 0, owner   otherwise sleepers = 1, sleep
//!   cancel      count += sleepers, sleepers = 0
//!   leave       unlink, wake the next sleeper
//! up            count += 1; > 0: done                         otherwise wake the first sleeper
//! trylock fails count += sleepers + 1, sleepers = 0; >= 0: wake the first sleeper
//! ```
//!
//! ## Invariants
//!
//! - I1 With the inner lock free and no newcomer between its decrement and its look: owners + count
//!   + sleepers = initial count + extra `up`s.
//! - I2 A waiter's record is linked from its `push` until it removes it.
//! - I3 While a task sleeps and `sleepers` is 0, another waiter is on its way to look: each step
//!   that sets `sleepers` to 0 wakes one.
//!
//! ## Memory ordering
//!
//! `up` increments with release ordering; the decrement or correction of `down` that finds a unit
//! has acquire ordering. All changes of `count` are read-modify-write, so each continues the
//! release sequence of the `up`s before it.
//!
//! ## Progress and fairness
//!
//! A unit never belongs to a task that is not running. Waiters are woken in arrival order and
//! retry; any task may pass them. About two wake-ups for each acquisition on the slow path.
//!
//! ## Cost
//!
//! 24 bytes and the inner lock. Uncontended: one locked operation each for `down` and `up`, half of
//! what [`Semaphore`](super::Semaphore) needs.
//!
//! ## Lineage
//!
//! Linux 2.6.25, lib/semaphore-sleepers.c and the x86 headers. Differences: `down_timeout` did not
//! exist then and is built like the interruptible form, except that a waiter checks once more
//! before it fails; the same for `down_killable`. A thief on the fast path cannot see the queue, so
//! `Stolen` is reported only on the slow path.

use super::RawSemaphore;
use crate::event::LockEvent;
use crate::lock::{RawLock, TellPart, WaitError, inner_parts};
use crate::platform::{Access, Atomic, Platform, Sleep, Wake};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The per-architecture semaphore. See the module documentation.
#[repr(C)]
pub struct ArchSemaphore<P: Platform, L: RawLock<P> = TicketLock<P>> {
    /// An `i32` in two's complement.
    count: P::AtomicU32,
    sleepers: Cell<u32>,
    lock: L,
    queue: Queue<P>,
}

// SAFETY: `sleepers` and `queue` are used only while `lock` is held, and `count` is an atomic of
// the platform, which is `Sync` by the bound.
unsafe impl<P: Platform<AtomicU32: Sync>, L: RawLock<P> + Sync> Sync for ArchSemaphore<P, L> {}
// SAFETY: a semaphore that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform<AtomicU32: Send>, L: RawLock<P> + Send> Send for ArchSemaphore<P, L> {}

impl<P: Platform, L: RawLock<P> + Default> ArchSemaphore<P, L> {
    /// Returns a semaphore with `count` free units.
    ///
    /// # Panics
    ///
    /// When `count` does not fit into an `i32`.
    pub fn new(count: u32) -> Self {
        assert!(i32::try_from(count).is_ok(), "at most 2^31 - 1 units");
        Self {
            count: P::AtomicU32::new(count),
            sleepers: Cell::new(0),
            lock: L::default(),
            queue: Queue::new(),
        }
    }
}

impl<P: Platform, L: RawLock<P>> ArchSemaphore<P, L> {
    /// Adds to the count. Returns the new one.
    #[inline]
    fn add(&self, units: u32) -> i32 {
        // AcqRel: acquire pairs with the release in `up` when a unit is found; release because a
        // correction may make a unit visible to the next task.
        self.count.fetch_add(units, AcqRel).wrapping_add(units) as i32
    }

    #[inline]
    fn decrement(&self) -> bool {
        // Acquire pairs with the release in `up`.
        let owner = self.count.fetch_sub(1, Acquire) as i32 > 0;
        if owner {
            P::happened(LockEvent::Acquired, self);
        }
        owner
    }

    /// Looks whether a unit is free for this waiter; the inner lock is held.
    fn look(&self) -> bool {
        let free = self.add(self.sleepers.get().wrapping_sub(1)) >= 0;
        self.sleepers.set(u32::from(!free));
        free
    }

    /// Wakes the first waiter that sleeps; the inner lock is held. A waiter that was woken before
    /// and has not run is passed over, as `try_to_wake_up` refuses it.
    fn wake_next(&self) {
        P::touch(&self.queue, Access::Read);
        // SAFETY: every caller holds the inner lock.
        if let Some(waiter) = unsafe { self.queue.find(|waiter| !waiter.is_woken()) } {
            // SAFETY: it was found in the queue, under the inner lock.
            unsafe { Waiter::wake(waiter.into()) };
            P::event(LockEvent::Woken, self, waiter.task);
        }
    }

    #[cold]
    #[inline(never)]
    fn down_slow(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        let waiter = Waiter::new(false);
        let mut flags = self.lock.lock_irqsave();
        // SAFETY: the inner lock is held; the record stays on this stack until it is removed below.
        unsafe { self.queue.push(&waiter) };
        P::event(LockEvent::Contended, self, waiter.task);
        P::touch(&self.sleepers, Access::Write);
        self.sleepers.set(self.sleepers.get() + 1);
        let mut wake = Wake::Woken;
        let result = loop {
            if P::signal_pending(sleep) {
                P::event(LockEvent::Interrupted, self, waiter.task);
                break Err(WaitError::Interrupted);
            }
            if self.look() {
                break Ok(());
            }
            if wake == Wake::TimedOut {
                P::event(LockEvent::TimedOut, self, waiter.task);
                break Err(WaitError::TimedOut);
            }
            waiter.prepare();
            self.lock.unlock_irqrestore(flags);
            wake = waiter.sleep(sleep, deadline);
            // However the sleep ended, this task runs: `up` must look for another one.
            waiter.awake();
            flags = self.lock.lock_irqsave();
            P::touch(&self.sleepers, Access::Write);
        };
        if result.is_err() {
            self.add(self.sleepers.replace(0));
        } else {
            if !waiter.is_first() {
                P::event(LockEvent::Stolen, self, waiter.task);
            }
            P::event(LockEvent::Acquired, self, waiter.task);
        }
        // SAFETY: the inner lock is held, and no other task removes records here (I2).
        unsafe { self.queue.remove(&waiter) };
        self.wake_next();
        self.lock.unlock_irqrestore(flags);
        result
    }
}

impl<P: Platform, L: RawLock<P> + Default> RawSemaphore for ArchSemaphore<P, L> {
    fn with_count(count: u32) -> Self {
        Self::new(count)
    }

    fn parts(tell: &mut TellPart<'_>) {
        tell(offset_of!(Self, count), format_args!("count"));
        inner_parts::<P, L>(offset_of!(Self, lock), tell);
    }

    fn down_unless(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        if self.decrement() { Ok(()) } else { self.down_slow(sleep, deadline) }
    }

    fn down_trylock(&self) -> bool {
        if self.decrement() {
            return true;
        }
        let flags = self.lock.lock_irqsave();
        P::touch(&self.sleepers, Access::Write);
        // Takes back this decrement and, with it, the decrement of the sleepers.
        if self.add(self.sleepers.replace(0) + 1) >= 0 {
            self.wake_next();
        }
        self.lock.unlock_irqrestore(flags);
        false
    }

    fn down_timeout(&self, timeout: u64) -> Result<(), WaitError> {
        let deadline = P::now().saturating_add(timeout);
        self.down_unless(Sleep::Uninterruptible, Some(deadline))
    }

    #[inline]
    fn up(&self) {
        P::happened(LockEvent::Released, self);
        // Release pairs with the acquire of the `down` that takes the unit.
        if self.count.fetch_add(1, Release) as i32 >= 0 {
            return;
        }
        let flags = self.lock.lock_irqsave();
        self.wake_next();
        self.lock.unlock_irqrestore(flags);
    }

    fn free_units(&self) -> u32 {
        // Relaxed: a snapshot orders nothing.
        (self.count.load(Relaxed) as i32).max(0) as u32
    }

    fn waiters(&self) -> usize {
        let flags = self.lock.lock_irqsave();
        // SAFETY: the inner lock is held.
        let waiters = unsafe { self.queue.len() };
        self.lock.unlock_irqrestore(flags);
        waiters
    }
}
