//! [`RwLock`]: the reader/writer lock of the GNU C library, which prefers readers or writers.
//!
//! Use it to replay programs that have it. It prefers readers unless told otherwise: while readers
//! overlap, no writer enters. Do not use it where writers must make progress.
//!
//! ## States
//!
//! `word` holds the number of readers, including readers that wait, times 8 and three flags:
//!
//! | flag | set while |
//! |---|---|
//! | `WRITING` | the lock is in a write phase: an owner of `OWNED` may write, readers wait |
//! | `OWNED` | one writer, the primary one, is inside or waits for the write phase |
//! | `HELD_UP` | readers that let a writer pass sleep on `word` (only if writers are preferred) |
//!
//! | `WRITING` | `OWNED` | readers | meaning |
//! |---|---|---|---|
//! | 0 | 0 | any | readers are inside, or the lock is free |
//! | 0 | 1 | some | readers are inside, the primary writer waits for the last one to leave |
//! | 1 | 1 | any | the primary writer is inside; readers wait |
//! | 1 | 0 | 0 | free after a writer; the next reader starts a read phase itself |
//!
//! `phase` is 1 in write phases and `turn` is 1 while `OWNED` is set, each plus `SLEEPS` if a task
//! sleeps on it. `queue` counts the writers that wait for `OWNED`, plus `HANDED` while the owner
//! has passed it on to one of them; it stays 0 if readers are preferred.
//!
//! ## Transitions
//!
//! ```text
//! read          readers += 1; WRITING without OWNED: clear WRITING; WRITING: wait for phase 0
//! read_unlock   readers -= 1; the last one sets WRITING if OWNED is set, and then phase to 1
//! write         set OWNED or wait for turn 0 and try again; no readers: set WRITING; else wait for
//!               phase 1
//! write_unlock  writers preferred and some wait: set HANDED; else clear OWNED, with readers also
//!               WRITING and phase; then wake a task that sleeps on turn
//! ```
//!
//! If writers are preferred, a reader that finds readers inside and `OWNED` set waits until the
//! last of those readers has left.
//!
//! ## Invariants
//!
//! - I1 A writer is inside only with `WRITING` and `OWNED` set by or for it; readers only while
//!   `WRITING` is clear.
//! - I2 A read phase does not end while `word` counts a reader, nor a write phase while `OWNED` is
//!   set. So the phase that a counted task waits for lasts until that task has left.
//! - I3 `phase` follows `WRITING`, later. A task that waits for a phase continues once `phase` has
//!   its value after `word` had it, so that the late store is done when it leaves.
//! - I4 A task sleeps on `phase` or `turn` only while `SLEEPS` is set there, and the store that
//!   ends the wait returns that flag.
//!
//! ## Memory ordering
//!
//! The release operations on `word` in both unlocks pair with the acquire operations on `word` that
//! enter a phase. The release that sets `HANDED` pairs with the acquire load after taking it over.
//!
//! ## Progress and fairness
//!
//! Readers preferred: readers pass writers that wait, without bound. Writers preferred: writers
//! pass readers, without bound, since each hands over to the next. Writers among themselves are in
//! no order.
//!
//! ## Cost
//!
//! 16 bytes. Uncontended: one atomic operation to read and one to leave; to write, one operation
//! and a store, one more if the last owner was a reader, and two to leave. Every reader moves the
//! line.
//!
//! ## Lineage
//!
//! `pthread_rwlock_t` of the GNU C library since 2.25 (Torvald Riegel), written from its published
//! description. Differences: no deadlines, no check for recursion, no priority protection.

use crate::event::LockEvent;
use crate::lock::locks_by;
use crate::platform::{Atomic, Platform, Sleep};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const WRITING: u32 = 1;
const OWNED: u32 = 2;
const HELD_UP: u32 = 4;
const READER: u32 = 8;

/// Of `phase` and `turn`.
const SLEEPS: u32 = 2;
/// Of `queue`.
const HANDED: u32 = 1 << 31;

/// The lock; with `WRITERS` it prefers them. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct RwLock<P: Platform, const WRITERS: bool = false> {
    word: P::AtomicU32,
    queue: P::AtomicU32,
    phase: P::AtomicU32,
    turn: P::AtomicU32,
}

impl<P: Platform, const WRITERS: bool> Default for RwLock<P, WRITERS> {
    fn default() -> Self {
        let zero = || P::AtomicU32::new(0);
        Self { word: zero(), queue: zero(), phase: zero(), turn: zero() }
    }
}

/// Returns whether the word is in this phase.
const fn is(word: u32, writing: bool) -> bool {
    (word & WRITING != 0) == writing
}

impl<P: Platform, const WRITERS: bool> RwLock<P, WRITERS> {
    /// Acquires the lock for reading.
    pub fn read(&self) {
        if WRITERS {
            self.let_writer_pass();
        }
        // readers += 1. Acquire pairs with the release in `write_unlock`.
        let mut seen = self.word.fetch_add(READER, Acquire) + READER;
        if !is(seen, true) {
            P::happened(LockEvent::Acquired, self);
            return;
        }
        P::happened(LockEvent::Contended, self);
        while seen & (WRITING | OWNED) == WRITING {
            // Free after a writer -> read phase. Acquire, as above.
            match self.word.compare_exchange(seen, seen ^ WRITING, Acquire, Relaxed) {
                Ok(_) => {
                    self.begin_phase(false);
                    P::happened(LockEvent::Acquired, self);
                    return;
                }
                Err(now) => seen = now,
            }
        }
        self.wait_for_phase(false);
        P::happened(LockEvent::Acquired, self);
    }

