//! [`QuotaCondvar`]: a condition variable for [`Quota`]: a notified task is woken, or moved to the
//! queue of the lock while that is held.
//!
//! Use it to wait, with a lock held, for a change that another owner of the lock will make. All
//! concurrent waiters use the same lock. Do not use it without acquiring the lock: notify with the
//! lock held or after releasing it, but change the condition with the lock held. To notify dozens
//! of tasks at once thousands of times a second, use [`Barrier`](crate::RawBarrier) or another
//! event whose tasks sleep on one word: here each task costs a system call of its notifier.
//!
//! ## States
//!
//! | record | `granted` | meaning |
//! |---|---|---|
//! | linked here | no | waits to be notified |
//! | on its way, then linked at the lock | yes | notified; waits for the lock |
//! | nowhere, to be woken | yes | notified while the lock was free; acquires it as a newcomer |
//! | nowhere | either | waits no more |
//!
//! ## Transitions
//!
//! ```text
//! wait      link here, release the lock, sleep
//! notify    unlink the first (or all in turn); wake it if the lock is free, otherwise link it at
//!           the lock without waking it
//! deadline  linked here: unlink, acquire the lock as a newcomer    otherwise: continue to wait
//! ```
//!
//! ## Invariants
//!
//! - I1 A record is linked here from its `push` until `notify` or its own task removes it, and
//!   `granted` shows which of the two; both happen under the inner lock.
//! - I2 A task with a granted record leaves only once it was woken by `notify`, or summoned from
//!   the queue of the lock, which is after `requeue` has linked it there; `moved` says which.
//! - I3 `lock` is the lock of every task that is linked here.
//!
//! ## Memory ordering
//!
//! The inner lock orders the queue; the lock itself, which the task has reacquired when it leaves,
//! orders the condition, and the number of waiters that a task reads before it notifies.
//!
//! ## Progress and fairness
//!
//! Tasks are notified in order of arrival. A task that starts to wait later never takes a
//! notification from an earlier waiter. Tasks are not woken only to wait for the lock: while it is
//! held, a broadcast to N tasks adds N waiters to its queue, served like any others. A task that
//! was woken competes as a newcomer, with the bound of the lock from its arrival there.
//!
//! ## Cost
//!
//! 32 bytes with the native inner lock. A notification costs one load if no task waits, otherwise a
//! critical section of the inner lock and a wakeup, or while the lock is held two critical sections
//! of inner locks and no system call.
//!
//! ## Lineage
//!
//! Moving waiters to the lock instead of waking them: the `FUTEX_CMP_REQUEUE` of Linux 2.6.7, and
//! wait morphing in earlier thread libraries; only while the lock is held: `parking_lot`.

#[cfg(feature = "std")]
use super::Beside;
use super::{Quota, Room, Within};
use crate::lock::{RawLock as _, WaitError};
#[cfg(feature = "std")]
use crate::native::Native;
use crate::platform::{Atomic, Platform, Sleep, Wake};
use crate::queue::{Queue, Waiter};
use crate::semaphore::RawSemaphore;
use crate::spin::TicketLock;
use core::cell::Cell;
use core::ptr::NonNull;
#[cfg(feature = "std")]
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// The condition variable. See the module documentation.
#[repr(C)]
pub struct QuotaCondvar<P: Platform, R: Room<P> = Within<P, TicketLock<P>>> {
    inner: R::Inner,
    /// Records in the queue. Changes under the inner lock.
    waiting: P::AtomicU32,
    lock: Cell<Option<NonNull<Quota<P, R>>>>,
    queue: Queue<P>,
}

// SAFETY: `queue` and `lock` are used only while `inner` is held.
unsafe impl<P: Platform, R: Room<P>> Sync for QuotaCondvar<P, R> where R::Inner: Sync {}
// SAFETY: a condition variable that can be moved has no waiters, so it owns no foreign pointer that
// is used.
unsafe impl<P: Platform, R: Room<P>> Send for QuotaCondvar<P, R> where R::Inner: Send {}

/// The condition variable of user space.
#[cfg(feature = "std")]
pub type NativeQuotaCondvar = QuotaCondvar<Native, Beside>;

#[cfg(feature = "std")]
impl NativeQuotaCondvar {
    /// Returns a condition variable of user space.
    pub const fn native() -> Self {
        Self {
            inner: crate::AdaptiveLock::<Native>::new(),
            waiting: AtomicU32::new(0),
            lock: Cell::new(None),
            queue: Queue::new(),
        }
    }
}

impl<P: Platform, R: Room<P>> Default for QuotaCondvar<P, R> {
    fn default() -> Self {
        Self {
            inner: R::Inner::default(),
            waiting: Atomic::new(0),
            lock: Cell::new(None),
            queue: Queue::new(),
        }
    }
}

