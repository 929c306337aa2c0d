//! Counting semaphores: one skeleton with three policies as types, and the older semaphore.
//!
//! Use [`Semaphore`] to let a number of tasks into a critical section that may sleep. For a
//! critical section of one task prefer [`Mutex`](crate::kernel::Mutex), which has a shorter fast
//! path. The policies differ only in the behaviour of `up` while tasks wait, and in when a waiter
//! may leave:
//!
//! | policy | `up` with waiters | a waiter leaves as owner when |
//! |---|---|---|
//! | [`Handoff`] | unlinks the first and hands it the unit | it was given the unit |
//! | [`PublishedFix`] | counts up, wakes the first, leaves it linked | the count is above 0 |
//! | [`Opportunistic`] (default) | counts up, wakes the first sleeper | the count is above 0 |
//!
//! [`ArchSemaphore`] is the fast-path counter of the per-architecture semaphore that all of them
//! replaced.
//!
//! ## States
//!
//! Everything is guarded by the inner lock `L`.
//!
//! | count | queue | in flight | meaning |
//! |---|---|---|---|
//! | > 0 | empty | 0 | units are free |
//! | 0 | empty | 0 | all units are owned |
//! | 0 | n | any | n tasks wait |
//! | > 0 | n | ≥ min(count, n) | free units, and enough woken waiters to take them (I3) |
//!
//! The last state does not exist under `Handoff`; under `PublishedFix` only one waiter is in
//! flight.
//!
//! *In flight* are waiters that were woken and have not taken the inner lock since.
//!
//! ## Transitions
//!
//! ```text
//! down    count > 0: count -= 1                      otherwise: queue, sleep, look again
//! up      Handoff:       queue empty: count += 1     otherwise: unlink the first, it owns the unit
//!         PublishedFix:  count += 1, wake the first
//!         Opportunistic: count += 1, if in flight < count wake the first sleeper (in flight += 1)
//! waiter runs            in flight -= 1 if it was woken; count > 0: unlink, count -= 1
//! cancel  (only when the waiter may not leave as owner): unlink
//! ```
//!
//! ## Invariants
//!
//! - I1 Owners + count + units given to waiters that have not run yet = initial count + extra
//!   `up`s.
//! - I2 A waiter's record is linked from its `push` until it, or the hand-off, removes it.
//! - I3 `Opportunistic`: whenever the inner lock is free, in flight ≥ min(count, queue length). So
//!   no task sleeps while a unit is free that no other task is about to take. Each step keeps it:
//!   `up` adds 1 to the count and, if that was one too many, a waiter in flight; a waiter in flight
//!   that takes a unit lowers all three; a waiter that finds the count at 0, and cancels or sleeps
//!   again, needs none; a waiter that wakes by itself (signal, deadline) and takes a unit lowers
//!   count and queue only; a task that takes a unit past the queue lowers the count only; a task
//!   queues only at count 0. Waiters do not cancel at a count above 0, so cancelling does not lose
//!   a wakeup, and a taker does not have to pass one on.
//! - I4 `Handoff`: count > 0 only while the queue is empty.
//!
//! ## Memory ordering
//!
//! The inner lock orders everything, including critical sections under the semaphore: `up` releases
//! it and the `down` that takes the unit acquires it later. The state word of a waiter is only a
//! futex word.
//!
//! ## Progress and fairness
//!
//! `Handoff` serves in arrival order; between `up` and the moment the new owner runs no other task
//! can acquire the unit, so a busy machine idles while owners wait for a CPU. `Opportunistic` never
//! leaves a unit to a task that is not running: a newcomer may take it; waiters are woken in
//! arrival order but may be passed any number of times.
//!
//! ## Cost
//!
//! 24 bytes and the inner lock, one cache line together. Uncontended: two inner critical sections
//! of a few instructions for each down/up pair. A waiting task writes its own record and its
//! neighbour's.
//!
//! ## Lineage
//!
//! `Handoff`: Linux 2.6.26-rc1, kernel/semaphore.c (commit 64ac24e73882), still the semaphore of
//! today's kernels. `PublishedFix`: the patch of 8 May 2008 (commit bf726eab3711), reverted two
//! days later. Differences: times are nanoseconds, not ticks; deadlines are absolute inside.

