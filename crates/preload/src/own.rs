//! Locks of ours in place of libc's, in the memory of libc's.
//!
//! A mutex is taken over by kind: normal and adaptive ones of one process. Recursive, checking,
//! robust, priority-inheriting and process-shared ones stay libc's, and so do semaphores that
//! processes share.
//!
//! - `spin`, `sleep`: [`AdaptiveLock`] in the first word of the mutex. It has glibc's values (0, 1,
//!   2), so glibc's timed functions and condition variables go on working with it; they leave their
//!   thread's number as owner, which must be gone at the release.
//! - `fair`: see [`fair`](crate::fair).
//! - `handoff`: [`Handoff`], with condition variables of its own, because glibc's would release and
//!   take the mutex by glibc's values.

use core::ffi::{CStr, c_int};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use convoy_sync::{AdaptiveLock, RawLock as _, SpinLimit};

use crate::arch;
use crate::conditions;
use crate::fair;
use crate::native::{self, Deadline, Native};
use crate::real::{self, one, three, two};

const EAGAIN: c_int = 11;
pub(crate) const EBUSY: c_int = 16;
pub(crate) const ETIMEDOUT: c_int = 110;
/// What a function of C11 gives for them, and for any other error.
const THRD_BUSY: c_int = 1;
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;
pub(crate) const CLOCK_REALTIME: usize = 0;

// Places in a `pthread_mutex_t` of x86-64, in words of 32 bits.
const OWNER: usize = 2;
const USERS: usize = 3;
const KIND: usize = 4;
/// Of the list of robust mutexes, which these are not.
const MUTEX_NUMBER: usize = 6;
/// Bits of the kind that decide who handles it; the others are about lock elision.
const KIND_BITS: u32 = 0xff;
const NORMAL: u32 = 0;
const ADAPTIVE: u32 = 3;
/// Place in a `sem_t` of what is 128 if processes share it.
const SEM_SHARED: usize = 2;
/// Unused.
const SEM_NUMBER: usize = 3;

/// Looks of the spinning lock before it sleeps; what `AdaptiveLock` has by default.
const LOOKS: u32 = 100;
static MOST_LOOKS: AtomicU32 = AtomicU32::new(LOOKS);

/// How often a lock looks before it sleeps: not at all with one CPU, or in a real-time task, which
/// may keep the owner off that CPU.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looks;

impl SpinLimit for Looks {
    fn looks(self) -> u32 {
        if may_spin() { MOST_LOOKS.load(Relaxed) } else { 0 }
    }
}

/// Whether this thread may look at a lock in a loop.
pub(crate) fn may_spin() -> bool {
    MOST_LOOKS.load(Relaxed) > 0 && !is_real_time()
}

/// Whether this thread has a priority of real time.
pub(crate) fn is_real_time() -> bool {
    const SCHED_GETSCHEDULER: usize = 145;
    /// FIFO, round robin and deadline.
    const REAL_TIME: [isize; 3] = [1, 2, 6];
    // SAFETY: the call takes the number of a task, 0 for the calling one.
    REAL_TIME.contains(&unsafe { arch::call(SCHED_GETSCHEDULER, [0; 6]) })
}

pub(crate) type Word = AdaptiveLock<Native, Looks>;

/// The same for the lock of a queue, whose sections are short: it wakes two sleepers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Short(Looks);

impl SpinLimit for Short {
    const WAKES: usize = 2;

    fn looks(self) -> u32 {
        self.0.looks()
    }
}

pub(crate) type InnerWord = AdaptiveLock<Native, Short>;

pub(crate) fn words(object: usize) -> &'static [AtomicU32; 10] {
    // SAFETY: the program gives a mutex or a condition variable, which have ten words, aligned.
    unsafe { &*(object as *const [AtomicU32; 10]) }
}

/// Whether a mutex is one that is taken over.
pub(crate) fn is_ours(mutex: usize) -> bool {
    let kind = words(mutex)[KIND].load(Relaxed) & KIND_BITS;
    kind == NORMAL || kind == ADAPTIVE
}

fn word(mutex: usize) -> &'static Word {
    // SAFETY: the lock is one word, and has the values of the first word of a mutex.
    unsafe { &*(mutex as *const Word) }
}

