//! [`Quota`]: the default lock of user space: barging is allowed, but bounded in time.
//!
//! Use it for critical sections of any length, with more threads than CPUs, as a mutex (one unit)
//! or as a semaphore. It is nearly as fast as a lock without a queue, serves all alike, and each
//! waiter has a bound. Do not use it in interrupt handlers or under a spinlock: it sleeps. If
//! waiters must be served in order of arrival use [`Handoff`](crate::Handoff), at the cost of a
//! context switch for each critical section.
//!
//! ## States
//!
//! The word holds the free units times 8 and three flags, which change under the inner lock only.
//!
//! | `QUEUED` | `SHORT` | `CLOSED` | meaning |
//! |---|---|---|---|
//! | 0 | 0 | 0 | the queue is empty |
//! | 1 | 0 | 0 | no waiter sleeps, or as many are summoned as there are places |
//! | 1 | 1 | 0 | a waiter sleeps, and there is a place among the summoned |
//! | 1 | 0 | 1 | only the first waiter may take a unit; it is awake |
//! | 1 | 1 | 1 | only the first waiter may take a unit; it sleeps |
//!
//! *Summoned* are waiters that were woken and have neither left nor gone back to sleep. There are
//! `S` places for them; one place after a waiter was summoned without acquiring, and twice as many
//! after each success; and one more once the last one was summoned 20 us ago, an eighth longer for
//! each that is summoned, because it may wait for a CPU. A waiter keeps its place in the queue from
//! its arrival until it leaves.
//!
//! The *bound* of a lock is `BOUND_NS`, 5 ms, unless it was created with another one. Turns
//! end only while the first waiter has waited for the bound since its arrival.
//!
//! ## Transitions
//!
//! ```text
//! down    no flags, units > 0: units -= 1
//!         if the turn of the task ends: summon the first sleeper
//!         if CLOSED for the only waiter: yield the CPU for a while until that has come and gone
//!         unless CLOSED, or the queue is not empty and the turn of the task is over or the first
//!         waiter overdue:
//!             take a unit past the queue, or spin for a while until there is one
//!         else queue at the tail and sleep; summon the first sleeper if the turn was over, set
//!             CLOSED if the first waiter is overdue
//! woken   take a unit, or spin for a while until there is one:  leave, begin a turn
//!         else, if that is the first waiter and a handoff is due: set CLOSED, spin again
//!         else: cancel, or sleep again in the same place: clear CLOSED unless the waiter has
//!             waited for a quarter of the bound
//! up      units += 1; if SHORT: set CLOSED if a handoff is due, the first waiter has waited for a
//!             quarter of the bound, and slept for PATIENCE_NS; summon the first sleeper
//! settle  after every change under the inner lock: set the flags as in the table; if units are
//!         free then and SHORT, summon the first sleeper
//! ```
//!
//! A handoff is *due* if the first waiter has been the first for `PATIENCE_NS`, and the last
//! handoff was a turn ago. A release hands the lock to a sleeper only if critical sections are
//! long: a waiter that is only woken would find the lock taken. After a short critical section the
//! waiter is woken first, closes the lock when it runs, and the lock does not idle. The first
//! waiter is *overdue* once it has been that for `OVERDUE_NS` and has waited for the bound, asleep
//! or on its way to a CPU. CLOSED is cleared when the waiter that it was set for leaves.
//!
//! The turn of a real-time task does not end; it waits before other tasks, and has `S` more places.
//!
//! A *visitor* is a task that met no queue for 0.1 ms before this one: it was elsewhere, or owned
//! the lock for as long. It queues before the last waiters, up to 16, that are not visitors, have
//! let fewer than [`VISITS`] visitors pass, and were not handed the lock; at the tail if the first
//! waiter is overdue.
//!
//! ## Invariants
//!
//! - I1 Owners + units = initial units + extra `up`s.
//! - I2 While the inner lock is free the flags are as in the table.
//! - I3 While the inner lock is free, units > 0 and `SHORT`: a waiter is summoned, or an `up` that
//!   saw `SHORT` is on its way to the inner lock. Flags and units share a word, so a unit was
//!   released either before `SHORT` was set, and the task that set it saw the unit and summoned, or
//!   after it, and its `up` saw `SHORT`. A summoned waiter settles when it leaves or sleeps again,
//!   and so passes on a unit that it did not take. So no task sleeps while a unit is free that no
//!   other task is about to take.
//! - I4 A waiter's record is linked from its `push` until it removes it.
//! - I5 While `CLOSED` is set, the first waiter that is not of real time takes the next unit. A
//!   free unit then belongs to it, and no other takes it, since each exchange that takes a unit
//!   checks the flag.
//! - I6 An `up` that saw `SHORT` uses the lock only while its queue is not empty: a task in there
//!   keeps the lock's memory, and no other may.
//!
//! ## Memory ordering
//!
//! The release addition of `up` pairs with the acquire exchanges that take a unit; changes of the
//! flags are read-modify-writes between them and break no chain. The queue is ordered by the inner
//! lock.
//!
//! ## Progress and fairness
//!
//! As a rule units are not handed to a task: a summoned waiter competes with all others, so no unit
//! waits for a CPU. Until the first waiter has waited for the bound, any task takes units past the
//! queue. From then on a task takes units past a queue for the length of its turn and then queues
//! behind all others and summons another in its stead: the tasks that run change places with those
//! that sleep, in order. A task that is new to the queue has a turn of [`ARRIVAL_NS`], so that many
//! concurrent arrivals keep no task out. With N waiters every other turn lasts T(N) = [`ROUND_NS`]
//! / N, within [`TURN_NS_MIN`] and [`TURN_NS_MAX`]; on `c` CPUs that run nothing else, each of N
//! tasks has a turn every N turns / `c`: at most max([`ROUND_NS`], N x [`TURN_NS_MIN`]) / `c`, and
//! `c` critical sections. A turn may last five eighths longer: it continues for an eighth while the
//! next task wakes up, and the clock is read only from time to time.
//!
//! That rests on tasks that want the lock often; the bound for each waiter does not. With C the
//! longest critical section, W the longest time from a wakeup to the first instruction, and k
//! waiters before it, a waiter has a unit within
//!
//! ```text
//! BOUND / 4 + (k + 1) x (max(PATIENCE, T(N)) + 2 C + 2 W)   while the first waiter sleeps or runs
//! BOUND + (k + 1) x (max(OVERDUE, T(N)) + 2 C + 2 W)        while it waits for a CPU
//! ```
//!
//! Here k includes the visitors that pass it, at most [`VISITS`], and none if it is one. Visitors
//! would otherwise wait for a turn of each task that reacquires the lock all the time.
//!
//! A task that reacquires the lock immediately after short critical sections can pass the first
//! waiter for W, while that wakes up. Otherwise, from the moment in which the time of the first
//! waiter has passed, each other task takes the lock at most once more before it, and visitors
//! [`VISITS`] times until it is overdue: the unit of an `up` is free for an instant before the lock
//! is closed. (A task with critical sections shorter than T(N) / 4 reads the clock once in up to 64
//! of them.) `convoy check quota` searches that bound in the scenarios `hog` and `two-hogs`. It
//! holds whatever owners do: reacquire immediately, sleep, or yield the CPU; for `try_lock` and
//! timed waits, which `CLOSED` excludes, too; and for waiters requeued from a condition variable.
//!
//! A handoff to a sleeper lets the lock idle for W, at most once in T(N), after a critical section
//! of `PATIENCE_NS` or more, and not at all where turns serve the waiters before one is due.
//!
//! A real-time task waits for the owner and for concurrently running tasks, at most a turn each.
//!
//! ## Cost
//!
//! 8 bytes natively: the word and the number of a queue of 48 bytes outside the lock, allocated at
//! the first wait; elsewhere the queue is in the lock. Uncontended: one compare-exchange, one
//! addition. A turn costs two context switches, one wakeup and three critical sections of the inner
//! lock, once in at least [`TURN_NS_MIN`]. A waiter spins for at most 16 us, twice the cost of a
//! sleep and a wakeup, and halves this time after each unsuccessful spin; after four it no longer
//! spins, except for 2 us in one of 16 waits, because owners that yield their CPU release nothing
//! to a spinner. A task that acquires a lock by a spin and has to spin again within 1 us first
//! *stands back*: it reads nothing for 2 us, unless it has just done so. Two running tasks with
//! short critical sections would otherwise take the lock from each other for each of them, and its
//! line and the lines that it protects with it; now mostly one of them runs, at the speed of a lock
//! without contention, and they take turns. The first waiter spins for 20 us once it has closed the
//! lock, by the same rule, and a task yields the CPU for at most 50 us to the only waiter that the
//! lock was handed to: each at most once in T(N). A task asks for its scheduling class before a
//! wait, at most once in a millisecond.
//!
//! ## Lineage
//!
//! Ours. Barging with one word: Drepper, "Futexes are tricky", 2011. Several waiters in flight: the
//! semaphore of [`Opportunistic`](crate::Opportunistic), where their number follows the free units.
//! Standing back: the backoff of Anderson, 1990. A bound on
//! how long running threads keep others out: Dice, "Malthusian locks", 2017, which draws lots
//! instead of measuring time. A handoff from time to time: the `WTF::Lock` of `WebKit`, 2015, and
//! `parking_lot`, which draw the time; here it is counted for each first waiter. Visitors first:
//! the credit that schedulers give to tasks that slept. A handoff requested by a waiter that was
//! woken without acquiring: the mutex of Linux 4.10. There the releaser hands the lock to a task;
//! here it is free, but closed to the others, so a wait can be cancelled in between.

