//! `fair`: the user-space lock of `convoy-sync` in the memory of libc's mutex.
//!
//! [`Quota`] with one unit is one word, the first of the mutex. Its queue is in a table, where it
//! is found by the address of the mutex from the first wait on. glibc's condition variables would
//! release and acquire the mutex by glibc's values, so the lock is used with those of
//! [`condvar`](crate::policy::condvar).
//!
//! A deadline on the realtime clock is converted to a duration when the wait starts: setting the
//! clock during the wait does not move it.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use convoy_sync::{
    AdaptiveLock, Atomic, BOUND_NS, NoSignals, Quota, RawSemaphore as _, Room, Within,
};

use crate::arch;
use crate::arch::number::{MMAP, MUNMAP};
use crate::interpose::libc;
use crate::policy::platform::{self, Deadline, Threads};
use crate::policy::spin::Short;
use crate::policy::{condvar, mutex};

/// A word that stores its value minus [`FREE`].
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Word(AtomicU32);

/// Value of a free lock with one unit, which libc's mutex stores as zero.
const FREE: u32 = 8;

impl Atomic<u32> for Word {
    fn new(value: u32) -> Self {
        Self(AtomicU32::new(value.wrapping_sub(FREE)))
    }

    #[inline(always)]
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order).wrapping_add(FREE)
    }

    #[inline(always)]
    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value.wrapping_sub(FREE), order);
    }

    fn modify(&self, order: Ordering, change: impl Fn(u32) -> u32) -> u32 {
        let change = |held: u32| Some(change(held.wrapping_add(FREE)).wrapping_sub(FREE));
        // Relaxed: the value that a failed attempt loads is not used. The change is never refused.
        let (Ok(held) | Err(held)) = self.0.fetch_update(order, Relaxed, change);
        held.wrapping_add(FREE)
    }

    #[inline(always)]
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        let (current, new) = (current.wrapping_sub(FREE), new.wrapping_sub(FREE));
        let result = self.0.compare_exchange(current, new, success, failure);
        result.map(|held| held.wrapping_add(FREE)).map_err(|held| held.wrapping_add(FREE))
    }

    #[inline(always)]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_add(value, order).wrapping_add(FREE)
    }
}

impl platform::Word for Word {
    fn raw(&self, value: u32) -> (&AtomicU32, u32) {
        (&self.0, value.wrapping_sub(FREE))
    }

    /// Checks all mutexes, since the handler could not say which it released.
    #[cold]
    fn wake_postponed() {
        each_entry(|entry| {
            // Relaxed: an entry keeps its owner.
            let owner = entry.owner.load(Relaxed);
            if owner != 0 {
                lock_of(owner - size_of::<Self>()).pass_on();
            }
        });
    }
}

/// The lock of a queue. A handler that interrupts its owner and locks the same mutex would wait for
/// the thread that it interrupts: it polls instead.
type Inner = NoSignals<Threads<Word>, AdaptiveLock<Threads<Word>, Short>>;

/// The queue of a mutex, found by its address: libc uses all of the room in a mutex.
#[derive(Debug)]
struct ByAddress;

type Queue = Within<Threads<Word>, Inner>;

/// Fills a cache line.
#[repr(C, align(64))]
struct Entry {
    /// Address of the mutex plus one word, the place of its [`ByAddress`]; 0 if the entry is free.
    /// Never changes once set: a new mutex at the address of an old one uses the same queue.
    owner: AtomicUsize,
    queue: Queue,
}

/// Entries of the first row; each row has twice as many as the one before.
const FIRST_ROW: usize = 256;
/// Entries of a row that are probed before the next row.
const PROBES: usize = 16;

/// Bound of all mutexes, nanoseconds: [`BOUND_NS`] unless the environment has another.
static BOUND: AtomicU64 = AtomicU64::new(BOUND_NS);

/// The rows together are larger than any memory.
static ROWS: [AtomicPtr<Entry>; 28] = [const { AtomicPtr::new(null_mut()) }; 28];

const READ_WRITE: usize = 3;
const PRIVATE_ANONYMOUS: usize = 0x22;

/// Returns the entries of a row, which is allocated at its first use.
fn entries(row: usize) -> *mut Entry {
    // Acquire: pairs with the release below, so a thread that finds a row finds it filled.
    let entries = ROWS[row].load(Acquire);
    if !entries.is_null() {
        return entries;
    }
    let count = FIRST_ROW << row;
    let bytes = count * size_of::<Entry>();
    // SAFETY: the kernel chooses the address, so no existing mapping is touched.
    let made =
        unsafe { arch::call(MMAP, [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0]) };
    if made < 0 {
        // There is no queue to wait in, and nothing may be printed here.
        std::process::abort();
    }
    let made = made as *mut Entry;
    for index in 0..count {
        // SAFETY: within the new mapping, which no other thread knows.
        let place = unsafe { made.add(index) };
        let entry = Entry { owner: AtomicUsize::new(0), queue: Queue::new() };
        // SAFETY: as above, and aligned, as the mapping is to a page.
        unsafe { place.write(entry) };
    }
    match ROWS[row].compare_exchange(null_mut(), made, AcqRel, Acquire) {
        Ok(_) => made,
        Err(other) => {
            // SAFETY: no other thread has seen this mapping.
            unsafe { arch::call(MUNMAP, [made as usize, bytes, 0, 0, 0, 0]) };
            other
        }
    }
}