/// glibc took the mutex, before this object was there or after a wait on a condition variable.
pub(crate) fn forget_owner(mutex: usize) {
    let words = words(mutex);
    if words[OWNER].load(Relaxed) != 0 {
        words[OWNER].store(0, Relaxed);
        words[USERS].store(words[USERS].load(Relaxed).wrapping_sub(1), Relaxed);
    }
}

extern "C" fn word_lock(mutex: usize) -> c_int {
    if !is_ours(mutex) {
        return real::MUTEX_LOCK.libc([mutex, 0, 0, 0]);
    }
    word(mutex).lock();
    0
}

extern "C" fn word_unlock(mutex: usize) -> c_int {
    if !is_ours(mutex) {
        return real::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]);
    }
    forget_owner(mutex);
    word(mutex).unlock();
    0
}

/// A lock that is never free while somebody waits for it: the releaser makes it over to the one
/// that has slept longest, as the semaphore of 2008 did.
///
/// - The state is one word of 64 bits, zero when free. Low half: how many own it or wait for it.
///   High half: grants that no waiter has taken yet.
/// - Waiters sleep on a number of its own that each grant changes, in the order of the kernel's
///   queue. Who comes while a grant is on its way to a sleeper has read the number after it and
///   sleeps behind; only who is still on its way to sleep may find the grant of somebody else.
struct Handoff {
    state: &'static AtomicU64,
    number: &'static AtomicU32,
}

const ONE_USER: u64 = 1;
const ONE_GRANT: u64 = 1 << 32;

impl Handoff {
    /// With its number in word `place` of `object`.
    fn of(object: usize, place: usize) -> Self {
        // SAFETY: the first eight bytes of a mutex or a semaphore, aligned to eight.
        let state = unsafe { AtomicU64::from_ptr(object as *mut u64) };
        Self { state, number: &words(object)[place] }
    }

    fn of_mutex(mutex: usize) -> Self {
        Self::of(mutex, MUTEX_NUMBER)
    }

    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        // Acquire and release: this is taking and giving up the lock.
        self.state.fetch_update(AcqRel, Relaxed, change).ok()
    }

    /// Sleeps until `take` finds a grant; `arrive` has put this thread among the waiters after it
    /// read `number`. When the deadline has passed, `leave` takes it from there. Whether it has
    /// the grant.
    fn wait(
        &self,
        mut number: u32,
        deadline: Option<Deadline>,
        take: impl Fn(u64) -> Option<u64>,
        leave: impl Fn(u64) -> u64,
    ) -> bool {
        loop {
            let late = native::sleep(self.number, number, deadline);
            // Acquire: before the look, so that a grant after it ends the next sleep.
            number = self.number.load(Acquire);
            if self.change(&take).is_some() {
                return true;
            }
            if late {
                // A grant that comes at the last moment is taken.
                let before = self.change(|state| take(state).or_else(|| Some(leave(state))));
                return before.is_some_and(|state| take(state).is_some());
            }
        }
    }

    /// A grant has been made: whoever has slept longest takes it.
    fn wake(&self) {
        // Release: pairs with the load of whoever is about to sleep.
        self.number.fetch_add(1, Release);
        native::wake(self.number, 1);
    }

    fn try_lock(&self) -> bool {
        self.change(|state| (state == 0).then_some(ONE_USER)).is_some()
    }

    fn lock(&self, deadline: Option<Deadline>) -> c_int {
        // Acquire: before this thread is seen to wait, so that no grant for it is missed.
        let number = self.number.load(Acquire);
        if self.change(|state| Some(state + ONE_USER)) == Some(0) {
            return 0;
        }
        let take = |state: u64| (state >= ONE_GRANT).then(|| state - ONE_GRANT);
        if self.wait(number, deadline, take, |state| state - ONE_USER) { 0 } else { ETIMEDOUT }
    }

    fn unlock(&self) {
        let grant = |state: u64| {
            let left = state - ONE_USER;
            if left as u32 == 0 { left } else { left + ONE_GRANT }
        };
        if self.change(|state| Some(grant(state))).is_some_and(|state| state as u32 > 1) {
            self.wake();
        }
    }
}

