//! Locks that hand over, in the memory of libc's mutexes and semaphores.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::{self, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use convoy_sync::{Atomic, Handover};

use crate::interpose::libc::{self, one, three, two};
use crate::policy::condvar;
use crate::policy::mutex::{self, MUTEX_NUMBER, Policy, words};
use crate::policy::platform::{self, Deadline, ETIMEDOUT, Slept, Threads};

const EINTR: c_int = 4;
const EAGAIN: c_int = 11;
const EOVERFLOW: c_int = 75;
const SEM_VALUE_MAX: u32 = i32::MAX as u32;

/// Offset in a `sem_t`, in words of 32 bits, of a value that is 128 if processes share it.
const SEM_SHARED: usize = 2;
/// Unused by libc.
const SEM_NUMBER: usize = 3;

/// [`FutexHandoff`](convoy_sync::FutexHandoff) in the memory of an object of libc; for semaphores,
/// the part that they have in common with it.
///
/// The child of a fork is a new generation, which the highest bits of a state contain. The waiting
/// threads of the parent do not exist in the child, so the first thread that finds a state of the
/// parent continues with the rest of it.
type Handoff<const SEMAPHORE: bool> = Handover<'static, Threads, State<SEMAPHORE>>;

const ONE_GRANT: u64 = 1 << 32;

/// Number of forks from the start of the program to this process; modulo 4 in a semaphore. After
/// four forks, a semaphore that was not accessed since its waiters came is taken for one of this
/// process.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    // Relaxed: a child has one thread.
    GENERATION.fetch_add(1, Relaxed);
}

/// Registers the counter of forks, only once: a state has room for few generations.
fn count_forks() {
    static COUNTS: AtomicBool = AtomicBool::new(false);
    // Relaxed: done before the program has threads.
    if !COUNTS.swap(true, Relaxed) {
        libc::in_children(forked);
    }
}

/// The state of a mutex or of a semaphore as the lock sees it: without its generation.
#[repr(transparent)]
struct State<const SEMAPHORE: bool>(AtomicU64);

impl<const SEMAPHORE: bool> State<SEMAPHORE> {
    /// Lowest bit of the generation, which extends to the highest bit of the state.
    const GENERATION: u32 = if SEMAPHORE { 62 } else { 48 };

    fn now() -> u64 {
        u64::from(GENERATION.load(Relaxed)) << Self::GENERATION
    }

    /// Returns the state without its generation, as it applies in this process.
    fn read(state: u64) -> u64 {
        let plain = state & ((1 << Self::GENERATION) - 1);
        match state - plain == Self::now() {
            true => plain,
            // Units that were granted but not taken are free.
            false if SEMAPHORE => (plain & u64::from(u32::MAX)) + granted(plain as usize) as u64,
            // Granted to a waiter: free, since the waiter does not exist. Otherwise owned or free,
            // as before.
            false if plain >= ONE_GRANT => 0,
            false => (plain as u32).min(1).into(),
        }
    }
}

impl<const SEMAPHORE: bool> Atomic<usize> for State<SEMAPHORE> {
    fn new(value: usize) -> Self {
        Self(AtomicU64::new(value as u64 | Self::now()))
    }

    #[inline]
    fn load(&self, order: Ordering) -> usize {
        Self::read(self.0.load(order)) as usize
    }

    fn store(&self, value: usize, order: Ordering) {
        self.0.store(value as u64 | Self::now(), order);
    }

    fn modify(&self, order: Ordering, change: impl Fn(usize) -> usize) -> usize {
        let change = |held| Some(change(Self::read(held) as usize) as u64 | Self::now());
        // Relaxed: the value that a failed attempt loads is not used. The change is never refused.
        let (Ok(held) | Err(held)) = self.0.fetch_update(order, Relaxed, change);
        Self::read(held) as usize
    }

    #[inline]
    fn compare_exchange(
        &self,
        current: usize,
        new: usize,
        success: Ordering,
        failure: Ordering,
    ) -> Result<usize, usize> {
        // The state is usually of this generation; then it need not be loaded first.
        let (mut held, new) = (current as u64 | Self::now(), new as u64 | Self::now());
        loop {
            match self.0.compare_exchange(held, new, success, failure) {
                Ok(_) => return Ok(current),
                Err(other) if Self::read(other) as usize == current => held = other,
                Err(other) => return Err(Self::read(other) as usize),
            }
        }
    }
}

/// Returns the lock of `object`, whose number is in word `place`.
fn of<const SEMAPHORE: bool>(object: usize, place: usize) -> Handoff<SEMAPHORE> {
    // SAFETY: the first eight bytes of a mutex or a semaphore, aligned to eight.
    let state = unsafe { &*(object as *const State<SEMAPHORE>) };
    Handover::new(state, &words(object)[place])
}

fn of_mutex(mutex: usize) -> Handoff<false> {
    of(mutex, MUTEX_NUMBER)
}

fn of_semaphore(semaphore: usize) -> Handoff<true> {
    of(semaphore, SEM_NUMBER)
}

pub(crate) struct HandsOver;

fn wait_for(mutex: usize, deadline: Option<Deadline>) -> bool {
    let number = &words(mutex)[MUTEX_NUMBER];
    let sleep = |seen| platform::sleep(number, seen, deadline);
    of_mutex(mutex).lock(|| {}, sleep, |slept| slept == Slept::Late).is_ok()
}

impl Policy for HandsOver {
    fn lock(mutex: usize) {
        wait_for(mutex, None);
    }

    fn try_lock(mutex: usize) -> bool {
        of_mutex(mutex).try_lock()
    }

    fn lock_until(mutex: usize, deadline: Deadline) -> bool {
        wait_for(mutex, Some(deadline))
    }

