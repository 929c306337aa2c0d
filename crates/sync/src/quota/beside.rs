//! [`Beside`]: the queue of a [`Quota`](super::Quota), outside the lock, allocated at the first
//! wait.

use super::BOUND_NS;
use super::room::{Room, Within};
use crate::adaptive::AdaptiveLock;
use crate::lock::RawLock as _;
use crate::native::Native;
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

/// The queue of a user-space lock: outside the lock, which stores its number from the first wait
/// until the lock is dropped. The inner lock may sleep, because a spinlock with a preemptible owner
/// collapses if there are more threads than CPUs.
#[derive(Debug)]
#[repr(transparent)]
pub struct Beside {
    /// The number, 0 before the first wait; above [`NUMBER`] the bound of the lock.
    number: AtomicU32,
}

/// Bits of a number.
const NUMBER: u32 = (1 << BOUND_SHIFT) - 1;

/// Bit of a number from which on it has the exponent of the bound, in units of `BOUND_UNIT_NS`; 0
/// is the default.
const BOUND_SHIFT: u32 = 27;

/// Nanoseconds of the unit of bounds: half of the shortest turn.
const BOUND_UNIT_NS: u64 = 1 << 15;

type NativeQueue = Within<Native, AdaptiveLock<Native>>;

/// Queues of the first row; each row has twice as many as the previous one. A page.
const FIRST_ROW: usize = 64;

/// Rows that have room for each number.
const ROWS: usize = 22;

/// All queues of this process: numbers from 1, in rows that never move.
struct Queues {
    /// Null up to the first use. Zeroed memory is empty queues.
    rows: [AtomicPtr<NativeQueue>; ROWS],
    lock: AdaptiveLock<Native>,
    /// Numbers given out so far; used under `lock`, as the next.
    numbers: Cell<u32>,
    /// The number of an unused queue; its `waiting` is the number of the next.
    unused: Cell<u32>,
}

// SAFETY: the cells are used only while `lock` is held.
unsafe impl Sync for Queues {}

static QUEUES: Queues = Queues {
    rows: [const { AtomicPtr::new(null_mut()) }; ROWS],
    lock: AdaptiveLock::<Native>::new(),
    numbers: Cell::new(0),
    unused: Cell::new(0),
};

/// Returns the row and the place of a number.
fn place(number: u32) -> (usize, usize) {
    let index = number as usize - 1 + FIRST_ROW;
    let row = (index.ilog2() - FIRST_ROW.ilog2()) as usize;
    (row, index - (FIRST_ROW << row))
}

impl Queues {
    /// Returns the queue of a number that was given out.
    fn get(&self, number: u32) -> &NativeQueue {
        let (row, at) = place(number);
        // Acquire pairs with the release in `map`; a task that has the number came after that.
        let row = self.rows[row].load(Acquire);
        // SAFETY: rows are as long as `place` says, and are mapped before a number is given out.
        let queue = unsafe { row.add(at) };
        // SAFETY: as above; rows are never unmapped, and their contents are only shared.
        unsafe { &*queue }
    }

    /// Returns the number of an unused, empty queue.
    fn take(&self) -> u32 {
        self.lock.lock();
        let mut number = self.unused.get();
        if number == 0 {
            number = self.numbers.get() + 1;
            assert!(number <= NUMBER, "more than {NUMBER} locks with waiters");
            self.numbers.set(number);
            let (row, at) = place(number);
            if at == 0 {
                self.map(row);
            }
        } else {
            // Relaxed: `lock` orders it.
            self.unused.set(self.get(number).waiting.swap(0, Relaxed));
        }
        self.lock.unlock();
        number
    }

    /// Takes a number back.
    fn give(&self, number: u32) {
        self.lock.lock();
        // Relaxed: `lock` orders it.
        self.get(number).waiting.store(self.unused.replace(number), Relaxed);
        self.lock.unlock();
    }

    /// Maps a row. No allocator is asked, because locks are used in allocators.
    fn map(&self, row: usize) {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let bytes = size_of::<NativeQueue>() * (FIRST_ROW << row);
        // SAFETY: the kernel chooses the place, so nothing that exists is touched.
        let memory = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED, "no memory for {bytes} bytes of queues of locks");
        // Release pairs with the acquire in `get`.
        self.rows[row].store(memory.cast(), Release);
    }
}

