//! [`Quota`]: the lock of user space to begin with: whoever comes may take it, nobody for long.
//!
//! Use it for sections of any length, with more threads than CPUs, as a mutex (one unit) or as a
//! semaphore. It is nearly as fast as a lock that lets anybody in, and serves all alike. Do not use
//! it in interrupt handlers or under a spinlock: it sleeps. Where each waiter must come in the
//! order of arrival use [`Handoff`](crate::Handoff), which pays for that with a switch of tasks at
//! each section.
//!
//! ## States
//!
//! The word holds the free units times 4 and two flags, which change under the inner lock only.
//!
//! | `QUEUED` | `SHORT` | meaning |
//! |---|---|---|
//! | 0 | 0 | the queue is empty |
//! | 1 | 0 | it is not, and nobody in it sleeps or `S` are summoned |
//! | 1 | 1 | somebody sleeps, and fewer than `S` are summoned |
//!
//! *Summoned* are waiters that were woken and have neither left nor gone back to sleep. A waiter
//! keeps its place in the queue from its arrival until it leaves.
//!
//! ## Transitions
//!
//! ```text
//! down    no flags, units > 0: units -= 1
//!         else, unless the queue is not empty and the turn of the task is over:
//!             take a unit past the queue, or spin for a while until there is one
//!         else queue at the tail and sleep; if the turn was over, summon the first sleeper
//! woken   take a unit, or spin for a while until there is one:  leave, begin a turn
//!         else: cancel, or sleep again in the same place
//! up      units += 1; if SHORT: summon the first sleeper
//! settle  after every change under the inner lock: set the flags as in the table; if units are
//!         free then and SHORT, summon the first sleeper
//! ```
//!
//! A task of real time has no turn that ends, waits before those of other tasks, and has `S` places
//! among the summoned that these have not.
//!
//! ## Invariants
//!
//! - I1 Owners + units = initial units + extra `up`s.
//! - I2 While the inner lock is free the flags are as in the table.
//! - I3 While the inner lock is free, units > 0 and `SHORT`: somebody is summoned, or an `up` that
//!   saw `SHORT` is on its way to the inner lock. Flags and units share a word, so a unit came back
//!   either before `SHORT` was set, and who set it saw the unit and summoned, or after it, and its
//!   `up` saw `SHORT`. Who is summoned settles when it leaves or sleeps again, and so passes on
//!   what it did not take. So no task sleeps beside a free unit that nobody is on the way to take.
//! - I4 A waiter's record is linked from its `push` until it removes it.
//!
//! ## Memory ordering
//!
//! The release addition of `up` pairs with the acquire exchanges that take a unit; changes of the
//! flags are read-modify-writes between them and break no chain. The queue is ordered by the inner
//! lock.
//!
//! ## Progress and fairness
//!
//! Units are given to nobody: a summoned waiter competes like anybody, so no unit waits for a CPU.
//! A task takes units past a queue for the length of its turn and then queues behind everybody and
//! summons another in its stead: the tasks that run change places with those that sleep, in order.
//! Who comes anew has a turn of [`ARRIVAL_NS`], so that many who come at a time keep nobody out.
//! With N waiters every other turn lasts [`ROUND_NS`] / N, within [`TURN_NS_MIN`] and
//! [`TURN_NS_MAX`]; on `c` CPUs that run nothing else, each of N tasks has a turn every N turns /
//! `c`: at most max([`ROUND_NS`], N x [`TURN_NS_MIN`]) / `c`, and `c` sections. A turn may last
//! half as long again, because the clock is looked at from time to time only.
//!
//! A task of real time waits for the owner and for those that run beside it, at most a turn each.
//! What it does to others is what its priority does to them everywhere.
//!
//! ## Cost
//!
//! 8 bytes natively: the word and the number of a queue beside the lock, of 32 bytes, which it has
//! from the first wait on; elsewhere the queue is in the lock. Uncontended: one compare-exchange,
//! one addition. A turn costs two switches of tasks, one wake-up and three inner sections, once in
//! at least [`TURN_NS_MIN`].
//!
//! ## Lineage
//!
//! Ours. Barging with one word: Drepper, "Futexes are tricky", 2011. Several waiters in flight: the
//! semaphore of [`Opportunistic`](crate::Opportunistic), whose number follows the free units.
//! A bound on how long running threads keep others out: Dice, "Malthusian locks", 2017, who draws
//! lots where this counts time.