extern "C" fn handoff_lock(mutex: usize) -> c_int {
    if is_ours(mutex) {
        Handoff::of_mutex(mutex).lock(None)
    } else {
        real::MUTEX_LOCK.libc([mutex, 0, 0, 0])
    }
}

extern "C" fn handoff_trylock(mutex: usize) -> c_int {
    match is_ours(mutex) {
        true if Handoff::of_mutex(mutex).try_lock() => 0,
        true => EBUSY,
        false => real::MUTEX_TRYLOCK.libc([mutex, 0, 0, 0]),
    }
}

extern "C" fn handoff_timedlock(mutex: usize, time: usize) -> c_int {
    if is_ours(mutex) {
        return Handoff::of_mutex(mutex).lock(Some(Deadline { time, is_realtime: true }));
    }
    real::MUTEX_TIMEDLOCK.libc([mutex, time, 0, 0])
}

extern "C" fn handoff_clocklock(mutex: usize, clock: usize, time: usize) -> c_int {
    if is_ours(mutex) {
        let is_realtime = clock as u32 as usize == CLOCK_REALTIME;
        return Handoff::of_mutex(mutex).lock(Some(Deadline { time, is_realtime }));
    }
    real::MUTEX_CLOCKLOCK.libc([mutex, clock, time, 0])
}

extern "C" fn handoff_unlock(mutex: usize) -> c_int {
    if !is_ours(mutex) {
        return real::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]);
    }
    forget_owner(mutex);
    Handoff::of_mutex(mutex).unlock();
    0
}

pub(crate) fn c11(result: c_int) -> c_int {
    match result {
        0 => 0,
        EBUSY => THRD_BUSY,
        ETIMEDOUT => THRD_TIMEDOUT,
        _ => THRD_ERROR,
    }
}

// The functions of C11 do in libc what those of pthread do, without their names.

