//! [`SpinningMutex`]: the mutex of Linux 2.6.29 to 4.9, whose waiters spin while the owner runs.
//!
//! Use it for sections that may sleep but mostly do not. In user space nobody knows whether an
//! owner runs, so a waiter there spins until the section ends; [`Mutex`](crate::Mutex) sleeps.
//!
//! ## States
//!
//! | `count` | meaning | `owner` |
//! |---|---|---|
//! | 1 | free | nobody |
//! | 0 | held, nobody is known to wait | a task, or nobody for a moment |
//! | negative | held, somebody may wait or have waited | the same |
//!
//! The queue of sleepers is guarded by the inner lock. `owner` is a hint: it is written after the
//! mutex is taken and cleared before it is given back.
//!
//! ## Transitions
//!
//! ```text
//! lock     count -= 1, owner if that makes 0      otherwise spin, then queue
//! spin     1 -> 0, owner      stops when the visible owner is not running, has changed, or this
//!                             CPU is wanted: see `SpinPolicy` for what else
//!                             with a queue of spinners only its first does this, turn by turn
//! queue    any -> -1, owner if it was 1, else sleep; the new owner sets 0 if nobody else queues
//! unlock   owner = nobody, count += 1       if that is not positive, under the inner lock:
//!                                           count = 1, wake the first, which stays queued
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
//! None: newcomers and spinners take the mutex past sleepers without limit. Sleepers are woken in
//! arrival order.
//!
//! ## Cost
//!
//! 24 bytes and the inner lock, in one line; with a queue of spinners 8 bytes more. Uncontended:
//! one locked operation each to take and to give back. Each newcomer that fails pushes `count`
//! below 0, so the owner then takes the inner lock to give back, also when nobody sleeps.
//!
//! ## Lineage
//!
//! Linux 3.7, kernel/mutex.c, with the steps of April 2013 as policies, the last that of 3.10.
//! Differences: a real-time task spins like any other; the owner is known by its number and stands
//! beside the count, which has the kernel's owner at the end of the same line.

use crate::event::LockEvent;
use crate::lock::{RawLock, WaitError};
use crate::platform::{Access, Atomic, Platform, Sleep, TaskId};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use crate::spinners::{AllAtOnce, InTurn, Spinners};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const FREE: u32 = 1;
const HELD: u32 = 0;
/// Held, somebody waits: -1.
const CONTENDED: u32 = u32::MAX;

/// No task: the owner of a free mutex.
const NOBODY: TaskId = TaskId::MAX;

/// What waiters of a [`SpinningMutex`] do before they sleep.
pub trait SpinPolicy: 'static {
    /// Who of them spins.
    type Spinners<P: Platform>: Spinners<P>;

    /// Whether a spinner reads the count and tries to take the mutex only when it is free.
    const LOOKS_FIRST: bool;

    /// Whether a waiter that holds the inner lock swaps -1 into a count of `count`. It need not
    /// when the count already tells the owner to wake somebody.
    fn announces(count: i32) -> bool;

    /// Asked each time a spinner is about to watch an owner: whether it may.
    #[inline]
    fn may_watch<P: Platform>() -> bool {
        true
    }
}

/// Linux 3.7: every spinner tries again and again with a locked operation.
#[derive(Clone, Copy, Debug)]
pub struct Compete;

impl SpinPolicy for Compete {
    type Spinners<P: Platform> = AllAtOnce;
    const LOOKS_FIRST: bool = false;

    fn announces(_: i32) -> bool {
        true
    }
}

/// Fewer locked operations (commit 0dc8c730c98a, 3.10): look first.
#[derive(Clone, Copy, Debug)]
pub struct LookFirst;

impl SpinPolicy for LookFirst {
    type Spinners<P: Platform> = AllAtOnce;
    const LOOKS_FIRST: bool = true;

    fn announces(count: i32) -> bool {
        count >= 0
    }
}

/// [`LookFirst`], and no spinning at high load (third patch of the first series of April 2013,
/// never merged): not with two other tasks that want this CPU, and with one only while at most
/// twice as many tasks as CPUs are active.
#[derive(Clone, Copy, Debug)]
pub struct LookFirstAtLowLoad;

impl SpinPolicy for LookFirstAtLowLoad {
    type Spinners<P: Platform> = AllAtOnce;
    const LOOKS_FIRST: bool = LookFirst::LOOKS_FIRST;

    fn announces(count: i32) -> bool {
        LookFirst::announces(count)
    }