#[cfg(feature = "std")]
mod beside;
mod by_package;
mod condvar;
mod room;
mod rwlock;
mod turn;

#[cfg(feature = "std")]
pub use beside::Beside;
pub use by_package::ByPackage;
#[cfg(feature = "std")]
pub use condvar::NativeQuotaCondvar;
pub use condvar::QuotaCondvar;
pub use room::{Room, Within};
#[cfg(feature = "std")]
pub use rwlock::NativeQuotaRwLock;
pub use rwlock::QuotaRwLock;
pub use turn::Turn;

use crate::event::LockEvent;
use crate::lock::{RawLock as _, TellPart, WaitError};
#[cfg(feature = "std")]
use crate::native::Native;
use crate::platform::{Atomic, Platform, Sleep, Wake};
use crate::queue::Waiter;
use crate::semaphore::RawSemaphore;
use crate::spin::TicketLock;
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const QUEUED: u32 = 1;
const SHORT: u32 = 2;
const FLAGS: u32 = QUEUED | SHORT;
const UNIT: u32 = 4;

/// Waiters that are summoned at a time: one on its way for each CPU of a small machine, and as many
/// to spare. With 1 a CPU idles between two turns; from 8 on waiters are woken in vain.
const SUMMONED: u32 = 4;

/// Nanoseconds in which a task looks for a unit before it sleeps: twice what a sleep and a wake-up
/// cost, so that the loss is at most three times what was best.
const SPIN_NS: u64 = 20_000;

/// Nanoseconds of turns, one after the other, in which each waiter has one.
const ROUND_NS: u64 = 200_000_000;

/// Nanoseconds of the shortest turn: below, switching from turn to turn costs more than a sixth.
const TURN_NS_MIN: u64 = 60_000;

/// Nanoseconds of the turn of a task that comes to the queue anew: the shortest. Tasks that come
/// together see few wait as yet and would keep those out for a long turn each; with 2000 threads
/// that start at a time on two CPUs the first then waits for 220 ms instead of 85.
const ARRIVAL_NS: u64 = TURN_NS_MIN;

/// Nanoseconds of the longest turn: the switch costs 2 % of it, so a longer one gains nothing.
const TURN_NS_MAX: u64 = 500_000;

/// The lock. See the module documentation.
///
/// Its queue is in `R`; at most `S` waiters are summoned at a time.
#[derive(Debug)]
#[repr(C)]
pub struct Quota<P: Platform, R: Room<P> = Within<P, TicketLock<P>>, const S: u32 = SUMMONED> {
    word: P::AtomicU32,
    room: R,
}

/// The lock of user space.
#[cfg(feature = "std")]
pub type NativeQuota = Quota<Native, Beside>;

#[cfg(feature = "std")]
impl NativeQuota {
    /// A lock of user space with `units` free units, fewer than 2^30.
    pub const fn native(units: u32) -> Self {
        assert!(units < 1 << 30);
        Self { word: AtomicU32::new(units * UNIT), room: Beside::native() }
    }
}

impl<P: Platform<AtomicU32 = AtomicU32>> Quota<P> {
    /// A lock with `units` free units, fewer than 2^30, and its queue inside: for a `static`.
    pub const fn new(units: u32) -> Self {
        assert!(units < 1 << 30);
        Self { word: AtomicU32::new(units * UNIT), room: Within::empty() }
    }
}

/// What has to be woken once the inner lock is free.
type Sleeper<P> = Option<*const <P as Platform>::AtomicU32>;