extern "C" fn mtx_lock(mutex: usize) -> c_int {
    c11(real::MUTEX_LOCK.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_trylock(mutex: usize) -> c_int {
    c11(real::MUTEX_TRYLOCK.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_attempt(mutex: usize) -> c_int {
    c11(real::MUTEX_ATTEMPT.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_timedlock(mutex: usize, time: usize) -> c_int {
    c11(real::MUTEX_TIMEDLOCK.call([mutex, time, 0, 0]))
}

extern "C" fn mtx_unlock(mutex: usize) -> c_int {
    c11(real::MUTEX_UNLOCK.call([mutex, 0, 0, 0]))
}

// A semaphore that hands over. Its first word is the value, as in glibc, so that `sem_getvalue`
// works; the second has waiters in its low and grants in its high half.

const ONE_WAITER: u64 = 1 << 32;
const ONE_UNIT: u64 = 1 << 48;

fn waiters(state: u64) -> u64 {
    state >> 32 & 0xffff
}

fn granted(state: u64) -> u64 {
    state >> 48
}

fn is_shared(semaphore: usize) -> bool {
    words(semaphore)[SEM_SHARED].load(Relaxed) != 0
}

extern "C" fn sem_trywait(semaphore: usize) -> c_int {
    if is_shared(semaphore) {
        return real::SEM_TRYWAIT.libc([semaphore, 0, 0, 0]);
    }
    let free = |state: u64| state as u32 > 0 && waiters(state) == 0;
    if Handoff::of(semaphore, SEM_NUMBER).change(|state| free(state).then(|| state - 1)).is_some() {
        return 0;
    }
    real::set_errno(EAGAIN);
    -1
}

extern "C" fn sem_wait(semaphore: usize) -> c_int {
    sem_until(semaphore, None, || real::SEM_WAIT.libc([semaphore, 0, 0, 0]))
}

extern "C" fn sem_timedwait(semaphore: usize, time: usize) -> c_int {
    let end = Deadline { time, is_realtime: true };
    sem_until(semaphore, Some(end), || real::SEM_TIMEDWAIT.libc([semaphore, time, 0, 0]))
}

extern "C" fn sem_clockwait(semaphore: usize, clock: usize, time: usize) -> c_int {
    let end = Deadline { time, is_realtime: clock as u32 as usize == CLOCK_REALTIME };
    sem_until(semaphore, Some(end), || real::SEM_CLOCKWAIT.libc([semaphore, clock, time, 0]))
}

fn sem_until(semaphore: usize, deadline: Option<Deadline>, libc: impl Fn() -> c_int) -> c_int {
    if is_shared(semaphore) {
        return libc();
    }
    let lock = Handoff::of(semaphore, SEM_NUMBER);
    // Acquire: as for a mutex.
    let number = lock.number.load(Acquire);
    let free = |state: u64| state as u32 > 0 && waiters(state) == 0;
    let before = lock.change(|s| Some(if free(s) { s - 1 } else { s + ONE_WAITER }));
    if before.is_some_and(free) {
        return 0;
    }
    let take = |state: u64| (granted(state) > 0).then(|| state - ONE_UNIT - ONE_WAITER);
    if lock.wait(number, deadline, take, |state| state - ONE_WAITER) {
        return 0;
    }
    real::set_errno(ETIMEDOUT);
    -1
}

extern "C" fn sem_post(semaphore: usize) -> c_int {
    if is_shared(semaphore) {
        return real::SEM_POST.libc([semaphore, 0, 0, 0]);
    }
    let lock = Handoff::of(semaphore, SEM_NUMBER);
    let waits = |state: u64| waiters(state) > granted(state);
    let before = lock.change(|s| Some(if waits(s) { s + ONE_UNIT } else { s + 1 }));
    if before.is_some_and(waits) {
        lock.wake();
    }
    0
}

/// Puts the locks that the environment asks for in place of libc's.
pub(crate) fn install(policy: impl Fn(&CStr) -> Option<&'static [u8]>) {
    let mutex = policy(c"CONVOY_MUTEX=");
    if mutex.is_some() && cpus() < 2 {
        MOST_LOOKS.store(0, Relaxed);
    }
    match mutex {
        Some(b"spin" | b"sleep") => {
            if mutex == Some(b"sleep") {
                MOST_LOOKS.store(0, Relaxed);
            }
            real::MUTEX_LOCK.replace(one(word_lock));
            real::MUTEX_UNLOCK.replace(one(word_unlock));
        }
        Some(b"handoff") => {
            real::MUTEX_LOCK.replace(one(handoff_lock));
            real::MUTEX_TRYLOCK.replace(one(handoff_trylock));
            real::MUTEX_TIMEDLOCK.replace(two(handoff_timedlock));
            real::MUTEX_CLOCKLOCK.replace(three(handoff_clocklock));
            real::MUTEX_UNLOCK.replace(one(handoff_unlock));
            real::MUTEX_ATTEMPT.replace(one(handoff_trylock));
            conditions::install();
        }
        Some(b"fair") => fair::install(),
        _ => {}
    }
    if mutex.is_some() {
        real::MTX_LOCK.replace(one(mtx_lock));
        real::MTX_TRYLOCK.replace(one(mtx_trylock));
        real::MTX_ATTEMPT.replace(one(mtx_attempt));
        real::MTX_TIMEDLOCK.replace(two(mtx_timedlock));
        real::MTX_UNLOCK.replace(one(mtx_unlock));
    }
    if policy(c"CONVOY_SEM=") == Some(b"handoff") {
        real::SEM_WAIT.replace(one(sem_wait));
        real::SEM_TRYWAIT.replace(one(sem_trywait));
        real::SEM_TIMEDWAIT.replace(two(sem_timedwait));
        real::SEM_CLOCKWAIT.replace(three(sem_clockwait));
        real::SEM_POST.replace(one(sem_post));
    }
}

/// CPUs that this process may use.
fn cpus() -> u32 {
    const SCHED_GETAFFINITY: usize = 204;
    let mut mask = [0_u64; 128];
    let place = (&raw mut mask) as usize;
    // SAFETY: the kernel writes at most as many bytes as the mask has.
    unsafe { arch::call(SCHED_GETAFFINITY, [0, size_of_val(&mask), place, 0, 0, 0]) };
    mask.iter().map(|word| word.count_ones()).sum()
}
