//! Spinlocks.

use convoy_machine::{Here, Smp};
use convoy_sync::{QueuedLock, RawLock, TasLock, TicketLock};

/// A spinlock of the kind that the kernel was built with. All its spinlocks are, those inside
/// sleeping locks too, except inside mutexes and semaphores that spin.
pub(crate) enum Spin {
    Ticket(TicketLock<Smp>),
    Plain(TasLock<Smp>),
    Queued(QueuedLock<Smp>),
}

/// The same without a queue of waiters. It is so small that the data in its line are laid out as in
/// kernels up to 4.1.
pub(crate) enum Unqueued {
    Ticket(TicketLock<Smp>),
    Plain(TasLock<Smp>),
}

/// A spinlock whose waiters queue.
#[derive(Default)]
pub(crate) struct Queue(QueuedLock<Smp>);

/// Calls the same method of each kind of a [`Spin`].
macro_rules! of_spin {
    ($spin:expr, $lock:ident => $call:expr) => {
        match $spin {
            Spin::Ticket($lock) => $call,
            Spin::Plain($lock) => $call,
            Spin::Queued($lock) => $call,
        }
    };
}

/// Calls the same method of each kind of an [`Unqueued`].
macro_rules! of_unqueued {
    ($spin:expr, $lock:ident => $call:expr) => {
        match $spin {
            Unqueued::Ticket($lock) => $call,
            Unqueued::Plain($lock) => $call,
        }
    };
}

/// Calls the method of a [`Queue`].
macro_rules! of_queue {
    ($queue:expr, $lock:ident => $call:expr) => {{
        let $lock = &$queue.0;
        $call
    }};
}

/// The interface of locks, with a place for watchdogs where a task takes it.
macro_rules! spinlock {
    ($type:ty, $each:ident) => {
        impl $type {
            /// Reports its name to the recorder.
            pub(crate) fn name(&self, name: &'static str) {
                $each!(self, lock => Here::name(lock, name));
            }
        }

        impl RawLock<Smp> for $type {
            #[inline]
            #[track_caller]
            fn lock(&self) {
                Here::taking();
                $each!(self, lock => lock.lock());
            }
            #[inline]
            fn try_lock(&self) -> bool {
                $each!(self, lock => lock.try_lock())
            }
            #[inline]
            fn unlock(&self) {
                $each!(self, lock => lock.unlock());
            }
            fn is_locked(&self) -> bool {
                $each!(self, lock => lock.is_locked())
            }
            #[inline]
            fn is_contended(&self) -> bool {
                $each!(self, lock => RawLock::<Smp>::is_contended(lock))
            }
            #[inline]
            #[track_caller]
            fn lock_irqsave(&self) {
                Here::taking();
                $each!(self, lock => lock.lock_irqsave());
            }
        }
    };
}

spinlock!(Spin, of_spin);
spinlock!(Unqueued, of_unqueued);
spinlock!(Queue, of_queue);

impl Spin {
    /// Runs `body` under the lock.
    #[inline]
    #[track_caller]
    pub(crate) fn hold<R>(&self, body: impl FnOnce() -> R) -> R {
        self.lock();
        let result = body();
        self.unlock();
        result
    }

    /// Returns whether it is held.
    pub(crate) fn is_held(&self) -> bool {
        self.is_locked()
    }
}