    fn may_watch<P: Platform>() -> bool {
        load_allows(P::runnable_here(), P::active_tasks(), P::cpus())
    }
}

/// [`LookFirst`], and one spinner at a time (commit 2bd2c92cf07c, 3.10): the others wait in a queue
/// for their turn, unless the owner does not run when they come.
#[derive(Clone, Copy, Debug)]
pub struct LookFirstInTurn;

impl SpinPolicy for LookFirstInTurn {
    type Spinners<P: Platform> = InTurn<P>;
    const LOOKS_FIRST: bool = LookFirst::LOOKS_FIRST;

    fn announces(count: i32) -> bool {
        LookFirst::announces(count)
    }
}

/// The rule of [`LookFirstAtLowLoad`]; `runnable` contains the spinner itself.
fn load_allows(runnable: u32, active: u64, cpus: u32) -> bool {
    match runnable {
        0 | 1 => true,
        2 => active <= 2 * u64::from(cpus),
        _ => false,
    }
}

/// The mutex with optimistic spinning. See the module documentation.
// A spinner that looks at the count or the owner sees a change of both: they share eight bytes.
// Where all spin at once the whole mutex lies in one line.
#[repr(C)]
pub struct SpinningMutex<P: Platform, S: SpinPolicy, L: RawLock<P> = TicketLock<P>> {
    count: P::AtomicU32,
    owner: P::AtomicU32,
    lock: L,
    queue: Queue<P>,
    spinners: S::Spinners<P>,
    policy: PhantomData<fn() -> S>,
}

// SAFETY: `queue` is used only while `lock` is held; the words are atomics of the platform, which
// are `Sync` by the bound.
unsafe impl<P: Platform, S: SpinPolicy, L: RawLock<P> + Sync> Sync for SpinningMutex<P, S, L>
where
    P::AtomicU32: Sync,
    S::Spinners<P>: Sync,
{
}
// SAFETY: a mutex that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform, S: SpinPolicy, L: RawLock<P> + Send> Send for SpinningMutex<P, S, L>
where
    P::AtomicU32: Send,
    S::Spinners<P>: Send,
{
}

impl<P: Platform, S: SpinPolicy, L: RawLock<P>> Default for SpinningMutex<P, S, L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, S: SpinPolicy, L: RawLock<P>> SpinningMutex<P, S, L> {
    /// An unlocked mutex.
    pub fn new() -> Self {
        Self {
            count: P::AtomicU32::new(FREE),
            owner: P::AtomicU32::new(NOBODY),
            lock: L::new(),
            queue: Queue::new(),
            spinners: S::Spinners::<P>::new(),
            policy: PhantomData,
        }
    }

    /// Takes the mutex; spins and sleeps until it can.
    #[inline]
    pub fn lock(&self) {
        let taken = self.lock_common(Sleep::Uninterruptible);
        debug_assert!(taken.is_ok(), "nothing ends this wait but the mutex");
    }

    /// Takes the mutex; any signal ends the wait, but not the spinning before it.
    ///
    /// # Errors
    ///
    /// [`WaitError::Interrupted`].
    pub fn lock_interruptible(&self) -> Result<(), WaitError> {
        self.lock_common(Sleep::Interruptible)
    }

    /// Takes the mutex; a fatal signal ends the wait, but not the spinning before it.
    ///
    /// # Errors
    ///
    /// [`WaitError::Interrupted`].
    pub fn lock_killable(&self) -> Result<(), WaitError> {
        self.lock_common(Sleep::Killable)
    }

    /// Takes the mutex if it is free; returns whether it was.
    #[inline]
    pub fn try_lock(&self) -> bool {
        let taken = self.take_free();
        if taken {
            self.acquired();
        }
        taken
    }

