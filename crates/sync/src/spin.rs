//! Spinlocks: [`TasLock`] (test-and-set) and [`TicketLock`] (first come, first served).
//!
//! Use them for critical sections of at most a few microseconds that never sleep, on machines where
//! owners are not preempted: in a kernel. In user space a preempted owner of a ticket lock blocks
//! all waiters for a whole time slice; use [`AdaptiveLock`](crate::AdaptiveLock) there.
//!
//! ## States
//!
//! | lock | words | unlocked | locked | contended |
//! |---|---|---|---|---|
//! | test-and-set | `locked` | 0 | 1 | 1, others spin |
//! | ticket | `serving`, `next` | `next == serving` | `serving + 1` | more |
//!
//! ## Transitions
//!
//! ```text
//! test-and-set   lock: 0 -> 1      unlock: 1 -> 0
//! ticket         lock: next += 1, then wait for serving == own ticket      unlock: serving += 1
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`.
//! - I2 Ticket: only the holder writes `serving`; tickets are served in the order they were drawn.
//!
//! ## Memory ordering
//!
//! The release store of `unlock` pairs with the acquire operation that ends `lock`: the
//! compare-exchange or the last read of `spin_until`. Drawing a ticket is relaxed, because the
//! hand-over through `serving` orders the critical sections. A task that draws a ticket which is
//! already served still reads `serving` with acquire ordering.
//!
//! ## Progress and fairness
//!
//! Test-and-set: some task always acquires the lock, in no order. Ticket: first come, first served,
//! so each task waits for at most one critical section of each task before it; throughput collapses
//! when one of them is not running.
//!
//! ## Cost
//!
//! 4 bytes and 8 bytes. Uncontended: one locked operation to acquire, one plain store to release
//! (and, for the ticket lock, two reads of a line that is owned by then). Contended: every
//! hand-over moves the line to each spinning CPU once.
//!
//! ## Lineage
//!
//! Test-and-test-and-set: Rudolph and Segall, 1984; as on x86 up to Linux 2.6.24, which took the
//! lock by a locked decrement and, with interrupts to be disabled, waited with them enabled.
//! Ticket: Reed and Kanodia, 1979; x86 of Linux 2.6.25 (commit 314cdbefd1f), which keeps both
//! halves in one 16-bit word. Here each half is a word in the same line, because waiting is for a
//! whole word.

use crate::event::LockEvent;
use crate::lock::{RawLock, TellPart, attempt};
use crate::platform::{Atomic, Platform};
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;

/// What "a spinlock" means in the kernels from 2.6.25 on.
pub type SpinLock<P> = TicketLock<P>;

/// The test-and-set spinlock.
#[derive(Debug)]
#[repr(C)]
pub struct TasLock<P: Platform> {
    locked: P::AtomicU32,
}

impl<P: Platform<AtomicU32 = AtomicU32>> TasLock<P> {
    /// Returns an unlocked lock.
    pub const fn new() -> Self {
        Self { locked: AtomicU32::new(UNLOCKED) }
    }
}

impl<P: Platform> Default for TasLock<P> {
    fn default() -> Self {
        Self { locked: P::AtomicU32::new(UNLOCKED) }
    }
}

impl<P: Platform> RawLock<P> for TasLock<P> {
    #[inline]
    fn lock(&self) {
        P::preempt_disable();
        // 0 -> 1. Acquire pairs with the release in `unlock`.
        if self.locked.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_err() {
            P::happened(LockEvent::Contended, self);
            loop {
                P::spin_until(&self.locked, |state| state == UNLOCKED);
                // 0 -> 1. Acquire, as above.
                if self.locked.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok() {
                    break;
                }
            }
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// A waiter is not in a queue, so it can take interrupts while it waits.
    #[inline]
    fn lock_irqsave(&self) -> P::IrqFlags {
        let mut flags = P::irq_save();
        P::preempt_disable();
        // 0 -> 1. Acquire pairs with the release in `unlock`.
        if self.locked.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_err() {
            P::happened(LockEvent::Contended, self);
            loop {
                P::irq_restore(flags);
                P::spin_until(&self.locked, |state| state == UNLOCKED);
                flags = P::irq_save();
                // 0 -> 1. Acquire, as above.
                if self.locked.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok() {
                    break;
                }
            }
        }
        P::happened(LockEvent::Acquired, self);
        flags
    }

    #[inline]
    fn try_lock(&self) -> bool {
        attempt::<P>(self, || {
            // 0 -> 1. Acquire pairs with the release in `unlock`.
            let old = self.locked.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed);
            old.is_ok()
        })
    }

    #[inline]
    fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // 1 -> 0. Release pairs with the acquire in `lock` and `try_lock`.
        self.locked.store(UNLOCKED, Release);
        P::preempt_enable();
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.locked.load(Relaxed) == LOCKED
    }
}

/// The ticket spinlock.
#[derive(Debug)]
#[repr(C)]
pub struct TicketLock<P: Platform> {
    serving: P::AtomicU32,
    next: P::AtomicU32,
}

impl<P: Platform<AtomicU32 = AtomicU32>> TicketLock<P> {
    /// Returns an unlocked lock.
    pub const fn new() -> Self {
        Self { serving: AtomicU32::new(0), next: AtomicU32::new(0) }
    }
}

impl<P: Platform> TicketLock<P> {
    /// Spins until the lock may be free, without drawing a ticket, or until `give_up` holds, which
    /// is asked whenever the word changes or an interrupt has been taken. The caller tries again.
    pub fn spin_while_locked(&self, give_up: impl Fn() -> bool) {
        // Relaxed: this orders nothing, `try_lock` does.
        let serving = self.serving.load(Relaxed);
        // Relaxed, as above. When the lock is released later, `serving` no longer has this value.
        if self.next.load(Relaxed) != serving {
            P::spin_until(&self.serving, |now| now != serving || give_up());
        }
    }
}

impl<P: Platform> Default for TicketLock<P> {
    fn default() -> Self {
        Self { serving: P::AtomicU32::new(0), next: P::AtomicU32::new(0) }
    }
}

impl<P: Platform> RawLock<P> for TicketLock<P> {
    fn parts(tell: &mut TellPart<'_>) {
        tell(offset_of!(Self, serving), format_args!("serving"));
        tell(offset_of!(Self, next), format_args!("next"));
    }

    #[inline]
    fn lock(&self) {
        P::preempt_disable();
        // next += 1. Relaxed: the critical sections are ordered through `serving`.
        let ticket = self.next.fetch_add(1, Relaxed);
        // Acquire pairs with the release in `unlock`.
        if self.serving.load(Acquire) != ticket {
            P::happened(LockEvent::Contended, self);
            P::spin_until_is(&self.serving, ticket);
        }
        P::happened(LockEvent::Acquired, self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        attempt::<P>(self, || {
            // Acquire pairs with the release in `unlock`; this read orders the critical section.
            let serving = self.serving.load(Acquire);
            // next: serving -> serving + 1. Relaxed, as in `lock`. While `next == serving` no task
            // owns the lock, so `serving` cannot have moved on when this succeeds (I2).
            let next = serving.wrapping_add(1);
            self.next.compare_exchange(serving, next, Relaxed, Relaxed).is_ok()
        })
    }

    #[inline]
    fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // Relaxed: only the owner writes `serving` (I2), so this is its own last store or a store
        // that its acquire has seen.
        let serving = self.serving.load(Relaxed);
        // serving += 1. Release pairs with the acquire in `lock` and `try_lock`.
        self.serving.store(serving.wrapping_add(1), Release);
        P::preempt_enable();
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.serving.load(Relaxed) != self.next.load(Relaxed)
    }

    #[inline]
    fn is_contended(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        let (serving, next) = (self.serving.load(Relaxed), self.next.load(Relaxed));
        next.wrapping_sub(serving) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;

    static TAS: TasLock<Native> = TasLock::new();
    static TICKET: TicketLock<Native> = TicketLock::new();

    fn taken_once<L: RawLock<Native>>(lock: &L) {
        assert!(!lock.is_locked());
        {
            let _guard = lock.guard();
            assert!(lock.is_locked());
            assert!(!lock.try_lock());
        }
        assert!(lock.try_lock());
        lock.unlock();
        drop(lock.guard_irqsave());
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_lock_is_taken_once() {
        taken_once(&TAS);
        taken_once(&TICKET);
    }

    #[test]
    fn a_ticket_lock_sees_its_waiters() {
        let lock = TicketLock::<Native>::new();
        lock.lock();
        assert!(!lock.is_contended());
        std::thread::scope(|scope| {
            scope.spawn(|| drop(lock.guard()));
            Native::spin_until(&lock.next, |next| next == 2);
            assert!(lock.is_contended());
            lock.unlock();
        });
        assert!(!lock.is_contended() && !lock.is_locked());
    }

    #[test]
    fn tickets_wrap() {
        let lock = TicketLock::<Native> {
            serving: AtomicU32::new(u32::MAX),
            next: AtomicU32::new(u32::MAX),
        };
        for _ in 0..3 {
            taken_once(&lock);
        }
    }
}