#[cfg(feature = "std")]
mod beside;
mod condvar;
mod room;
mod rwlock;
mod settle;
mod spin;
mod time;
mod turn;
mod word;

#[cfg(feature = "std")]
pub use beside::Beside;
#[cfg(feature = "std")]
pub use condvar::NativeQuotaCondvar;
pub use condvar::QuotaCondvar;
pub use room::{BOUND_NS, Room, Within};
#[cfg(feature = "std")]
pub use rwlock::NativeQuotaRwLock;
pub use rwlock::QuotaRwLock;
use settle::{Cause, Entry};
use spin::SPIN_NS;
use time::stamp;
pub use turn::Turn;
pub use word::Quota;
use word::{FLAGS, OPEN, SHORT, UNIT, UNITS_END, VISITS};

use crate::event::LockEvent;
use crate::lock::{RawLock as _, TellPart, WaitError};
#[cfg(feature = "std")]
use crate::native::Native;
use crate::platform::{Atomic, Platform, Sleep, Wake};
use crate::queue::Waiter;
use crate::semaphore::RawSemaphore;
use core::mem::offset_of;
#[cfg(feature = "std")]
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// Nanoseconds between two looks of a task that must not queue.
const POLL_NS: u64 = 50_000;

/// The lock of user space.
#[cfg(feature = "std")]
pub type NativeQuota = Quota<Native, Beside>;