    /// Whether somebody holds the mutex; a snapshot.
    pub fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.count.load(Relaxed) != FREE
    }

    /// 1 -> 0.
    fn take_free(&self) -> bool {
        // Acquire pairs with the release in `unlock`.
        self.count.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    fn acquired(&self) {
        let me = P::current();
        // Relaxed: a hint for spinners.
        self.owner.store(me, Relaxed);
        P::event(LockEvent::Acquired, self, me);
    }

    #[inline]
    fn lock_common(&self, sleep: Sleep) -> Result<(), WaitError> {
        // count -= 1. Acquire pairs with the release in `unlock`.
        if self.count.fetch_sub(1, Acquire) != FREE {
            P::event(LockEvent::Contended, self, P::current());
            P::preempt_disable();
            let taken = self.spin();
            P::preempt_enable();
            return if taken { Ok(()) } else { self.lock_slow(sleep) };
        }
        self.acquired();
        Ok(())
    }

    /// Spins as long as that promises the mutex soon; whether it was taken.
    #[cold]
    #[inline(never)]
    fn spin(&self) -> bool {
        if S::Spinners::<P>::QUEUE {
            // Relaxed: a hint.
            let owner = self.owner.load(Relaxed);
            if owner != NOBODY && !P::on_cpu(owner) {
                return false;
            }
        }
        loop {
            if let Some(taken) = self.spinners.in_turn(|| self.spin_turn()) {
                return taken;
            }
            // The mutex is just being taken or given back.
            let look_again =
                |count| self.owner.peek() != NOBODY || count == FREE || P::need_resched();
            if S::LOOKS_FIRST && !S::Spinners::<P>::QUEUE {
                P::spin_until(&self.count, look_again);
            } else {
                P::pause_for(&self.count, look_again);
            }
        }
    }

    /// One turn of a spinner: whether it took the mutex or gave up, or neither yet.
    #[inline]
    fn spin_turn(&self) -> Option<bool> {
        // Relaxed: a hint.
        let owner = self.owner.load(Relaxed);
        if owner != NOBODY && !(S::may_watch::<P>() && self.watch(owner)) {
            return Some(false);
        }
        // Relaxed: only taking the mutex orders.
        if (!S::LOOKS_FIRST || self.count.load(Relaxed) == FREE) && self.take_free() {
            // Before the turn ends: who comes next sees an owner.
            self.acquired();
            return Some(true);
        }
        (owner == NOBODY && P::need_resched()).then_some(false)
    }

    /// Spins while `owner` has the mutex and runs; whether nobody seems to have it then. Another
    /// owner ends the spinning for good: to follow a chain of owners costs more than a sleep.
    fn watch(&self, owner: TaskId) -> bool {
        let left = |now| !P::on_cpu(owner) || now != owner || P::need_resched();
        P::spin_until(&self.owner, left) == NOBODY
    }

    /// Under the inner lock: swaps -1 into the count unless that changes nothing; whether the mutex
    /// was free and is the caller's now.
    fn announce(&self) -> bool {
        // Relaxed: the look orders nothing, the swap does.
        if S::LOOKS_FIRST && !S::announces(self.count.load(Relaxed).cast_signed()) {
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
        unsafe { self.queue.push(&waiter) };
        // Once for the arrival, and at each turn.
        let free = self.announce();
        let result = loop {
            if free || self.announce() {
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
        // SAFETY: the inner lock is held, and nobody else removes records here (I3).
        unsafe { self.queue.remove(&waiter) };
        if result.is_ok() {
            if passed {
                P::event(LockEvent::Stolen, self, waiter.task);
            }
            self.acquired();
            if self.queue.is_empty() {
                // -1 -> 0: nobody sleeps. Relaxed: it is the owner's release that orders.
                self.count.store(HELD, Relaxed);
            }
        } else {
            // The count stays negative: the owner finds out that nobody waits.
            P::event(LockEvent::Interrupted, self, waiter.task);
        }
        self.lock.unlock();
        result
    }

    /// Gives the mutex back.
    #[inline]
    pub fn unlock(&self) {
        P::event(LockEvent::Released, self, P::current());
        // Relaxed: a hint for spinners.
        self.owner.store(NOBODY, Relaxed);
        // count += 1. Release pairs with the acquire of the next owner.
        if self.count.fetch_add(1, Release) != HELD {
            self.unlock_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        self.lock.lock();
        // any -> 1. Release pairs with the acquire of the next owner.
        self.count.store(FREE, Release);
        P::touch(&self.queue, Access::Read);
        // SAFETY: the inner lock is held.
        let front = unsafe { self.queue.front() };
        if let Some(waiter) = front.filter(|waiter| waiter.rouse()) {
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
    fn a_signal_ends_a_wait() {
        let mutex = SpinningMutex::<Native, Compete>::new();
        assert!(mutex.try_lock() && !mutex.try_lock());
        // Natively an owner always seems to run, so `lock_interruptible` would spin.
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
    fn the_rule_of_the_third_patch() {
        for (runnable, active, cpus, spins) in
            [(1, 1000, 80, true), (2, 160, 80, true), (2, 161, 80, false), (3, 3, 80, false)]
        {
            assert_eq!(load_allows(runnable, active, cpus), spins, "{runnable} {active}");
        }
    }
}
