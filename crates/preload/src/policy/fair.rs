//! `fair`: the user-space lock of `convoy-sync` in the memory of libc's mutex.
//!
//! [`Quota`] with one unit is one word, the first of the mutex. Its queue is in a table, where it
//! is found by the address of the mutex from the first wait on. glibc's condition variables would
//! release and acquire the mutex by glibc's values, so the lock is used with those of
//! [`condvar`](crate::policy::condvar).
//!
//! A deadline on the realtime clock is converted to a duration when the wait starts: setting the
//! clock during the wait does not move it.

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, compiler_fence};

use convoy_sync::{
    AdaptiveLock, Atomic, NoSignals, Platform, Quota, RawSemaphore as _, Room, Sleep, TaskId, Turn,
    Wake, Within, spin_by_clock, user_space, yield_by_clock,
};

use crate::arch;
use crate::arch::number::{MMAP, MUNMAP};
use crate::interpose::libc::{self, one, three, two};
use crate::policy::mutex::{self, EBUSY, ETIMEDOUT};
use crate::policy::platform::{self, Deadline, Slept};
use crate::policy::{condvar, turn};

const EINVAL: c_int = 22;
const CLOCK_REALTIME: c_int = 0;
const CLOCK_MONOTONIC: c_int = 1;
const NS_PER_S: i64 = 1_000_000_000;

/// Threads of an unmodified program, with a clock and turns.
#[derive(Clone, Copy, Debug)]
struct Threads;

/// A word that stores its value minus [`FREE`].
#[derive(Debug)]
#[repr(transparent)]
struct Word(AtomicU32);

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

thread_local! {
    // They have no destructors, and are part of the thread's initial memory.
    /// Whether the thread is in a critical section of a queue, which a handler may interrupt.
    static IN_QUEUE: Cell<bool> = const { Cell::new(false) };
    /// A handler that interrupted such a critical section released a mutex that may have waiters.
    static POSTPONED: Cell<bool> = const { Cell::new(false) };
}

fn clock(clock: c_int) -> i64 {
    unsafe extern "C" {
        fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
    }
    let mut time = [0; 2];
    // SAFETY: `time` has the two words of a `struct timespec` of x86-64.
    unsafe { clock_gettime(clock, &raw mut time) };
    time[0].saturating_mul(NS_PER_S).saturating_add(time[1])
}

impl Platform for Threads {
    type AtomicU8 = AtomicU8;
    type AtomicU32 = Word;
    type AtomicUsize = AtomicUsize;
    type IrqFlags = ();
    type Home<T> = Box<T>;

    fn now() -> u64 {
        clock(CLOCK_MONOTONIC) as u64
    }

    #[inline(always)]
    fn spin_hint() {
        core::hint::spin_loop();
    }

    fn spin_until(word: &Word, done: impl Fn(u32) -> bool) -> u32 {
        loop {
            // Acquire: pairs with the release of the thread that made `done` true.
            let value = word.load(Acquire);
            if done(value) {
                return value;
            }
            Self::spin_hint();
        }
    }

    fn spin_for(word: &Word, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        /// Loads of the word between two readings of the clock, which costs as much as ten of them.
        const LOOKS_PER_CLOCK: u32 = 32;
        if !mutex::may_spin() {
            // Relaxed: the caller provides the ordering.
            return word.load(Relaxed);
        }
        spin_by_clock::<Self>(LOOKS_PER_CLOCK, word, until, done)
    }

    fn give_way(word: &Word, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        // SAFETY: the call has no arguments and no effect on memory.
        let yield_now = || _ = unsafe { arch::call(arch::number::SCHED_YIELD, [0; 6]) };
        yield_by_clock::<Self>(word, until, done, yield_now)
    }

    fn turn() -> Turn {
        turn::get()
    }

    fn set_turn(turn: Turn) {
        turn::set(turn);
    }

    fn is_real_time() -> bool {
        mutex::is_real_time()
    }

    /// A handler may run in the critical section: it sees the mark, and does not access queues.
    /// Blocking signals would take two system calls for each critical section.
    fn keep_signals() -> u64 {
        IN_QUEUE.set(true);
        // The mark is set before anything in the critical section is done.
        compiler_fence(Ordering::SeqCst);
        0
    }