mod arch;
mod policy;

pub use arch::ArchSemaphore;
pub use policy::{Handoff, Opportunistic, Policy, PublishedFix};

#[cfg(feature = "std")]
use crate::adaptive::AdaptiveLock;
use crate::event::LockEvent;
use crate::lock::{RawLock, TellPart, WaitError, inner_parts};
#[cfg(feature = "std")]
use crate::native::Native;
use crate::platform::{Access, Platform, Sleep, Wake};
use crate::queue::Waiter;
use crate::spin::TicketLock;
use core::marker::PhantomData;
use core::mem::offset_of;
use policy::{Returned, State};

/// A user-space semaphore: its inner lock may sleep, because a spinlock with a preemptible owner
/// collapses if there are more threads than CPUs.
#[cfg(feature = "std")]
pub type NativeSemaphore<Q = Opportunistic> = Semaphore<Native, Q, AdaptiveLock<Native>>;

/// Operations of a counting semaphore, independent of its layout.
pub trait RawSemaphore: 'static {
    /// Returns a semaphore with `count` free units.
    fn with_count(count: u32) -> Self
    where
        Self: Sized;

    /// Reports the names of its words.
    fn parts(_tell: &mut TellPart<'_>)
    where
        Self: Sized,
    {
    }

    /// Takes a unit, unless a signal that `sleep` admits or `deadline`, in nanoseconds of
    /// [`Platform::now`], ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError`]: what ended the wait.
    fn down_unless(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError>;

    /// Takes a unit, blocking until it is available.
    #[inline]
    fn down(&self) {
        let taken = self.down_unless(Sleep::Uninterruptible, None);
        debug_assert!(taken.is_ok(), "nothing ends this wait but a unit");
    }

    /// Takes a unit; any signal ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError::Interrupted`].
    fn down_interruptible(&self) -> Result<(), WaitError> {
        self.down_unless(Sleep::Interruptible, None)
    }

    /// Takes a unit; a fatal signal ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError::Interrupted`].
    fn down_killable(&self) -> Result<(), WaitError> {
        self.down_unless(Sleep::Killable, None)
    }

    /// Takes a unit if one is free. Returns whether it did. (The kernel's function of this name
    /// returns 0 for success.)
    fn down_trylock(&self) -> bool;

    /// Takes a unit; waits at most `timeout` nanoseconds.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`].
    fn down_timeout(&self, timeout: u64) -> Result<(), WaitError>;

    /// Releases a unit. Any task may do so.
    fn up(&self);

    /// Returns the number of free units; a snapshot.
    fn free_units(&self) -> u32;

    /// Returns the number of waiting tasks; a snapshot.
    fn waiters(&self) -> usize;
}

/// A counting semaphore. See the module documentation.
///
/// The inner lock `L` is the ticket spinlock, taken with interrupts disabled, as in the kernel.
/// That is right where preemption can be forbidden; user space uses [`NativeSemaphore`].
#[repr(C)]
pub struct Semaphore<P: Platform, Q: Policy = Opportunistic, L: RawLock<P> = TicketLock<P>> {
    state: State<P>,
    lock: L,
    policy: PhantomData<fn() -> Q>,
}

// SAFETY: `state` is used only while `lock` is held; the rest is `Sync` or has no data. The words
// of a platform whose tasks share one thread are not `Sync`, and such a platform stays on its
// thread by the bound.
unsafe impl<P: Platform, Q: Policy, L: RawLock<P> + Sync> Sync for Semaphore<P, Q, L> {}
// SAFETY: a semaphore that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform, Q: Policy, L: RawLock<P> + Send> Send for Semaphore<P, Q, L> {}

impl<P: Platform, Q: Policy, L: RawLock<P> + Default> Semaphore<P, Q, L> {
    /// Returns a semaphore with `count` free units.
    pub fn new(count: u32) -> Self {
        Self { state: State::new(count), lock: L::default(), policy: PhantomData }
    }
}

impl<P: Platform, Q: Policy, L: RawLock<P>> Semaphore<P, Q, L> {
    fn lock(&self) -> P::IrqFlags {
        let flags = self.lock.lock_irqsave();
        P::touch(&self.state, Access::Write);
        flags
    }

    /// Takes a free unit; the inner lock is held.
    #[inline]
    fn take(&self) {
        self.state.count.set(self.state.count.get() - 1);
        if !self.state.queue.is_empty() {
            P::happened(LockEvent::Stolen, self);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Waits for a unit; called and left with the inner lock held.
    #[cold]
    #[inline(never)]
    fn down_slow(
        &self,
        mut flags: P::IrqFlags,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> (P::IrqFlags, Result<(), WaitError>) {
        let waiter = Waiter::new(false);
        // SAFETY: the inner lock is held; the record stays on this stack until it was removed, by
        // this function or by a hand-off (I2).
        unsafe { self.state.queue.push(&waiter) };
        P::event(LockEvent::Contended, self, waiter.task);
        let error = loop {
            if P::signal_pending(sleep) {
                P::event(LockEvent::Interrupted, self, waiter.task);
                break WaitError::Interrupted;
            }
            waiter.prepare();
            self.lock.unlock_irqrestore(flags);
            let wake = waiter.sleep(sleep, deadline);
            flags = self.lock();
            // A waiter that may leave as owner does, even when a signal or its deadline woke it:
            // cancelling then would lose the unit, or the wakeup for it.
            let passed = !waiter.is_first();
            // SAFETY: the inner lock is held, and the record is linked unless it was granted.
            if unsafe { Q::claim(&self.state, &waiter) } {
                if passed {
                    P::event(LockEvent::Stolen, self, waiter.task);
                }
                P::event(LockEvent::Acquired, self, waiter.task);
                return (flags, Ok(()));
            }
            if wake == Wake::TimedOut {
                P::event(LockEvent::TimedOut, self, waiter.task);
                break WaitError::TimedOut;
            }
        };
        // SAFETY: the inner lock is held, and a record that was not granted is linked (I2).
        unsafe { self.state.queue.remove(&waiter) };
        (flags, Err(error))
    }

    fn up_common(&self) {
        let flags = self.lock();
        P::happened(LockEvent::Released, self);
        // SAFETY: the inner lock is held until the end of this function.
        match unsafe { Q::returned(&self.state) } {
            Returned::Kept => {}
            Returned::Given(waiter) => {
                P::event(LockEvent::Handoff, self, waiter.task);
                // SAFETY: the policy found it in the queue, under the inner lock.
                unsafe { Waiter::wake(waiter.into()) };
            }
            Returned::Wake(waiter) => {
                // SAFETY: as above.
                if unsafe { Waiter::wake(waiter.into()) } {
                    P::event(LockEvent::Woken, self, waiter.task);
                }
            }
        }
        self.lock.unlock_irqrestore(flags);
    }
}

impl<P: Platform, Q: Policy, L: RawLock<P> + Default> RawSemaphore for Semaphore<P, Q, L> {
    fn with_count(count: u32) -> Self {
        Self::new(count)
    }

    fn parts(tell: &mut TellPart<'_>) {
        tell(0, format_args!("state"));
        inner_parts::<P, L>(offset_of!(Self, lock), tell);
    }

    fn down_unless(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        let flags = self.lock();
        let (flags, result) = if self.state.count.get() > 0 {
            self.take();
            (flags, Ok(()))
        } else {
            self.down_slow(flags, sleep, deadline)
        };
        self.lock.unlock_irqrestore(flags);
        result
    }

    fn down_trylock(&self) -> bool {
        let flags = self.lock();
        let free = self.state.count.get() > 0;
        if free {
            self.take();
        }
        self.lock.unlock_irqrestore(flags);
        free
    }

    fn down_timeout(&self, timeout: u64) -> Result<(), WaitError> {
        let deadline = P::now().saturating_add(timeout);
        self.down_unless(Sleep::Uninterruptible, Some(deadline))
    }

    fn up(&self) {
        self.up_common();
    }

    fn free_units(&self) -> u32 {
        let flags = self.lock();
        let count = self.state.count.get();
        self.lock.unlock_irqrestore(flags);
        count
    }

    fn waiters(&self) -> usize {
        let flags = self.lock();
        // SAFETY: the inner lock is held.
        let waiters = unsafe { self.state.queue.len() };
        self.lock.unlock_irqrestore(flags);
        waiters
    }
}