impl<P: Platform, R: Room<P>> QuotaCondvar<P, R> {
    /// Gives `lock` back, waits until notified or until `deadline` in nanoseconds of
    /// [`Platform::now`], and takes it again. The caller has a unit of it, before and after.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`]; the lock is taken then, too.
    ///
    /// # Panics
    ///
    /// If others wait with another lock.
    pub fn wait(&self, lock: &Quota<P, R>, deadline: Option<u64>) -> Result<(), WaitError> {
        let waiter = Waiter::new(false);
        self.inner.lock();
        let mine = NonNull::from(lock);
        let same = self.queue.is_empty() || self.lock.get() == Some(mine);
        if same {
            self.lock.set(Some(mine));
            // SAFETY: the inner lock is held; the record stays on this stack until it is removed,
            // below or by a notifier (I1).
            unsafe { self.queue.push(&waiter) };
            // Relaxed: released with the lock below, for tasks that acquire it before they notify.
            self.waiting.fetch_add(1, Relaxed);
            waiter.prepare();
        }
        self.inner.unlock();
        assert!(same, "all who wait at one condition variable use the same lock");
        lock.up();
        let mut until = deadline;
        while !waiter.is_woken() {
            if waiter.sleep(Sleep::Uninterruptible, until) == Wake::TimedOut {
                if self.leave(&waiter) {
                    lock.down();
                    return Err(WaitError::TimedOut);
                }
                // Notified, and its notifier still uses the record (I2).
                until = None;
            }
        }
        // Acquire pairs with the release in `rouse`: whether it was moved is visible.
        P::fence(Acquire);
        if !waiter.moved.get() {
            lock.down();
            return Ok(());
        }
        lock.wait_in_queue(&waiter, Sleep::Uninterruptible, None)
    }

    /// Unlinks the record of the calling task unless it was notified. Returns whether it did.
    fn leave(&self, waiter: &Waiter<P>) -> bool {
        self.inner.lock();
        let waits = !waiter.granted.get();
        if waits {
            // SAFETY: the inner lock is held, and a record that was not granted is linked (I1).
            unsafe { self.queue.remove(waiter) };
            // Relaxed: a task that sees an older number finds an empty queue.
            self.waiting.fetch_sub(1, Relaxed);
        }
        self.inner.unlock();
        waits
    }

    /// Notifies the task that has waited longest. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        // Relaxed: a task that waits for the caller's change has released the lock before the
        // caller acquired it, and so its addition in `wait` is visible here.
        if self.waiting.load(Relaxed) == 0 {
            return false;
        }
        self.inner.lock();
        // SAFETY: the inner lock is held.
        let Some((waiter, lock)) = unsafe { self.queue.front() }.zip(self.lock.get()) else {
            self.inner.unlock();
            return false;
        };
        // SAFETY: the inner lock is held, and it was found in the queue.
        unsafe { self.queue.remove(waiter) };
        // Relaxed: as in `leave`.
        self.waiting.fetch_sub(1, Relaxed);
        // SAFETY: the task waits with that lock (I3), and borrows it until it is woken (I2).
        let lock = unsafe { lock.as_ref() };
        let moves = !lock.is_free();
        waiter.granted.set(true);
        waiter.moved.set(moves);
        // The task may free this condition variable once it is woken.
        self.inner.unlock();
        if moves {
            // SAFETY: the record was unlinked above, and stays until its task was summoned (I2).
            unsafe { lock.requeue(waiter) };
        } else {
            // SAFETY: the record stays until then (I2), and no other task wakes it.
            _ = unsafe { Waiter::wake(waiter.into()) };
        }
        true
    }

    /// Notifies all waiting tasks. Returns their number.
    pub fn notify_all(&self) -> usize {
        // Relaxed: as in `notify_one`.
        let waiting = self.waiting.load(Relaxed);
        // Tasks that arrive in the meantime are behind all of them.
        (0..waiting).take_while(|_| self.notify_one()).count()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::quota::NativeQuota;
    use std::sync::Mutex;

    #[test]
    fn who_waits_longest_is_notified_first() {
        let (lock, condition) = (NativeQuota::native(1), NativeQuotaCondvar::native());
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for name in 0..3 {
                let (lock, condition, order) = (&lock, &condition, &order);
                scope.spawn(move || {
                    lock.down();
                    assert_eq!(condition.wait(lock, None), Ok(()));
                    order.lock().expect("no panic").push(name);
                    lock.up();
                });
                // Relaxed: only the number counts.
                while condition.waiting.load(Relaxed) <= name {
                    std::thread::yield_now();
                }
            }
            for notified in 1..=3 {
                assert!(condition.notify_one());
                while order.lock().expect("no panic").len() < notified {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(order.into_inner().expect("no panic"), [0, 1, 2]);
    }
}
