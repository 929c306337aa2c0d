//! [`HandoffMutex`]: the mutex of Linux from 4.10 on, with handoff to a waiter that was woken
//! without acquiring it.
//!
//! Use it if a [`Mutex`](super::Mutex) is contended enough to starve its sleepers, and for kernels
//! of 2017 and later. User space cannot observe whether an owner is running, so a waiter there
//! spins until the end of the critical section: programs use [`Quota`](crate::Quota).
//!
//! ## States
//!
//! The word is the owner's number plus one, times 8, and three flags.
//!
//! | owner | flags | meaning |
//! |---|---|---|
//! | none | any but `PICKUP` | free |
//! | a task | no `PICKUP` | held |
//! | a task | `PICKUP` | granted to that task, which has not taken it yet |
//! | any | `WAITERS` | the queue of sleepers is not empty |
//! | any | `HANDOFF` | the first was woken without acquiring: the next release hands it the mutex |
//!
//! ## Transitions
//!
//! ```text
//! lock     0 -> task                                otherwise spin, then queue
//! take     free, or given to this task -> task, keeping WAITERS
//! spin     as the head of the queue of spinners: take; stops when the owner is not running or this
//!          CPU is wanted
//! queue    take, else set WAITERS and sleep; woken: take, else if first set HANDOFF as well and
//!          spin concurrently with the head of the spinners; else sleep again
//! leave    the queue: if it is empty then, clear the flags
//! unlock   task -> 0                                otherwise
//!          without HANDOFF: owner = none; if WAITERS wake the first, which stays queued
//!          with HANDOFF: owner = the first, PICKUP; wake it
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`.
//! - I2 While a record is linked and the inner lock is free, `WAITERS` is set, or a woken waiter is
//!   on its way to set it.
//! - I3 A waiter's record is linked from its `push` until it removes it, and only its task removes
//!   it, so a task to which the mutex was granted finds that before it leaves.
//!
//! ## Memory ordering
//!
//! The release operations of `unlock` on the word pair with the acquire operations of `take`. The
//! flags order nothing: they change under the inner lock, but for `take`, which drops `HANDOFF`.
//!
//! ## Progress and fairness
//!
//! Newcomers and spinners may steal the mutex until the first sleeper has been woken once without
//! acquiring it; then it is the next owner. Sleepers are served in arrival order.
//!
//! ## Cost
//!
//! 20 bytes, the inner lock, and 24 bytes for the queue of spinners. Uncontended: one locked
//! operation each to acquire and release. A mutex that is handed to a sleeper waits for the
//! sleeper's CPU.
//!
//! ## Lineage
//!
//! Linux 4.10, kernel/locking/mutex.c (commits 3ca0ff571b09, 9d659ae14b54, e274795ea7b7).
//! Differences: a woken waiter tries again and requests the handoff in one step under the inner
//! lock, whereas the kernel sets the flag and then tries, so that the waiter can be passed once
//! more; the owner is identified by its number; a real-time task spins like any other.

use crate::event::LockEvent;
use crate::lock::{RawLock, WaitError, tell_taken};
use crate::osq::SpinnerQueue;
use crate::platform::{Access, Atomic, Platform, Sleep, TaskId};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const WAITERS: u32 = 1;
const HANDOFF: u32 = 2;
const PICKUP: u32 = 4;
const FLAGS: u32 = WAITERS | HANDOFF | PICKUP;
const UNIT: u32 = FLAGS + 1;

/// Returns the owner bits of `word`, as [`owned_by`] sets them.
const fn owner(word: u32) -> u32 {
    word & !FLAGS
}

/// Returns the word of a mutex owned by `task`, without flags.
fn owned_by(task: TaskId) -> u32 {
    debug_assert!(task < u32::MAX / UNIT - 1, "the number of a task leaves room for the flags");
    (task + 1) * UNIT
}

/// The mutex. See the module documentation. Without `SPINS` it is the mutex of a kernel built
/// without `MUTEX_SPIN_ON_OWNER`.
#[repr(C)]
pub struct HandoffMutex<P: Platform, L: RawLock<P> = TicketLock<P>, const SPINS: bool = true> {
    word: P::AtomicU32,
    lock: L,
    sleepers: Queue<P>,
    spinners: SpinnerQueue<P>,
}

// SAFETY: `sleepers` is used only while `lock` is held, the queue of spinners while its own is; the
// word is an atomic of the platform, which is `Sync` by the bound.
unsafe impl<P: Platform, L: RawLock<P>, const SPINS: bool> Sync for HandoffMutex<P, L, SPINS>
where
    L: Sync,
    P::AtomicU32: Sync,
{
}
// SAFETY: a mutex that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform, L: RawLock<P>, const SPINS: bool> Send for HandoffMutex<P, L, SPINS>
where
    L: Send,
    P::AtomicU32: Send,
{
}

impl<P: Platform, L: RawLock<P> + Default, const SPINS: bool> Default
    for HandoffMutex<P, L, SPINS>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, L: RawLock<P> + Default, const SPINS: bool> HandoffMutex<P, L, SPINS> {
    /// Returns an unlocked mutex.
    pub fn new() -> Self {
        Self {
            word: P::AtomicU32::new(0),
            lock: L::default(),
            sleepers: Queue::new(),
            spinners: SpinnerQueue::new(),
        }
    }
}

impl<P: Platform, L: RawLock<P>, const SPINS: bool> HandoffMutex<P, L, SPINS> {
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
    pub fn try_lock(&self) -> bool {
        tell_taken::<P>(self, self.take(P::current(), 0).is_ok())
    }

    /// Returns whether the mutex is held or handed to a waiter. A snapshot.
    pub fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        owner(self.word.load(Relaxed)) != 0
    }

    /// Acquires the mutex for `task` if it is free or was granted to it, otherwise sets the flags
    /// `ask` and returns the word that prevented it.
    fn take(&self, task: TaskId, ask: u32) -> Result<(), u32> {
        let mine = owned_by(task);
        // Relaxed: taking the mutex is what orders.
        let mut seen = self.word.load(Relaxed);
        loop {
            let free = owner(seen) == 0 || owner(seen) == mine && seen & PICKUP != 0;
            if !free && seen & ask == ask {
                return Err(seen);
            }
            let next = if free { mine | seen & WAITERS } else { seen | ask };
            // Acquire pairs with the release in `unlock`.
            match self.word.compare_exchange(seen, next, Acquire, Relaxed) {
                Ok(_) if free => return Ok(()),
                Ok(_) => return Err(next),
                Err(now) => seen = now,
            }
        }
    }

    #[inline]
    fn lock_common(&self, sleep: Sleep) -> Result<(), WaitError> {
        let me = P::current();
        // Acquire pairs with the release in `unlock`.
        if self.word.compare_exchange(0, owned_by(me), Acquire, Relaxed).is_err() {
            return self.lock_slow(me, sleep);
        }
        P::event(LockEvent::Acquired, self, me);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, me: TaskId, sleep: Sleep) -> Result<(), WaitError> {
        P::event(LockEvent::Contended, self, me);
        P::preempt_disable();
        // Relaxed: a hint.
        let promising = Self::runs(self.word.load(Relaxed));
        let taken = promising && self.spinners.at_head(|| self.spin(me)) == Some(true);
        P::preempt_enable();
        if taken {
            P::event(LockEvent::Acquired, self, me);
            return Ok(());
        }
        self.wait(sleep)
    }

    /// Returns whether spinning for a mutex with this word is likely to succeed soon.
    fn runs(word: u32) -> bool {
        let owner = owner(word);
        SPINS && !P::need_resched() && (owner == 0 || P::on_cpu(owner / UNIT - 1))
    }

    /// Spins while that promises the mutex soon. Returns whether it acquired the mutex.
    fn spin(&self, me: TaskId) -> bool {
        while let Err(seen) = self.take(me, 0) {
            // Another owner is watched in turn.
            let left = |word| owner(word) != owner(seen) || !Self::runs(seen);
            if owner(P::spin_until(&self.word, left)) == owner(seen) {
                return false;
            }
        }
        true
    }

    /// Spins, concurrently with the head of the spinners, as the first sleeper that was woken
    /// without acquiring and has requested a handoff.
    fn spin_first(&self, me: TaskId) -> bool {
        P::preempt_disable();
        let taken = self.spin(me);
        P::preempt_enable();
        taken
    }

    fn wait(&self, sleep: Sleep) -> Result<(), WaitError> {
        let waiter = Waiter::new(false);
        self.lock.lock();
        // SAFETY: the inner lock is held; the record stays on this stack until it is removed below.
        unsafe { self.sleepers.push(&waiter) };
        let mut ask = WAITERS;
        let result = loop {
            if self.take(waiter.task, ask).is_ok() {
                break Ok(());
            }
            if P::signal_pending(sleep) {
                break Err(WaitError::Interrupted);
            }
            if SPINS && ask & HANDOFF != 0 {
                // Not declared asleep: a release in the meantime wakes no task.
                self.lock.unlock();
                let taken = self.spin_first(waiter.task);
                self.lock.lock();
                if taken || self.take(waiter.task, ask).is_ok() {
                    break Ok(());
                }
            }
            waiter.prepare();
            self.lock.unlock();
            waiter.sleep(sleep, None);
            self.lock.lock();
            if waiter.is_first() {
                ask |= HANDOFF;
            }
        };
        self.leave(&waiter, result)
    }

    /// Removes `waiter` from the queue under the inner lock, which is then released.
    fn leave(&self, waiter: &Waiter<P>, result: Result<(), WaitError>) -> Result<(), WaitError> {
        if result.is_ok() && !waiter.is_first() {
            P::event(LockEvent::Stolen, self, waiter.task);
        }
        // SAFETY: the inner lock is held, and no other task removes this record (I3).
        unsafe { self.sleepers.remove(waiter) };
        if self.sleepers.is_empty() {
            // Relaxed: the flags order nothing.
            self.word.fetch_and(!FLAGS, Relaxed);
        }
        let event = if result.is_ok() { LockEvent::Acquired } else { LockEvent::Interrupted };
        P::event(event, self, waiter.task);
        self.lock.unlock();
        result
    }

    /// Releases the mutex.
    #[inline]
    pub fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // Release pairs with the acquire of the next owner.
        let mine = owned_by(P::current());
        if self.word.compare_exchange(mine, 0, Release, Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        // Relaxed: giving the mutex back is what orders.
        let mut seen = self.word.load(Relaxed);
        while seen & HANDOFF == 0 {
            // Release pairs with the acquire of the next owner.
            match self.word.compare_exchange(seen, seen & FLAGS, Release, Relaxed) {
                Ok(_) if seen & WAITERS == 0 => return,
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        self.lock.lock();
        P::touch(&self.sleepers, Access::Read);
        // SAFETY: the inner lock is held.
        let first = unsafe { self.sleepers.front() };
        if seen & HANDOFF != 0 {
            if let Some(waiter) = first {
                P::event(LockEvent::Handoff, self, waiter.task);
            }
            let next = first.map_or(0, |waiter| owned_by(waiter.task) | PICKUP | WAITERS);
            // Release as above. Others change the word of a held mutex under the inner lock only.
            self.word.store(next, Release);
        }
        // SAFETY: it was found in the queue, under the inner lock.
        let woken = |waiter: &&Waiter<P>| unsafe { Waiter::wake((*waiter).into()) };
        if let Some(waiter) = first.filter(woken) {
            P::event(LockEvent::Woken, self, waiter.task);
        }
        self.lock.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{Native, Signals};

    #[test]
    fn a_signal_ends_a_wait_and_leaves_no_flags() {
        let mutex = HandoffMutex::<Native>::new();
        assert!(mutex.try_lock() && !mutex.try_lock() && mutex.is_locked());
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let mutex = &mutex;
            let waiter = scope.spawn(move || {
                send.send(Signals::of_this_thread()).unwrap();
                (mutex.wait(Sleep::Interruptible), mutex.wait(Sleep::Killable))
            });
            let signals = receive.recv().unwrap();
            signals.interrupt();
            signals.kill();
            let interrupted = Err(WaitError::Interrupted);
            assert_eq!(waiter.join().unwrap(), (interrupted, interrupted));
        });
        // Relaxed: no other thread uses it.
        assert_eq!(mutex.word.load(Relaxed) & FLAGS, 0);
        mutex.unlock();
        assert!(!mutex.is_locked() && mutex.try_lock());
    }

    #[test]
    fn who_asks_is_given_the_mutex_and_nobody_else_takes_it() {
        let mutex = HandoffMutex::<Native>::new();
        mutex.lock();
        let waiter = Waiter::<Native>::new(false);
        mutex.lock.lock();
        // SAFETY: the inner lock is held, and the record stays until the end of the test.
        unsafe { mutex.sleepers.push(&waiter) };
        assert!(mutex.take(waiter.task + 1, WAITERS | HANDOFF).is_err());
        mutex.lock.unlock();
        mutex.unlock();
        // Relaxed: no other thread uses it.
        assert_eq!(mutex.word.load(Relaxed), owned_by(waiter.task) | PICKUP | WAITERS);
        assert!(mutex.take(waiter.task + 1, 0).is_err());
        assert!(mutex.take(waiter.task, 0).is_ok() && mutex.take(waiter.task, 0).is_err());
        mutex.lock.lock();
        assert!(mutex.leave(&waiter, Ok(())).is_ok());
        assert_eq!(mutex.word.load(Relaxed), owned_by(waiter.task));
    }
}