    /// Waits while readers are inside and a writer waits for them.
    fn let_writer_pass(&self) {
        // Relaxed: counting the reader is what orders.
        let mut seen = self.word.load(Relaxed);
        while seen & (WRITING | OWNED) == OWNED && seen >= READER {
            let held_up = seen | HELD_UP;
            if seen != held_up {
                // Relaxed, as above.
                if let Err(now) = self.word.compare_exchange(seen, held_up, Relaxed, Relaxed) {
                    seen = now;
                    continue;
                }
            }
            P::wait(&self.word, held_up, Sleep::Uninterruptible, None);
            // Relaxed, as above.
            seen = self.word.load(Relaxed);
        }
    }

    /// Releases the lock of a reader.
    pub fn read_unlock(&self) {
        P::happened(LockEvent::Released, self);
        let leave = |word: u32| {
            let left = word - READER;
            match (left < READER, left & OWNED != 0) {
                (true, true) => left & !HELD_UP | WRITING,
                (true, false) => left & !HELD_UP,
                (false, _) => left,
            }
        };
        // Release pairs with the acquire of the writer that sees the write phase.
        let seen = self.word.modify(Release, leave);
        debug_assert!(seen >= READER && !is(seen, true), "a reader releases a lock it has not");
        let left = leave(seen);
        if is(left, true) {
            self.begin_phase(true);
        }
        if (seen ^ left) & HELD_UP != 0 {
            P::wake(&raw const self.word, usize::MAX);
        }
    }