impl Room<Threads<Word>> for ByAddress {
    type Inner = Inner;

    fn new() -> Self {
        Self
    }

    fn queue(&self) -> &Queue {
        let owner = core::ptr::from_ref(self) as usize;
        // Fibonacci hashing; mutexes are at least a word of eight bytes apart.
        let hash = (owner as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        for row in 0..ROWS.len() {
            let (entries, count) = (entries(row), FIRST_ROW << row);
            for probe in 0..PROBES {
                // SAFETY: within the row.
                let place = unsafe { entries.add((hash as usize + probe) & (count - 1)) };
                // SAFETY: rows stay, and their entries are only shared.
                let entry = unsafe { &*place };
                // All threads probe in the same order, and an entry keeps its owner, so a mutex has
                // one entry. Relaxed: an entry was filled before its row was seen.
                let mut known = entry.owner.load(Relaxed);
                if known == 0 {
                    // Only if it was free, because an exchange takes the cache line from the user
                    // of the queue.
                    let taken = entry.owner.compare_exchange(0, owner, Relaxed, Relaxed);
                    known = taken.err().unwrap_or(owner);
                }
                if known == owner {
                    return &entry.queue;
                }
            }
        }
        std::process::abort()
    }

    fn bound_ns(&self) -> u64 {
        // Relaxed: it was stored before the program had threads.
        BOUND.load(Relaxed)
    }
}

/// Calls `each` for the entries of all rows.
fn each_entry(each: impl Fn(&'static Entry)) {
    for (row, entries) in ROWS.iter().enumerate() {
        // Acquire: pairs with the release in `entries`.
        let entries = entries.load(Acquire);
        for index in 0..if entries.is_null() { 0 } else { FIRST_ROW << row } {
            // SAFETY: within the row.
            let entry = unsafe { entries.add(index) };
            // SAFETY: rows stay, and their entries are only shared.
            each(unsafe { &*entry });
        }
    }
}

/// Clears all queues in the child of a fork: its only thread waits for nothing, and the waiters of
/// the parent do not exist in it.
extern "C" fn forked() {
    each_entry(|entry| {
        let queue = (&raw const entry.queue).cast_mut();
        // SAFETY: there is one thread, which is in here and uses no queue.
        unsafe { queue.write(Queue::new()) };
    });
}

type Mutex = Quota<Threads<Word>, ByAddress>;

fn lock_of(mutex: usize) -> &'static Mutex {
    const { assert!(size_of::<Mutex>() == 4) };
    // SAFETY: the lock is the first word of the program's mutex, and zero means free.
    unsafe { &*(mutex as *const Mutex) }
}

pub(crate) struct Fair;

impl mutex::Policy for Fair {
    fn lock(mutex: usize) {
        lock_of(mutex).down();
    }

    fn try_lock(mutex: usize) -> bool {
        lock_of(mutex).down_trylock()
    }

    fn attempt(mutex: usize) -> bool {
        lock_of(mutex).down_at_once()
    }

    fn lock_until(mutex: usize, deadline: Deadline) -> bool {
        lock_of(mutex).down_timeout(deadline.left_ns()).is_ok()
    }

    fn unlock(mutex: usize) {
        lock_of(mutex).up();
    }
}

/// Sets the bound of all mutexes, which the environment gives in nanoseconds.
pub(crate) fn set_bound(digits: &[u8]) {
    let ns = core::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    if let Some(ns) = ns {
        // Relaxed: the program has no threads yet.
        BOUND.store(ns, Relaxed);
    }
}

/// Prepares everything else that these mutexes need, whether all or some mutexes use them.
pub(crate) fn prepare() {
    libc::in_children(forked);
    condvar::install();
    reserve(1);
}

/// Allocates the first rows, before the process may have limited its system calls.
fn reserve(rows: usize) {
    for row in 0..rows {
        entries(row);
    }
}

/// Allocates room for some 2000 contended mutexes, because system calls will soon be forbidden.
pub(crate) fn reserve_ahead() {
    // Acquire: pairs with the release in `entries`; the first row exists if the policy is used.
    if !ROWS[0].load(Acquire).is_null() {
        reserve(3);
    }
}