    fn admit_signals(_: u64) {
        compiler_fence(Ordering::SeqCst);
        // The mark is cleared after the critical section, and before `POSTPONED` is read: a handler
        // that runs in between does its wakeup itself. A handler runs on this thread, so the order
        // of the program suffices.
        IN_QUEUE.set(false);
        compiler_fence(Ordering::SeqCst);
        if POSTPONED.take() {
            wake_postponed();
        }
    }

    fn interrupts_queue() -> bool {
        IN_QUEUE.get()
    }

    fn postpone_wakeup() {
        POSTPONED.set(true);
    }

    fn wait(word: &Word, expected: u32, _: Sleep, deadline: Option<u64>) -> Wake {
        // The kernel refuses a negative time, and there would be no wait.
        let time = deadline.map(|ns| ns.min(i64::MAX as u64) as i64);
        let time = time.map(|ns| [ns / NS_PER_S, ns % NS_PER_S]);
        let end = time
            .as_ref()
            .map(|time| Deadline { time: core::ptr::from_ref(time) as usize, is_realtime: false });
        match platform::sleep(&word.0, expected.wrapping_sub(FREE), end) {
            Slept::Late => Wake::TimedOut,
            Slept::Woken | Slept::Interrupted => Wake::Woken,
        }
    }

    fn wake(word: *const Word, count: usize) {
        platform::wake(word.cast(), count.min(i32::MAX as usize));
    }

    fn signal_pending(_: Sleep) -> bool {
        false
    }

    fn current() -> TaskId {
        0
    }

    fn cpu() -> u32 {
        0
    }

    fn place<T>(value: T) -> Box<T> {
        Box::new(value)
    }

    user_space!(unobserved);
}

/// The lock of a queue. A handler that interrupts its owner and locks the same mutex would wait for
/// the thread that it interrupts: it polls instead.
type Inner = NoSignals<Threads, AdaptiveLock<Threads, mutex::Short>>;

/// The queue of a mutex, found by its address: libc uses all of the room in a mutex.
#[derive(Debug)]
struct ByAddress;

type Queue = Within<Threads, Inner>;

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

/// The rows together are larger than any memory.
static ROWS: [AtomicPtr<Entry>; 28] = [const { AtomicPtr::new(null_mut()) }; 28];

const READ_WRITE: usize = 3;
const PRIVATE_ANONYMOUS: usize = 0x22;

/// Returns the entries of a row, which is allocated at its first use.
fn entries(row: usize) -> *mut Entry {
    // Acquire: pairs with the release below, so a thread that finds a row finds it filled.
    let found = ROWS[row].load(Acquire);
    if !found.is_null() {
        return found;
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
    for at in 0..count {
        // SAFETY: within the new mapping, which no other thread knows.
        let place = unsafe { made.add(at) };
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

impl Room<Threads> for ByAddress {
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
                let mut found = entry.owner.load(Relaxed);
                if found == 0 {
                    // Only if it was free, because an exchange takes the cache line from the user
                    // of the queue.
                    let taken = entry.owner.compare_exchange(0, owner, Relaxed, Relaxed);
                    found = taken.err().unwrap_or(owner);
                }
                if found == owner {
                    return &entry.queue;
                }
            }
        }
        std::process::abort()
    }
}

/// Wakes waiters after a handler released mutexes while its thread was in a critical section of a
/// queue. All mutexes are checked, since the handler could not say which it released.
#[cold]
fn wake_postponed() {
    for (row, entries) in ROWS.iter().enumerate() {
        // Acquire: pairs with the release in `entries`.
        let entries = entries.load(Acquire);
        for at in 0..if entries.is_null() { 0 } else { FIRST_ROW << row } {
            // SAFETY: within the row.
            let entry = unsafe { entries.add(at) };
            // SAFETY: rows stay, and their entries are only shared.
            let owner = unsafe { &(*entry).owner }.load(Relaxed);
            if owner != 0 {
                of(owner - size_of::<Word>()).pass_on();
            }
        }
    }
}