    /// Acquires the lock for writing if it is free. Returns whether it did.
    pub fn try_write(&self) -> bool {
        // Relaxed: the exchange is what orders.
        let mut seen = self.word.load(Relaxed);
        while seen & OWNED == 0 && (seen < READER || WRITERS && is(seen, true)) {
            // Acquire pairs with the release in both unlocks.
            match self.word.compare_exchange(seen, seen | WRITING | OWNED, Acquire, Relaxed) {
                Ok(_) => {
                    // Relaxed: the flags only say whether to sleep.
                    self.turn.store(1, Relaxed);
                    if !is(seen, true) {
                        // Relaxed, as above.
                        self.phase.store(1, Relaxed);
                    }
                    P::happened(LockEvent::Acquired, self);
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Acquires the lock for writing.
    pub fn write(&self) {
        // Set OWNED. Acquire pairs with the release in both unlocks.
        let mut seen = self.word.fetch_or(OWNED, Acquire);
        let mut flag = 0;
        if seen & OWNED != 0 {
            P::happened(LockEvent::Contended, self);
            (seen, flag) = self.wait_for_turn(seen);
        }
        // Relaxed: the flag only says whether other tasks may sleep. It stays set if this writer
        // slept, since others may sleep as well (I4).
        self.turn.store(1 | flag, Relaxed);
        if !is(seen, true) {
            self.begin_writing(seen);
        }
        P::happened(LockEvent::Acquired, self);
    }

    /// Begins a write phase, or waits until the readers that are inside do.
    fn begin_writing(&self, mut seen: u32) {
        while !is(seen, true) && seen < READER {
            // Acquire pairs with the release in `read_unlock`.
            match self.word.compare_exchange(seen, seen | WRITING, Acquire, Relaxed) {
                Ok(_) => {
                    // Relaxed: in a read phase without readers no task sleeps on it.
                    self.phase.store(1, Relaxed);
                    return;
                }
                Err(now) => seen = now,
            }
        }
        self.wait_for_phase(true);
    }

    /// Waits for `OWNED`. Returns the word as it was then, and `SLEEPS` if this writer slept.
    #[cold]
    fn wait_for_turn(&self, mut seen: u32) -> (u32, u32) {
        if WRITERS {
            // Relaxed: the owner reads it in its own exchange.
            self.queue.fetch_add(1, Relaxed);
        }
        let mut flag = 0;
        loop {
            if seen & OWNED == 0 {
                // Acquire pairs with the release in both unlocks.
                match self.word.compare_exchange(seen, seen | OWNED, Acquire, Relaxed) {
                    Ok(_) if WRITERS => {
                        // Relaxed, as above.
                        self.queue.fetch_sub(1, Relaxed);
                        return (seen, flag);
                    }
                    Ok(_) => return (seen, flag),
                    Err(now) => seen = now,
                }
                continue;
            }
            if WRITERS && self.takes_over() {
                // Acquire pairs with the release of the previous owner, through `queue`.
                return (self.word.load(Acquire), flag);
            }
            // Relaxed: the flags only say whether to sleep.
            let turn = self.turn.load(Relaxed);
            let asleep = 1 | SLEEPS;
            // 1 -> 1 | SLEEPS. Relaxed, as above.
            let marks = || self.turn.compare_exchange(1, asleep, Relaxed, Relaxed).is_ok();
            if turn == asleep || turn == 1 && marks() {
                flag = SLEEPS;
                P::wait(&self.turn, asleep, Sleep::Uninterruptible, None);
            } else {
                // The owner is between two of its steps.
                P::pause_for(&self.word, |word| {
                    let handed = WRITERS && self.queue.peek() & HANDED != 0;
                    word & OWNED == 0 || handed || self.turn.peek() & !SLEEPS == 1
                });
            }
            // Relaxed: the exchange is what orders.
            seen = self.word.load(Relaxed);
        }
    }

    /// Takes `OWNED` over if the owner has passed it on. Returns whether it did.
    fn takes_over(&self) -> bool {
        // Relaxed: the exchange is what orders.
        let mut queue = self.queue.load(Relaxed);
        while queue & HANDED != 0 {
            // Acquire pairs with the release in `passes_on`.
            let taken = (queue & !HANDED) - 1;
            match self.queue.compare_exchange(queue, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => queue = now,
            }
        }
        false
    }

    /// Passes `OWNED` on to a writer that waits. Returns whether there is one.
    fn passes_on(&self) -> bool {
        // Relaxed: the exchange is what orders.
        let mut queue = self.queue.load(Relaxed);
        while queue != 0 {
            // Release pairs with the acquire in `takes_over`.
            match self.queue.compare_exchange(queue, queue | HANDED, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => queue = now,
            }
        }
        false
    }

    /// Releases the lock of a writer.
    pub fn write_unlock(&self) {
        P::happened(LockEvent::Released, self);
        // Relaxed: the word is what orders.
        let has_sleepers = self.turn.swap(0, Relaxed) & SLEEPS != 0;
        if !(WRITERS && self.passes_on()) {
            let leave = |word| word & !if word < READER { OWNED } else { OWNED | WRITING };
            // Release pairs with the acquire operations that enter.
            let seen = self.word.modify(Release, leave);
            debug_assert!(seen & OWNED != 0, "a writer releases a lock it has not");
            if seen >= READER {
                self.begin_phase(false);
            }
        }
        if has_sleepers {
            P::wake(&raw const self.turn, 1);
        }
    }

    /// Says that this phase has begun, and wakes the tasks that wait for it.
    fn begin_phase(&self, writing: bool) {
        // Relaxed: the word is what orders.
        if self.phase.swap(u32::from(writing), Relaxed) & SLEEPS != 0 {
            P::wake(&raw const self.phase, usize::MAX);
        }
    }

    /// Waits for a phase that lasts until the calling task has left (I2, I3).
    #[cold]
    fn wait_for_phase(&self, writing: bool) {
        let asleep = u32::from(!writing) | SLEEPS;
        let mut is_sure = false;
        loop {
            // Relaxed: the word is what orders.
            let mut phase = self.phase.load(Relaxed);
            while phase & !SLEEPS != u32::from(writing) {
                // Relaxed: the flag says that a task may sleep.
                if phase == asleep
                    || self.phase.compare_exchange(phase, asleep, Relaxed, Relaxed).is_ok()
                {
                    P::wait(&self.phase, asleep, Sleep::Uninterruptible, None);
                }
                // Relaxed, as above.
                phase = self.phase.load(Relaxed);
            }
            if is_sure {
                return;
            }
            // Acquire pairs with the release in both unlocks.
            is_sure = is(self.word.load(Acquire), writing);
            if !is_sure {
                // `phase` still has the value of the phase before the last one.
                P::pause_for(&self.word, |word| is(word, writing));
            }
        }
    }
}

locks_by! {
    [P: Platform, const WRITERS: bool] RwLock<P, WRITERS>,
        write try_write write_unlock / read read_unlock {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;
    use core::sync::atomic::Ordering;

    #[test]
    fn a_reader_passes_a_writer_that_waits_unless_writers_are_preferred() {
        let lock = RwLock::<Native>::default();
        lock.read();
        // A writer that has arrived, and waits for the reader.
        lock.word.fetch_or(OWNED, Ordering::Relaxed);
        lock.read();
        lock.read_unlock();
        assert_eq!(lock.word.load(Ordering::Relaxed), READER | OWNED);
        lock.read_unlock();
        assert_eq!(lock.word.load(Ordering::Relaxed), WRITING | OWNED);
        assert_eq!(lock.phase.load(Ordering::Relaxed), 1);
        lock.write_unlock();

        let lock = RwLock::<Native, true>::default();
        lock.read();
        lock.word.fetch_or(OWNED, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| lock.read());
            while lock.word.load(Ordering::Relaxed) & HELD_UP == 0 {
                std::thread::yield_now();
            }
            // The last reader hands over to the writer, and the new one waits for that.
            lock.read_unlock();
            assert_eq!(lock.word.load(Ordering::Relaxed) & OWNED, OWNED);
            lock.write_unlock();
            reader.join().expect("it reads");
        });
        assert_eq!(lock.word.load(Ordering::Relaxed), READER);
    }
}
