//! Deliberately wrong policies of the mutex.

use convoy_sync::{Atomic, OwnerWord, Platform, Sleep, SpinPolicy, SpinQueue, Unqueued};
use std::sync::atomic::Ordering::SeqCst;

/// A spin policy with waiters that count themselves once and assume that the owner knows of them
/// from then on. This fails for an owner that acquired the lock after the count was reset.
pub(super) struct SilentWaiter;

impl SpinPolicy for SilentWaiter {
    type Owner<P: Platform> = OwnerWord<P>;
    type Queue<P: Platform> = Unqueued;

    fn marks(count: i32) -> bool {
        count > 0
    }
}

/// A spin policy with waiters that sleep behind the spinner, which does not know of them.
pub(super) struct AsleepBehindSpinner;

impl SpinPolicy for AsleepBehindSpinner {
    type Owner<P: Platform> = OwnerWord<P>;
    type Queue<P: Platform> = Place<P>;
}

/// 1 while a task spins, otherwise 0.
pub(super) struct Place<P: Platform>(P::AtomicU32);

impl<P: Platform> SpinQueue<P> for Place<P> {
    fn new() -> Self {
        Self(P::AtomicU32::new(0))
    }

    fn enter(&self) -> bool {
        while self.0.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
            P::wait(&self.0, 1, Sleep::Uninterruptible, None);
        }
        true
    }

    fn leave(&self) {
        self.0.store(0, SeqCst);
    }

    fn at_head<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }
}