impl Beside {
    /// Room for a new lock.
    pub const fn native() -> Self {
        Self { number: AtomicU32::new(0) }
    }

    /// Room for a new lock with a bound, which is rounded down to a power of two times
    /// `BOUND_UNIT_NS`.
    pub const fn with_bound_ns(ns: u64) -> Self {
        let units = ns / BOUND_UNIT_NS;
        let exponent = if units < 2 { 1 } else { units.ilog2() };
        let most = u32::MAX >> BOUND_SHIFT;
        let exponent = if exponent < most { exponent } else { most };
        Self { number: AtomicU32::new(exponent << BOUND_SHIFT) }
    }

    /// Allocates the queue of a lock at its first wait.
    #[cold]
    fn first(&self) -> &'static NativeQueue {
        let mine = QUEUES.take();
        // Relaxed: the bound never changes.
        let none = self.number.load(Relaxed) & !NUMBER;
        // Release and acquire pair with each other: a task that finds a number finds its row.
        match self.number.compare_exchange(none, none | mine, AcqRel, Acquire) {
            Ok(_) => QUEUES.get(mine),
            Err(other) => {
                QUEUES.give(mine);
                QUEUES.get(other & NUMBER)
            }
        }
    }
}

impl Room<Native> for Beside {
    type Inner = AdaptiveLock<Native>;

    fn new() -> Self {
        Self::native()
    }

    #[inline]
    fn queue(&self) -> &NativeQueue {
        // Acquire pairs with the release in `first`.
        match self.number.load(Acquire) & NUMBER {
            0 => self.first(),
            number => QUEUES.get(number),
        }
    }

    #[inline]
    fn bound_ns(&self) -> u64 {
        // Relaxed: the bound never changes.
        match self.number.load(Relaxed) >> BOUND_SHIFT {
            0 => BOUND_NS,
            exponent => BOUND_UNIT_NS << exponent,
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let number = *self.number.get_mut() & NUMBER;
        if number != 0 {
            QUEUES.give(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        assert_eq!(
            (place(1), place(64), place(65), place(192)),
            ((0, 0), (0, 63), (1, 0), (1, 127))
        );
        assert!(place(NUMBER).0 < ROWS);
    }

    #[test]
    fn a_lock_has_its_bound_before_and_after_its_first_wait() {
        const MS: u64 = 1_000_000;
        for (ns, bound) in [(0, 65_536), (5 * MS, 4_194_304), (u64::MAX, BOUND_UNIT_NS << 31)] {
            let room = Beside::with_bound_ns(ns);
            assert_eq!(room.bound_ns(), bound);
            let queue = std::ptr::from_ref(room.queue());
            assert!(std::ptr::eq(room.queue(), queue) && room.bound_ns() == bound);
        }
        assert_eq!(Beside::native().bound_ns(), BOUND_NS);
    }

    #[test]
    fn a_queue_is_beside_its_lock_until_that_is_dropped() {
        let rooms: Vec<Beside> = (0..200).map(|_| Beside::native()).collect();
        for room in &rooms {
            let queue = room.queue();
            assert!(queue.queue.is_empty() && std::ptr::eq(queue, room.queue()));
            // Relaxed: no other task has the queue.
            assert_eq!(queue.waiting.load(Relaxed), 0);
        }
        let mut places: Vec<_> =
            rooms.iter().map(|room| std::ptr::from_ref(room.queue())).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), rooms.len());
        drop(rooms);
        let again = std::ptr::from_ref(Beside::native().queue());
        assert!(places.contains(&again) || cfg!(not(miri)), "other tests use queues, too");
    }

    #[test]
    fn who_loses_the_race_to_wait_first_has_the_queue_of_the_winner() {
        let room = Beside::native();
        let winner = std::ptr::from_ref(room.first());
        // Like a task that read 0 before the winner's number was there.
        assert!(std::ptr::eq(room.first(), winner) && std::ptr::eq(room.queue(), winner));
    }

    #[test]
    fn all_who_wait_first_find_one_queue() {
        const THREADS: usize = 4;
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            let (room, start) = (Beside::native(), std::sync::Barrier::new(THREADS));
            let look = || {
                start.wait();
                std::ptr::from_ref(room.queue()).addr()
            };
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(look)).collect();
                for thread in threads {
                    let found = thread.join().expect("it does not panic");
                    assert_eq!(found, std::ptr::from_ref(room.queue()).addr());
                }
            });
        }
    }
}