impl<P: Platform, R: Room<P>, const S: u32> Quota<P, R, S> {
    /// Takes a free unit if the word shows at most `allowed` of the flags. `seen` is what the word
    /// is expected to be.
    #[inline]
    fn take(&self, mut seen: u32, allowed: u32) -> bool {
        while seen >= UNIT && seen & FLAGS & !allowed == 0 {
            // Acquire pairs with the release in `up`.
            match self.word.compare_exchange(seen, seen - UNIT, Acquire, Relaxed) {
                Ok(_) => {
                    P::happened(LockEvent::Acquired, self);
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes a free unit if nobody waits for one; returns whether it did.
    #[inline]
    pub fn down_at_once(&self) -> bool {
        // Relaxed: taking the unit is what orders.
        self.take(self.word.load(Relaxed), 0)
    }

    /// Takes a unit though others wait, as soon as there is one within [`SPIN_NS`].
    fn compete(&self) -> bool {
        // Relaxed: taking the unit is what orders.
        let mut seen = self.word.load(Relaxed);
        let until = if seen < UNIT { P::now() + SPIN_NS } else { 0 };
        while !self.take(seen, FLAGS) {
            seen = P::spin_for(&self.word, until, |word| word >= UNIT);
            if seen < UNIT {
                return false;
            }
        }
        true
    }

    /// Whether the task has had its turn, and others wait for theirs.
    fn has_had_its_turn(&self) -> bool {
        // Relaxed: a hint, as is the length.
        if self.word.load(Relaxed) & QUEUED == 0 {
            return false;
        }
        let waiting = u64::from(self.room.queue().waiting.load(Relaxed)).max(1);
        let mut turn = P::turn();
        let over =
            turn.meet((ROUND_NS / waiting).clamp(TURN_NS_MIN, TURN_NS_MAX), ARRIVAL_NS, P::now);
        P::set_turn(turn);
        over
    }

    #[inline]
    fn down_common(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        if self.take(UNIT, 0) {
            return Ok(());
        }
        self.down_slow(sleep, deadline)
    }

    #[cold]
    #[inline(never)]
    fn down_slow(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        let yields = self.has_had_its_turn() && !P::is_real_time();
        if !yields && self.compete() {
            return Ok(());
        }
        self.wait(yields, sleep, deadline)
    }

    /// Queues until it has a unit or the wait ends otherwise.
    fn wait(&self, yields: bool, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        let waiter = Waiter::new(false);
        waiter.urgent.set(P::is_real_time());
        let room = self.room.queue();
        room.inner.lock();
        // SAFETY: the inner lock is held; the record stays on this stack until it is removed below.
        unsafe { room.queue.push_by_urgency(&waiter) };
        room.lengthen(1);
        P::event(LockEvent::Contended, self, waiter.task);
        waiter.prepare();
        let sleeper = self.settle(room, yields);
        room.unlock(sleeper);
        self.wait_in_queue(&waiter, sleep, deadline)
    }

    /// Puts a task that sleeps elsewhere into the queue, asleep; it goes on in
    /// [`Self::wait_in_queue`] when it is summoned.
    ///
    /// # Safety
    ///
    /// The record is linked nowhere, and its task leaves only once it was summoned from here.
    unsafe fn requeue(&self, waiter: &Waiter<P>) {
        let room = self.room.queue();
        room.inner.lock();
        // SAFETY: the inner lock is held, and the record stays by the contract.
        unsafe { room.queue.push_by_urgency(waiter) };
        room.lengthen(1);
        let sleeper = self.settle(room, false);
        room.unlock(sleeper);
    }

    /// Sleeps in the queue, where `waiter` is linked, until it has a unit or the wait ends
    /// otherwise; then the record is linked no more.
    fn wait_in_queue(
        &self,
        waiter: &Waiter<P>,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> Result<(), WaitError> {
        let room = self.room.queue();
        let result = loop {
            let ended = waiter.sleep(sleep, deadline);
            let taken = waiter.is_woken() && self.compete();
            room.inner.lock();
            // Now nobody can summon it any more.
            if waiter.is_woken() {
                room.summoned.set(room.summoned.get() - 1);
            }
            if taken {
                break Ok(());
            }
            if ended == Wake::TimedOut {
                P::event(LockEvent::TimedOut, self, waiter.task);
                break Err(WaitError::TimedOut);
            }
            if ended == Wake::Interrupted || P::signal_pending(sleep) {
                P::event(LockEvent::Interrupted, self, waiter.task);
                break Err(WaitError::Interrupted);
            }
            waiter.prepare();
            let sleeper = self.settle(room, false);
            room.unlock(sleeper);
        };
        // SAFETY: the inner lock is held, and nobody else removes records (I4).
        unsafe { room.queue.remove(waiter) };
        room.lengthen(u32::MAX);
        let sleeper = self.settle(room, false);
        room.unlock(sleeper);
        if result.is_ok() {
            P::set_turn(Turn::new(P::now()));
        }
        result
    }

    /// The last step under the inner lock: summons the first sleeper if `summon` or a unit is free
    /// for it, and brings the flags up to date (I2, I3).
    fn settle(&self, room: &Within<P, R::Inner>, mut summon: bool) -> Sleeper<P> {
        let mut woken = None;
        loop {
            // SAFETY: the inner lock is held.
            let sleeper = unsafe { self.room.next() };
            let places = |waiter: &Waiter<P>| if waiter.urgent.get() { 2 * S } else { S };
            let sleeper = sleeper.filter(|waiter| room.summoned.get() < places(waiter));
            if let Some(waiter) = sleeper.filter(|_| summon) {
                P::event(LockEvent::Woken, self, waiter.task);
                room.summoned.set(room.summoned.get() + 1);
                self.room.comes(waiter.package);
                // SAFETY: it was found in the queue, under the inner lock.
                woken = unsafe { Waiter::rouse(waiter.into()) };
                summon = false;
                continue;
            }
            let queued = if room.queue.is_empty() { 0 } else { QUEUED };
            let flags = if sleeper.is_some() { QUEUED | SHORT } else { queued };
            // Relaxed: the flags change under the inner lock only, and order nothing.
            let mut word = self.word.load(Relaxed);
            if word & FLAGS != flags {
                // Relaxed, as above: the units are seen as of the change.
                word = self.word.fetch_add(flags.wrapping_sub(word & FLAGS), Relaxed);
            }
            if flags & SHORT == 0 || word < UNIT || woken.is_some() {
                return woken;
            }
            summon = true;
        }
    }

    #[cold]
    #[inline(never)]
    fn up_slow(&self) {
        let room = self.room.queue();
        room.inner.lock();
        let sleeper = self.settle(room, true);
        room.unlock(sleeper);
    }
}

impl<P: Platform, R: Room<P>, const S: u32> RawSemaphore for Quota<P, R, S> {
    fn with_count(count: u32) -> Self {
        assert!(count < 1 << 30, "a lock has fewer than 2^30 units");
        Self { word: P::AtomicU32::new(count * UNIT), room: R::new() }
    }

    fn parts(tell: &mut TellPart<'_>) {
        tell(0, format_args!("word"));
        R::parts(offset_of!(Self, room), tell);
    }

    #[inline]
    fn down(&self) {
        let taken = self.down_common(Sleep::Uninterruptible, None);
        debug_assert!(taken.is_ok(), "nothing ends this wait but a unit");
    }

    fn down_interruptible(&self) -> Result<(), WaitError> {
        self.down_common(Sleep::Interruptible, None)
    }

    fn down_killable(&self) -> Result<(), WaitError> {
        self.down_common(Sleep::Killable, None)
    }

    #[inline]
    fn down_trylock(&self) -> bool {
        // Relaxed: taking the unit is what orders.
        self.take(self.word.load(Relaxed), FLAGS)
    }

    fn down_timeout(&self, timeout: u64) -> Result<(), WaitError> {
        // Past others in its turn only, as any that waits, unless it is a mere attempt.
        if self.down_at_once() || timeout == 0 && self.down_trylock() {
            return Ok(());
        }
        let deadline = P::now().saturating_add(timeout);
        self.down_slow(Sleep::Uninterruptible, Some(deadline))
    }

    #[inline]
    fn up(&self) {
        P::happened(LockEvent::Released, self);
        // Release pairs with the acquire in `take`.
        if self.word.fetch_add(UNIT, Release) & SHORT != 0 {
            self.up_slow();
        }
    }

    fn free_units(&self) -> u32 {
        // Relaxed: a snapshot orders nothing.
        self.word.load(Relaxed) / UNIT
    }

    fn waiters(&self) -> usize {
        // Relaxed: a snapshot orders nothing.
        self.room.queue().waiting.load(Relaxed) as usize
    }
}

#[cfg(test)]
mod tests;