    fn unlock(mutex: usize) {
        of_mutex(mutex).unlock();
    }
}

// A semaphore that hands over. Its first word is the value, as in glibc, so that `sem_getvalue`
// works; the second contains waiters in its low and grants in its high half.

const ONE_WAITER: usize = 1 << 32;
const ONE_UNIT: usize = 1 << 47;

fn waiters(state: usize) -> usize {
    state >> 32 & 0x7fff
}

fn granted(state: usize) -> usize {
    state >> 47 & 0x7fff
}

fn is_shared(semaphore: usize) -> bool {
    // Relaxed: `sem_init` sets it, and it does not change.
    words(semaphore)[SEM_SHARED].load(Relaxed) != 0
}

extern "C" fn sem_trywait(semaphore: usize) -> c_int {
    if is_shared(semaphore) {
        return libc::SEM_TRYWAIT.libc([semaphore, 0, 0, 0]);
    }
    let free = |state: usize| state as u32 > 0 && waiters(state) == 0;
    if of_semaphore(semaphore).change(|state| free(state).then(|| state - 1)).is_some() {
        return 0;
    }
    failed(EAGAIN)
}

extern "C" fn sem_wait(semaphore: usize) -> c_int {
    sem_until(semaphore, None, || libc::SEM_WAIT.libc([semaphore, 0, 0, 0]))
}

extern "C" fn sem_timedwait(semaphore: usize, time: usize) -> c_int {
    let end = Deadline { time, is_realtime: true };
    sem_until(semaphore, Some(end), || libc::SEM_TIMEDWAIT.libc([semaphore, time, 0, 0]))
}

extern "C" fn sem_clockwait(semaphore: usize, clock: usize, time: usize) -> c_int {
    match Deadline::on_clock(clock, time) {
        Ok(end) => sem_until(semaphore, Some(end), || {
            libc::SEM_CLOCKWAIT.libc([semaphore, clock, time, 0])
        }),
        Err(error) => failed(error),
    }
}

/// Sets `errno`, and returns the result of a semaphore function that fails.
fn failed(error: c_int) -> c_int {
    libc::set_errno(error);
    -1
}

/// Takes the unit that was granted to a waiter.
fn take_unit(state: usize) -> Option<usize> {
    (granted(state) > 0).then(|| state - ONE_UNIT - ONE_WAITER)
}

fn sem_until(semaphore: usize, deadline: Option<Deadline>, libc: impl Fn() -> c_int) -> c_int {
    if is_shared(semaphore) {
        return libc();
    }
    if let Some(error) = deadline.and_then(Deadline::error) {
        return failed(error);
    }
    // Whether or not it waits, this call is a cancellation point.
    libc::TESTCANCEL.call([0; 4]);
    let lock = of_semaphore(semaphore);
    let number = lock.number();
    let free = |state: usize| state as u32 > 0 && waiters(state) == 0;
    let before = lock.change(|s| Some(if free(s) { s - 1 } else { s + ONE_WAITER }));
    if before.is_some_and(free) {
        return 0;
    }
    let word = &words(semaphore)[SEM_NUMBER];
    let sleep = |number| {
        platform::cancellable(abandon, semaphore, || platform::sleep(word, number, deadline))
    };
    let ends = |slept| slept != Slept::Woken;
    match lock.wait(number, sleep, ends, take_unit, |state| state - ONE_WAITER) {
        Ok(()) => 0,
        Err(Slept::Interrupted) => failed(EINTR),
        Err(_) => failed(ETIMEDOUT),
    }
}

/// Called when a waiting thread is cancelled: it leaves, and posts a unit that it was granted.
extern "C" fn abandon(semaphore: *mut c_void) {
    let semaphore = semaphore as usize;
    let before =
        of_semaphore(semaphore).change(|state| take_unit(state).or(Some(state - ONE_WAITER)));
    if before.is_some_and(|state| granted(state) > 0) {
        sem_post(semaphore);
    }
}

extern "C" fn sem_post(semaphore: usize) -> c_int {
    if is_shared(semaphore) {
        return libc::SEM_POST.libc([semaphore, 0, 0, 0]);
    }
    let lock = of_semaphore(semaphore);
    let waits = |state: usize| waiters(state) > granted(state);
    let post = |state: usize| match waits(state) {
        true => Some(state + ONE_UNIT),
        false if state as u32 == SEM_VALUE_MAX => None,
        false => Some(state + 1),
    };
    match lock.change(post) {
        Some(before) if waits(before) => lock.grant(),
        Some(_) => {}
        None => return failed(EOVERFLOW),
    }
    0
}

/// Whether all mutexes, and all semaphores, hand over.
static HAND_OVER: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Returns whether all locks of this kind hand over.
pub(crate) fn hands_over(is_semaphore: bool) -> bool {
    // Relaxed: set before the program has threads.
    HAND_OVER[usize::from(is_semaphore)].load(Relaxed)
}

/// Prepares everything else that mutexes which hand over need, whether all or some of them do.
pub(crate) fn prepare() {
    count_forks();
    condvar::install();
}

/// Replaces libc's mutexes.
pub(crate) fn install() {
    prepare();
    HAND_OVER[0].store(true, Relaxed);
    mutex::install::<HandsOver>();
}

/// Replaces libc's semaphores.
pub(crate) fn install_semaphores() {
    count_forks();
    HAND_OVER[1].store(true, Relaxed);
    libc::SEM_WAIT.replace(one(sem_wait));
    libc::SEM_TRYWAIT.replace(one(sem_trywait));
    libc::SEM_TIMEDWAIT.replace(two(sem_timedwait));
    libc::SEM_CLOCKWAIT.replace(three(sem_clockwait));
    libc::SEM_POST.replace(one(sem_post));
}