/// Clears all queues in the child of a fork: its only thread waits for nothing, and the waiters of
/// the parent do not exist in it.
extern "C" fn forked() {
    for (row, entries) in ROWS.iter().enumerate() {
        // Relaxed: there is one thread.
        let entries = entries.load(Relaxed);
        for at in 0..if entries.is_null() { 0 } else { FIRST_ROW << row } {
            // SAFETY: within the row.
            let entry = unsafe { entries.add(at) };
            // SAFETY: as above.
            let queue = unsafe { &raw mut (*entry).queue };
            // SAFETY: there is one thread, which is in here and uses no queue.
            unsafe { queue.write(Queue::new()) };
        }
    }
}

type Mutex = Quota<Threads, ByAddress>;

fn of(mutex: usize) -> &'static Mutex {
    const { assert!(size_of::<Mutex>() == 4) };
    // SAFETY: the lock is the first word of the program's mutex, and zero means free.
    unsafe { &*(mutex as *const Mutex) }
}

pub(crate) extern "C" fn lock(mutex: usize) -> c_int {
    if !mutex::is_ours(mutex) {
        return libc::MUTEX_LOCK.libc([mutex, 0, 0, 0]);
    }
    of(mutex).down();
    0
}

pub(crate) extern "C" fn trylock(mutex: usize) -> c_int {
    match mutex::is_ours(mutex) {
        true if of(mutex).down_trylock() => 0,
        true => EBUSY,
        false => libc::MUTEX_TRYLOCK.libc([mutex, 0, 0, 0]),
    }
}

/// The attempt that a recorder makes first. A thread that must not bypass the queue has to call
/// [`lock`].
pub(crate) extern "C" fn attempt(mutex: usize) -> c_int {
    match mutex::is_ours(mutex) {
        true if of(mutex).down_at_once() => 0,
        true => EBUSY,
        false => libc::MUTEX_TRYLOCK.libc([mutex, 0, 0, 0]),
    }
}

fn lock_until(mutex: usize, clock_id: c_int, time: usize) -> c_int {
    let lock = of(mutex);
    if lock.down_at_once() {
        return 0;
    }
    // SAFETY: the program passes a time, which is read only if the mutex is not free.
    let [seconds, ns] = unsafe { *(time as *const [i64; 2]) };
    if !(0..NS_PER_S).contains(&ns) {
        return EINVAL;
    }
    let end = seconds.saturating_mul(NS_PER_S).saturating_add(ns);
    let left = end.saturating_sub(clock(clock_id)).max(0);
    if lock.down_timeout(left as u64).is_ok() { 0 } else { ETIMEDOUT }
}

pub(crate) extern "C" fn timedlock(mutex: usize, time: usize) -> c_int {
    if mutex::is_ours(mutex) {
        return lock_until(mutex, CLOCK_REALTIME, time);
    }
    libc::MUTEX_TIMEDLOCK.libc([mutex, time, 0, 0])
}

pub(crate) extern "C" fn clocklock(mutex: usize, clock: usize, time: usize) -> c_int {
    let clock_id = clock as c_int;
    if !mutex::is_ours(mutex) || ![CLOCK_REALTIME, CLOCK_MONOTONIC].contains(&clock_id) {
        return libc::MUTEX_CLOCKLOCK.libc([mutex, clock, time, 0]);
    }
    lock_until(mutex, clock_id, time)
}

pub(crate) extern "C" fn unlock(mutex: usize) -> c_int {
    if !mutex::is_ours(mutex) {
        return libc::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]);
    }
    mutex::forget_owner(mutex);
    of(mutex).up();
    0
}

/// Prepares everything else that these mutexes need, whether all or some mutexes use them.
pub(crate) fn prepare() {
    libc::in_children(forked);
    condvar::install();
}

/// Replaces libc's mutexes.
pub(crate) fn install() {
    prepare();
    let timed = [two(timedlock), three(clocklock)];
    mutex::replace_mutexes([one(lock), one(trylock), one(attempt), one(unlock)], timed);
}
