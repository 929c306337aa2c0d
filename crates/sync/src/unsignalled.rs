//! [`NoSignals`]: an inner lock that no signal interrupts.
//!
//! A handler that acquires a lock while its own thread has locked the queue of that lock would wait
//! for itself. Use it inside locks that handlers may acquire, such as libc's; it costs two system
//! calls per critical section.
//!
//! ## States
//!
//! As the inner lock.
//!
//! ## Transitions
//!
//! ```text
//! lock    block signals, then acquire the inner lock
//! unlock  release the inner lock, then admit signals
//! ```
//!
//! ## Invariants
//!
//! - I1 While it is held, its owner runs no handler.
//!
//! ## Memory ordering
//!
//! As the inner lock.
//!
//! ## Progress and fairness
//!
//! As the inner lock. A signal waits for the end of the critical section.
//!
//! ## Cost
//!
//! 8 bytes in addition to the inner lock, and [`keep_signals`](Platform::keep_signals) and
//! [`admit_signals`](Platform::admit_signals).
//!
//! ## Lineage
//!
//! `spin_lock_irqsave` of kernels, with signals for interrupts.

use crate::lock::{RawLock, TellPart};
use crate::platform::Platform;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::offset_of;

/// The lock. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct NoSignals<P: Platform, L: RawLock<P>> {
    lock: L,
    /// The previously blocked signals; used by the owner.
    kept: Cell<u64>,
    platform: PhantomData<P>,
}

// SAFETY: the cell is used only while the lock is held.
unsafe impl<P: Platform, L: RawLock<P> + Sync> Sync for NoSignals<P, L> {}

impl<P: Platform, L: RawLock<P> + Default> Default for NoSignals<P, L> {
    fn default() -> Self {
        Self { lock: L::default(), kept: Cell::new(0), platform: PhantomData }
    }
}

impl<P: Platform, L: RawLock<P>> RawLock<P> for NoSignals<P, L> {
    fn lock(&self) {
        let kept = P::keep_signals();
        self.lock.lock();
        self.kept.set(kept);
    }

    fn try_lock(&self) -> bool {
        let kept = P::keep_signals();
        let taken = self.lock.try_lock();
        if taken {
            self.kept.set(kept);
        } else {
            P::admit_signals(kept);
        }
        taken
    }

    fn unlock(&self) {
        let kept = self.kept.get();
        self.lock.unlock();
        P::admit_signals(kept);
    }

    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    fn parts(tell: &mut TellPart<'_>) {
        let at = offset_of!(Self, lock);
        L::parts(&mut |offset, name| tell(at + offset, name));
    }
}
