//! [`Mutex`]: the sleeping mutex of Linux, from 2.6.25, with waiters that sleep immediately, to
//! 4.9, with waiters that spin while the owner runs.
//!
//! Use it for critical sections that may sleep. Its [`SpinPolicy`] says what waiters do before they
//! sleep: [`NoSpin`] where critical sections are long, the others where they mostly do not sleep.
//! User space cannot observe whether an owner is running, so a waiter there spins until the end of
//! the critical section.
//!
//! ## States
//!
//! | `count` | meaning | `owner`, if waiters spin |
//! |---|---|---|
//! | 1 | free | none |
//! | 0 | held, no known waiters | a task, or none for a moment |
//! | negative | held, there may be waiters | the same |
//!
//! The queue of sleepers is guarded by the inner lock. `owner` is a hint: it is written after the
//! mutex is acquired and cleared before it is released.
//!
//! ## Transitions
//!
//! ```text
//! lock     NoSpin: 1 -> 0                            otherwise queue
//!          others: count -= 1, owner if that makes 0   otherwise spin, then queue
//! spin     1 -> 0, owner      stops when the visible owner is not running, has changed, or this
//!                             CPU is wanted: see `SpinPolicy` for what else
//!                             with an MCS queue only its head does this, one after the other;
//!                             with `SpinOne` newcomers queue immediately while a task spins
//! queue    any -> -1, owner if it was 1, else sleep; the new owner sets 0 if no other task queues
//! unlock   NoSpin: 0 -> 1                            otherwise slow
//!          others: owner = none, count += 1          if that is not positive, slow
//! slow     under the inner lock: count = 1, wake the first, which stays queued
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`.
//! - I2 While a record is linked and the inner lock is free, `count` is negative, or a woken waiter
//!   is on its way to make it so.
//! - I3 A waiter's record is linked from its `push` until it removes it.
//!
//! ## Memory ordering
//!
//! The release operations of `unlock` on `count` pair with the acquire operations that take the
//! mutex. `owner` orders nothing.
//!
//! ## Progress and fairness
//!
//! Newcomers and spinners take the mutex past sleepers without limit. Sleepers are woken in arrival
//! order.
//!
//! ## Cost
//!
//! `NoSpin`: 20 bytes and the inner lock; with spinning 4 more, 4 more for the single spinner and 8
//! more for the MCS queue. Uncontended: one locked operation each to acquire and release. With
//! spinning each newcomer that fails pushes `count` below 0, so the owner then needs the inner lock
//! to release, even without sleepers.
//!
//! ## Lineage
//!
//! `NoSpin`: Linux 2.6.25, kernel/mutex.c. Difference: a newcomer that fails does not change the
//! count before it holds the inner lock; the kernel's decrement does, which costs its owner an
//! empty slow path. The others: Linux 3.7, with the steps of April 2013 as policies, the last of
//! which is 3.10's. Differences: a real-time task spins like any other; the owner is identified by
//! its number, stored next to the count, whereas the kernel's owner is at the end of the same line.

mod handoff;
mod policy;

pub use handoff::HandoffMutex;
pub use policy::{
    NoSpin, OwnerWord, SpinAtLowLoad, SpinMcs, SpinOnOwner, SpinOne, SpinPolicy, SpinReadFirst,
};

use crate::event::LockEvent;
use crate::lock::{RawLock, WaitError};
use crate::mcs::SpinQueue;
use crate::platform::{Access, Atomic, Platform, Sleep, TaskId};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::marker::PhantomData;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use policy::{NOBODY, Owner};

const FREE: u32 = 1;
const HELD: u32 = 0;
/// Held with waiters: -1.
const CONTENDED: u32 = u32::MAX;

/// The mutex. See the module documentation.
// A spinner that watches the count or the owner sees changes of both: they share eight bytes. If
// all waiters spin concurrently, the whole mutex is in one cache line.
#[repr(C)]
pub struct Mutex<P: Platform, S: SpinPolicy = NoSpin, L: RawLock<P> = TicketLock<P>> {
    count: P::AtomicU32,
    owner: S::Owner<P>,
    lock: L,
    sleepers: Queue<P>,
    spinners: S::Queue<P>,
    policy: PhantomData<fn() -> S>,
}

// SAFETY: `sleepers` is used only while `lock` is held; the words are atomics of the platform,
// which are `Sync` by the bound.
unsafe impl<P: Platform, S: SpinPolicy, L: RawLock<P> + Sync> Sync for Mutex<P, S, L>
where
    P::AtomicU32: Sync,
    S::Queue<P>: Sync,
{
}
// SAFETY: a mutex that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform, S: SpinPolicy, L: RawLock<P> + Send> Send for Mutex<P, S, L>
where
    P::AtomicU32: Send,
    S::Queue<P>: Send,
{
}

impl<P: Platform<AtomicU32 = AtomicU32>> Mutex<P, NoSpin, crate::AdaptiveLock<P>> {
    /// Returns an unlocked mutex of user space: its inner lock may sleep.
    pub const fn native() -> Self {
        Self {
            count: AtomicU32::new(FREE),
            owner: (),
            lock: crate::AdaptiveLock::new(),
            sleepers: Queue::new(),
            spinners: (),
            policy: PhantomData,
        }
    }
}

impl<P: Platform, S: SpinPolicy, L: RawLock<P> + Default> Default for Mutex<P, S, L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, S: SpinPolicy, L: RawLock<P> + Default> Mutex<P, S, L> {
    /// Returns an unlocked mutex.
    pub fn new() -> Self {
        Self::with_lock(L::default())
    }
}

impl<P: Platform, S: SpinPolicy, L: RawLock<P>> Mutex<P, S, L> {
    /// Returns an unlocked mutex around `lock`, its inner lock, which is free.
    pub fn with_lock(lock: L) -> Self {
        Self {
            count: P::AtomicU32::new(FREE),
            owner: S::Owner::<P>::new(),
            lock,
            sleepers: Queue::new(),
            spinners: S::Queue::<P>::new(),
            policy: PhantomData,
        }
    }

    /// Acquires the mutex, blocking until it is available.
    #[inline]
    pub fn lock(&self) {
        let taken = self.lock_common(Sleep::Uninterruptible);
        debug_assert!(taken.is_ok(), "nothing ends this wait but the mutex");
    }

    /// Acquires the mutex; any signal ends the wait, but not the spinning before it.
    ///
    /// # Errors
    ///
    /// [`WaitError::Interrupted`].
    pub fn lock_interruptible(&self) -> Result<(), WaitError> {
        self.lock_common(Sleep::Interruptible)
    }

    /// Acquires the mutex; a fatal signal ends the wait, but not the spinning before it.
    ///
    /// # Errors
    ///
    /// [`WaitError::Interrupted`].
    pub fn lock_killable(&self) -> Result<(), WaitError> {
        self.lock_common(Sleep::Killable)
    }

    /// Acquires the mutex if it is free. Returns whether it did.
    #[inline]
    pub fn try_lock(&self) -> bool {
        let taken = self.take_free();
        if taken {
            self.acquired(P::current());
        }
        taken
    }

    /// Returns whether the mutex is held. A snapshot.
    pub fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.count.load(Relaxed) != FREE
    }

    /// 1 -> 0.
    #[inline]
    fn take_free(&self) -> bool {
        // Acquire pairs with the release in `unlock`.
        self.count.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    #[inline]
    fn set_owner(&self, task: TaskId) {
        if let Some(word) = self.owner.word() {
            // Relaxed: a hint for spinners.
            word.store(task, Relaxed);
        }
    }

    #[inline]
    fn acquired(&self, task: TaskId) {
        self.set_owner(task);
        P::event(LockEvent::Acquired, self, task);
    }

    #[inline]
    fn lock_common(&self, sleep: Sleep) -> Result<(), WaitError> {
        // count -= 1. Acquire pairs with the release in `unlock`.
        let taken =
            if S::SPINS { self.count.fetch_sub(1, Acquire) == FREE } else { self.take_free() };
        if taken {
            self.acquired(P::current());
            return Ok(());
        }
        if self.owner.word().is_some_and(|owner| self.spin_first(owner)) {
            return Ok(());
        }
        self.lock_slow(sleep)
    }

    #[inline]
    fn spin_first(&self, owner: &P::AtomicU32) -> bool {
        P::happened(LockEvent::Contended, self);
        P::preempt_disable();
        let taken = self.spin(owner);
        P::preempt_enable();
        taken
    }

    /// Spins while that promises the mutex soon. Returns whether it acquired the mutex.
    #[cold]
    #[inline(never)]
    fn spin(&self, owner: &P::AtomicU32) -> bool {
        if S::Queue::<P>::QUEUE {
            // Relaxed: a hint.
            let now = owner.load(Relaxed);
            if now != NOBODY && !P::on_cpu(now) {
                return false;
            }
        }
        if !self.spinners.enter() {
            return false;
        }
        let taken = self.spin_in_turns(owner);
        self.spinners.leave();
        taken
    }

    #[inline]
    fn spin_in_turns(&self, owner: &P::AtomicU32) -> bool {
        loop {
            if let Some(taken) = self.spinners.at_head(|| self.try_spin(owner)) {
                return taken;
            }
            // The mutex is just being acquired or released.
            let look_again = |count| owner.peek() != NOBODY || count == FREE || P::need_resched();
            if S::READS_FIRST && !S::Queue::<P>::QUEUE {
                P::spin_until(&self.count, look_again);
            } else {
                P::pause_for(&self.count, look_again);
            }
        }
    }

    /// One iteration of a spinner: returns whether it acquired the mutex or stops spinning, or
    /// `None` to continue.
    #[inline]
    fn try_spin(&self, owner: &P::AtomicU32) -> Option<bool> {
        // Relaxed: a hint.
        let now = owner.load(Relaxed);
        if now != NOBODY && !(S::may_spin::<P>() && Self::spin_on_owner(owner, now)) {
            return Some(false);
        }
        // Relaxed: only taking the mutex orders.
        if (!S::READS_FIRST || self.count.load(Relaxed) == FREE) && self.take_free() {
            // Before the turn ends, so that the next spinner sees an owner.
            self.acquired(P::current());
            return Some(true);
        }
        (now == NOBODY && P::need_resched()).then_some(false)
    }

    /// Spins while `task` owns the mutex and runs. Returns whether the mutex then seems to be free.
    /// Another owner ends the spinning for good: to follow a chain of owners costs more than a
    /// sleep.
    fn spin_on_owner(owner: &P::AtomicU32, task: TaskId) -> bool {
        let left = |now| !P::on_cpu(task) || now != task || P::need_resched();
        P::spin_until(owner, left) == NOBODY
    }

    /// Under the inner lock: swaps -1 into the count unless that changes nothing. Returns whether
    /// the mutex was free and is now owned by the caller.
    fn mark_contended(&self) -> bool {
        // Relaxed: the look orders nothing, the swap does.
        if S::READS_FIRST && !S::marks(self.count.load(Relaxed).cast_signed()) {
            return false;
        }
        // any -> -1. Acquire pairs with the release in `unlock`.
        self.count.swap(CONTENDED, Acquire) == FREE
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, sleep: Sleep) -> Result<(), WaitError> {
        let waiter = Waiter::new(false);
        self.lock.lock();
        // SAFETY: the inner lock is held; the record stays on this stack until it is removed below.
        unsafe { self.sleepers.push(&waiter) };
        if !S::SPINS {
            P::event(LockEvent::Contended, self, waiter.task);
        }
        // A spinning mutex does so once for the arrival, and at each turn.
        let free = S::SPINS && self.mark_contended();
        let result = loop {
            if free || self.mark_contended() {
                break Ok(());
            }
            if P::signal_pending(sleep) {
                break Err(WaitError::Interrupted);
            }
            waiter.prepare();
            self.lock.unlock();
            waiter.sleep(sleep, None);
            self.lock.lock();
        };
        let passed = !waiter.is_first();
        // SAFETY: the inner lock is held, and no other task removes records here (I3).
        unsafe { self.sleepers.remove(&waiter) };
        if result.is_ok() {
            if passed {
                P::event(LockEvent::Stolen, self, waiter.task);
            }
            self.acquired(waiter.task);
            if self.sleepers.is_empty() {
                // -1 -> 0: no task sleeps. Relaxed: only the owner's release orders.
                self.count.store(HELD, Relaxed);
            }
        } else {
            // The count stays negative: the owner finds out that no task waits.
            P::event(LockEvent::Interrupted, self, waiter.task);
        }
        self.lock.unlock();
        result
    }

    /// Releases the mutex.
    #[inline]
    pub fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        self.set_owner(NOBODY);
        // Release pairs with the acquire of the next owner.
        let nobody_waits = if S::SPINS {
            // count += 1, as above.
            self.count.fetch_add(1, Release) == HELD
        } else {
            // 0 -> 1, as above.
            self.count.compare_exchange(HELD, FREE, Release, Relaxed).is_ok()
        };
        if !nobody_waits {
            self.unlock_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        self.lock.lock();
        // any -> 1. Release pairs with the acquire of the next owner.
        self.count.store(FREE, Release);
        P::touch(&self.sleepers, Access::Read);
        // SAFETY: the inner lock is held.
        let front = unsafe { self.sleepers.front() };
        // SAFETY: it was found in the queue, under the inner lock.
        let woken = |waiter: &&Waiter<P>| unsafe { Waiter::wake((*waiter).into()) };
        if let Some(waiter) = front.filter(woken) {
            P::event(LockEvent::Woken, self, waiter.task);
        }
        self.lock.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;
    use crate::native::Signals;

    static MUTEX: Mutex<Native, NoSpin, crate::AdaptiveLock<Native>> = Mutex::native();

    fn a_signal_ends_a_wait<S: SpinPolicy>()
    where
        S::Queue<Native>: Sync,
    {
        let mutex = Mutex::<Native, S>::new();
        assert!(mutex.try_lock() && !mutex.try_lock());
        // Natively an owner always seems to run, so `lock_interruptible` might spin forever.
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let mutex = &mutex;
            let waiter = scope.spawn(move || {
                send.send(Signals::of_this_thread()).unwrap();
                let waiter = mutex.lock_slow(Sleep::Interruptible);
                (waiter, mutex.lock_slow(Sleep::Killable))
            });
            let signals = receive.recv().unwrap();
            signals.interrupt();
            signals.kill();
            let interrupted = Err(WaitError::Interrupted);
            assert_eq!(waiter.join().unwrap(), (interrupted, interrupted));
        });
        mutex.unlock();
        assert!(!mutex.is_locked() && mutex.try_lock());
    }

    #[test]
    fn a_signal_ends_every_wait() {
        a_signal_ends_a_wait::<NoSpin>();
        a_signal_ends_a_wait::<SpinOnOwner>();
        a_signal_ends_a_wait::<SpinOne>();
        a_signal_ends_a_wait::<SpinMcs>();
    }

    #[test]
    fn a_spinner_does_not_follow_a_chain_of_owners() {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let owner = AtomicU32::new(2);
            send.send(Mutex::<Native, SpinOnOwner>::spin_on_owner(&owner, 1)).unwrap();
        });
        let free = receive.recv_timeout(std::time::Duration::from_secs(30));
        assert_eq!(free, Ok(false), "or it spins on the next owner");
    }

    #[test]
    fn a_static_mutex_needs_no_start() {
        assert!(MUTEX.try_lock() && MUTEX.is_locked());
        MUTEX.unlock();
        assert!(!MUTEX.is_locked());
    }
}