#[cfg(feature = "std")]
impl NativeQuota {
    /// Returns a lock of user space with `units` free units, fewer than 2^29.
    pub const fn native(units: u32) -> Self {
        assert!(units < UNITS_END);
        Self { word: AtomicU32::new(units * UNIT), room: Beside::native() }
    }

    /// The same, with a bound in nanoseconds instead of 5 ms: rounded down to a power of two times
    /// 32,768 ns, and at least 65,536 ns.
    pub const fn native_with_bound_ns(units: u32, ns: u64) -> Self {
        assert!(units < UNITS_END);
        Self { word: AtomicU32::new(units * UNIT), room: Beside::with_bound_ns(ns) }
    }
}

impl<P: Platform, R: Room<P>, const S: u32> Quota<P, R, S> {
    /// Takes a free unit if there are no waiters. Returns whether it did.
    #[inline]
    pub fn down_at_once(&self) -> bool {
        // Relaxed: taking the unit is what orders.
        self.take(self.word.load(Relaxed), 0)
    }

    /// Returns whether a task could take a unit now, without passing a waiter; a hint.
    fn is_free(&self) -> bool {
        // Relaxed: a hint.
        let word = self.word.load(Relaxed);
        word >= UNIT && word & FLAGS == 0
    }

    #[cold]
    #[inline(never)]
    fn down_slow(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        if P::interrupts_queue() {
            return self.poll(deadline);
        }
        let entry = self.entry();
        if entry == Entry::Ends {
            self.announce();
        }
        let competes = matches!(entry, Entry::Competes | Entry::Ends);
        if self.give_way(if competes { OPEN } else { 0 }) || competes && self.compete(OPEN, SPIN_NS)
        {
            return Ok(());
        }
        let now = P::now();
        let mut turn = P::turn();
        let is_urgent = turn.is_urgent(now, P::is_real_time);
        P::set_turn(turn);
        if is_urgent && !competes && self.compete(OPEN, SPIN_NS) {
            return Ok(());
        }
        self.wait(if is_urgent { Entry::Competes } else { entry }, is_urgent, sleep, deadline)
    }

    /// Takes a unit for a task that must not queue, as soon as it finds one.
    fn poll(&self, deadline: Option<u64>) -> Result<(), WaitError> {
        loop {
            // Relaxed: taking the unit is what orders.
            let seen = self.word.load(Relaxed);
            if self.take(seen, FLAGS) {
                return Ok(());
            }
            let now = P::now();
            if deadline.is_some_and(|end| now >= end) {
                return Err(WaitError::TimedOut);
            }
            // Ends with its deadline: no release wakes this sleep.
            P::wait(&self.word, seen, Sleep::Uninterruptible, Some(now + POLL_NS));
        }
    }

    /// Queues until it has a unit or the wait ends otherwise.
    fn wait(
        &self,
        entry: Entry,
        is_urgent: bool,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> Result<(), WaitError> {
        let waiter = Waiter::new(false);
        waiter.urgent.set(is_urgent);
        let visits = entry != Entry::Overdue && P::turn().visits();
        waiter.lets_pass.set(if is_urgent || visits { 0 } else { VISITS });
        waiter.since.set(stamp::<P>());
        waiter.arrived.set(waiter.since.get());
        let room = self.room.queue();
        room.inner.lock();
        // SAFETY: the inner lock is held; the record stays on this stack until it is removed below.
        unsafe { room.push(&waiter) };
        P::event(LockEvent::Contended, self, waiter.task);
        waiter.prepare();
        let cause = match entry {
            Entry::Competes | Entry::Ends => Cause::Change,
            Entry::Yields => Cause::Turn,
            Entry::Overdue => Cause::Overdue,
        };
        let sleeper = self.settle(room, cause);
        room.unlock(sleeper);
        self.wait_in_queue(&waiter, sleep, deadline)
    }

    /// Moves a task that sleeps elsewhere into the queue without waking it; it continues in
    /// [`Self::wait_in_queue`] when it is summoned.
    ///
    /// # Safety
    ///
    /// The record is linked nowhere, and its task leaves only once it was summoned from here.
    unsafe fn requeue(&self, waiter: &Waiter<P>) {
        let room = self.room.queue();
        room.inner.lock();
        waiter.since.set(stamp::<P>());
        waiter.arrived.set(waiter.since.get());
        waiter.lets_pass.set(VISITS);
        // SAFETY: the inner lock is held, and the record stays by the contract.
        unsafe { room.append(waiter) };
        let sleeper = self.settle(room, Cause::Change);
        room.unlock(sleeper);
    }

    /// Sleeps in the queue, where `waiter` is linked, until it has a unit or the wait ends
    /// otherwise; then the record is no longer linked.
    fn wait_in_queue(
        &self,
        waiter: &Waiter<P>,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> Result<(), WaitError> {
        let room = self.room.queue();
        let result = loop {
            let ended = waiter.sleep(sleep, deadline);
            let competes = waiter.is_woken();
            let allowed = if waiter.is_owed() { FLAGS } else { OPEN };
            let mut taken = competes && self.compete(allowed, SPIN_NS);
            room.inner.lock();
            if competes && !taken && allowed == OPEN && waiter.is_first() {
                taken = self.insist(room, waiter);
            }
            // From here on it cannot be summoned.
            if waiter.is_woken() {
                room.answer(competes.then_some(taken), S);
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
            waiter.since.set(stamp::<P>());
            if waiter.owed.get() && !P::is_late(self.has_waited_long(waiter)) {
                // The lock does not idle while it sleeps.
                waiter.owed.set(false);
            }
            waiter.prepare();
            let sleeper = self.settle(room, Cause::Change);
            room.unlock(sleeper);
        };
        // SAFETY: the inner lock is held, and no other task removes this record (I4).
        unsafe { room.remove(waiter) };
        let sleeper = self.settle(room, Cause::Change);
        room.unlock(sleeper);
        if result.is_ok() {
            P::set_turn(P::turn().anew(P::now()));
        }
        result
    }
}

impl<P: Platform, R: Room<P>, const S: u32> RawSemaphore for Quota<P, R, S> {
    fn with_count(count: u32) -> Self {
        assert!(count < UNITS_END, "a lock has fewer than 2^29 units");
        Self { word: P::AtomicU32::new(count * UNIT), room: R::new() }
    }

    fn parts(tell: &mut TellPart<'_>) {
        tell(0, format_args!("word"));
        R::parts(offset_of!(Self, room), tell);
    }

    #[inline]
    fn down_unless(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        if self.take(UNIT, 0) {
            return Ok(());
        }
        self.down_slow(sleep, deadline)
    }

    #[inline]
    fn down_trylock(&self) -> bool {
        // Relaxed: taking the unit is what orders.
        self.take(self.word.load(Relaxed), OPEN)
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
