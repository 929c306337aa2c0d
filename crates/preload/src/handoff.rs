//! Locks that hand over, in the memory of libc's mutexes and semaphores.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::conditions;
use crate::native::{self, Deadline, Slept};
use crate::own::{self, EBUSY, ETIMEDOUT, MUTEX_NUMBER};
use crate::real::{self, one, three, two};

const EINTR: c_int = 4;
const EAGAIN: c_int = 11;
const EOVERFLOW: c_int = 75;
const SEM_VALUE_MAX: u32 = i32::MAX as u32;

/// Place in a `sem_t`, in words of 32 bits, of what is 128 if processes share it.
const SEM_SHARED: usize = 2;
/// Unused.
const SEM_NUMBER: usize = 3;

/// A lock that is never free while somebody waits for it: the releaser makes it over to the one
/// that has slept longest, as the semaphore of 2008 did.
///
/// - The state is one word of 64 bits, zero when free. Low half: how many own it or wait for it.
///   Above: grants that no waiter has taken yet, and the generation of the process that wrote it.
/// - The child of a fork is another generation. It has none of the threads that waited, so whoever
///   finds a state of its parent first goes on with what is [left](Layout::left) of it.
/// - Waiters sleep on a number of its own that each grant changes, in the order of the kernel's
///   queue. Who comes while a grant is on its way to a sleeper has read the number after it and
///   sleeps behind; only who is still on its way to sleep may find the grant of somebody else.
struct Handoff {
    state: &'static AtomicU64,
    number: &'static AtomicU32,
    layout: Layout,
}

const ONE_USER: u64 = 1;
const ONE_GRANT: u64 = 1 << 32;

/// Which fork this process comes from, counted from the program on; modulo 4 in a semaphore: four
/// forks deep, one that nobody touched since its waiters came is taken for one of this process.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    // Relaxed: a child has one thread.
    GENERATION.fetch_add(1, Relaxed);
}

/// Has forks counted, each once: a state has room for few generations.
fn count_forks() {
    static COUNTS: AtomicBool = AtomicBool::new(false);
    // Relaxed: done before the program has threads.
    if !COUNTS.swap(true, Relaxed) {
        real::in_children(forked);
    }
}

/// Where the bits of a state are.
#[derive(Clone, Copy)]
struct Layout {
    /// The lowest bit of the generation, which goes up to the highest of the state.
    generation: u32,
    /// What of a state of the parent holds in its child.
    left: fn(u64) -> u64,
}

const OF_MUTEX: Layout = Layout {
    generation: 48,
    // Granted to a waiter: free, since there is none. Else somebody owns it, or nobody does.
    left: |state| if state >= ONE_GRANT { 0 } else { (state as u32).min(1).into() },
};

const OF_SEMAPHORE: Layout =
    // Units that waiters did not come for are free.
    Layout { generation: 62, left: |state| (state & u64::from(u32::MAX)) + granted(state) };

impl Layout {
    fn now(self) -> u64 {
        u64::from(GENERATION.load(Relaxed)) << self.generation
    }

    /// The state without its generation, as it holds in this process.
    fn read(self, state: u64) -> u64 {
        let plain = state & ((1 << self.generation) - 1);
        if state - plain == self.now() { plain } else { (self.left)(plain) }
    }
}

impl Handoff {
    /// With its number in word `place` of `object`.
    fn of(object: usize, place: usize, layout: Layout) -> Self {
        // SAFETY: the first eight bytes of a mutex or a semaphore, aligned to eight.
        let state = unsafe { AtomicU64::from_ptr(object as *mut u64) };
        Self { state, number: &own::words(object)[place], layout }
    }

    fn of_mutex(mutex: usize) -> Self {
        Self::of(mutex, MUTEX_NUMBER, OF_MUTEX)
    }

    fn of_semaphore(semaphore: usize) -> Self {
        Self::of(semaphore, SEM_NUMBER, OF_SEMAPHORE)
    }

    /// Changes the state, which is given and taken without its generation; what it was.
    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let layout = self.layout;
        let change = |state| change(layout.read(state)).map(|state| state | layout.now());
        // Acquire and release: this is taking and giving up the lock.
        self.state.fetch_update(AcqRel, Relaxed, change).ok().map(|state| layout.read(state))
    }

    /// Sleeps with `sleep` until `take` finds a grant; this thread is among the waiters since it
    /// read `number`. When a sleep `ends` the wait, `leave` takes it from there. How it ended:
    /// woken, and it has the grant.
    fn wait(
        &self,
        mut number: u32,
        sleep: impl Fn(u32) -> Slept,
        ends: impl Fn(Slept) -> bool,
        take: impl Fn(u64) -> Option<u64>,
        leave: impl Fn(u64) -> u64,
    ) -> Slept {
        loop {
            let slept = sleep(number);
            // Acquire: before the look, so that a grant after it ends the next sleep.
            number = self.number.load(Acquire);
            if self.change(&take).is_some() {
                return Slept::Woken;
            }
            if ends(slept) {
                // A grant that comes at the last moment is taken.
                let before = self.change(|state| take(state).or_else(|| Some(leave(state))));
                let took = before.is_some_and(|state| take(state).is_some());
                return if took { Slept::Woken } else { slept };
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
        if deadline.is_some() && self.try_lock() {
            return 0;
        }
        if let Some(error) = deadline.and_then(Deadline::error) {
            return error;
        }
        // Acquire: before this thread is seen to wait, so that no grant for it is missed.
        let number = self.number.load(Acquire);
        if self.change(|state| Some(state + ONE_USER)) == Some(0) {
            return 0;
        }
        let take = |state: u64| (state >= ONE_GRANT).then(|| state - ONE_GRANT);
        let sleep = |number| native::sleep(self.number, number, deadline);
        let slept =
            self.wait(number, sleep, |slept| slept == Slept::Late, take, |state| state - ONE_USER);
        if slept == Slept::Woken { 0 } else { ETIMEDOUT }
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

pub(crate) extern "C" fn lock(mutex: usize) -> c_int {
    if own::is_ours(mutex) {
        Handoff::of_mutex(mutex).lock(None)
    } else {
        real::MUTEX_LOCK.libc([mutex, 0, 0, 0])
    }
}

pub(crate) extern "C" fn trylock(mutex: usize) -> c_int {
    match own::is_ours(mutex) {
        true if Handoff::of_mutex(mutex).try_lock() => 0,
        true => EBUSY,
        false => real::MUTEX_TRYLOCK.libc([mutex, 0, 0, 0]),
    }
}

pub(crate) extern "C" fn timedlock(mutex: usize, time: usize) -> c_int {
    if own::is_ours(mutex) {
        return Handoff::of_mutex(mutex).lock(Some(Deadline { time, is_realtime: true }));
    }
    real::MUTEX_TIMEDLOCK.libc([mutex, time, 0, 0])
}

pub(crate) extern "C" fn clocklock(mutex: usize, clock: usize, time: usize) -> c_int {
    if own::is_ours(mutex) {
        return match Deadline::by(clock, time) {
            Ok(end) => Handoff::of_mutex(mutex).lock(Some(end)),
            Err(error) => error,
        };
    }
    real::MUTEX_CLOCKLOCK.libc([mutex, clock, time, 0])
}

pub(crate) extern "C" fn unlock(mutex: usize) -> c_int {
    if !own::is_ours(mutex) {
        return real::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]);
    }
    own::forget_owner(mutex);
    Handoff::of_mutex(mutex).unlock();
    0
}

// A semaphore that hands over. Its first word is the value, as in glibc, so that `sem_getvalue`
// works; the second has waiters in its low and grants in its high half.

const ONE_WAITER: u64 = 1 << 32;
const ONE_UNIT: u64 = 1 << 47;

fn waiters(state: u64) -> u64 {
    state >> 32 & 0x7fff
}

fn granted(state: u64) -> u64 {
    state >> 47 & 0x7fff
}

fn is_shared(semaphore: usize) -> bool {
    own::words(semaphore)[SEM_SHARED].load(Relaxed) != 0
}

extern "C" fn sem_trywait(semaphore: usize) -> c_int {
    if is_shared(semaphore) {
        return real::SEM_TRYWAIT.libc([semaphore, 0, 0, 0]);
    }
    let free = |state: u64| state as u32 > 0 && waiters(state) == 0;
    if Handoff::of_semaphore(semaphore).change(|state| free(state).then(|| state - 1)).is_some() {
        return 0;
    }
    failed(EAGAIN)
}

extern "C" fn sem_wait(semaphore: usize) -> c_int {
    sem_until(semaphore, None, || real::SEM_WAIT.libc([semaphore, 0, 0, 0]))
}

extern "C" fn sem_timedwait(semaphore: usize, time: usize) -> c_int {
    let end = Deadline { time, is_realtime: true };
    sem_until(semaphore, Some(end), || real::SEM_TIMEDWAIT.libc([semaphore, time, 0, 0]))
}

extern "C" fn sem_clockwait(semaphore: usize, clock: usize, time: usize) -> c_int {
    match Deadline::by(clock, time) {
        Ok(end) => sem_until(semaphore, Some(end), || {
            real::SEM_CLOCKWAIT.libc([semaphore, clock, time, 0])
        }),
        Err(error) => failed(error),
    }
}

/// What a function of semaphores gives with this `errno`.
fn failed(error: c_int) -> c_int {
    real::set_errno(error);
    -1
}

/// Takes the unit that a waiter was granted.
fn take_unit(state: u64) -> Option<u64> {
    (granted(state) > 0).then(|| state - ONE_UNIT - ONE_WAITER)
}

fn sem_until(semaphore: usize, deadline: Option<Deadline>, libc: impl Fn() -> c_int) -> c_int {
    if is_shared(semaphore) {
        return libc();
    }
    // Whether it waits or not, a thread that is to end does so here.
    real::TESTCANCEL.call([0; 4]);
    if let Some(error) = deadline.and_then(Deadline::error) {
        return failed(error);
    }
    let lock = Handoff::of_semaphore(semaphore);
    // Acquire: as for a mutex.
    let number = lock.number.load(Acquire);
    let free = |state: u64| state as u32 > 0 && waiters(state) == 0;
    let before = lock.change(|s| Some(if free(s) { s - 1 } else { s + ONE_WAITER }));
    if before.is_some_and(free) {
        return 0;
    }
    let sleep = |number| {
        native::cancellable(abandon, semaphore, || native::sleep(lock.number, number, deadline))
    };
    let ends = |slept| slept != Slept::Woken;
    match lock.wait(number, sleep, ends, take_unit, |state| state - ONE_WAITER) {
        Slept::Woken => 0,
        Slept::Interrupted => failed(EINTR),
        Slept::Late => failed(ETIMEDOUT),
    }
}

/// A thread that waits is cancelled: it leaves, and a unit that it was granted is another one's.
extern "C" fn abandon(semaphore: *mut c_void) {
    let semaphore = semaphore as usize;
    let leave = |state| take_unit(state).or(Some(state - ONE_WAITER));
    let before = Handoff::of_semaphore(semaphore).change(leave);
    if before.is_some_and(|state| granted(state) > 0) {
        sem_post(semaphore);
    }
}

extern "C" fn sem_post(semaphore: usize) -> c_int {
    if is_shared(semaphore) {
        return real::SEM_POST.libc([semaphore, 0, 0, 0]);
    }
    let lock = Handoff::of_semaphore(semaphore);
    let waits = |state: u64| waiters(state) > granted(state);
    let post = |state: u64| match waits(state) {
        true => Some(state + ONE_UNIT),
        false if state as u32 == SEM_VALUE_MAX => None,
        false => Some(state + 1),
    };
    match lock.change(post) {
        Some(before) if waits(before) => lock.wake(),
        Some(_) => {}
        None => return failed(EOVERFLOW),
    }
    0
}

/// Whether all mutexes, and all semaphores, hand over.
static HAND_OVER: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Whether all locks of this kind hand over.
pub(crate) fn hands_over(is_semaphore: bool) -> bool {
    // Relaxed: set before the program has threads.
    HAND_OVER[usize::from(is_semaphore)].load(Relaxed)
}

/// What mutexes that hand over need beside them, whichever these are.
pub(crate) fn prepare() {
    count_forks();
    conditions::install();
}

/// Puts them in place of libc's mutexes.
pub(crate) fn install() {
    prepare();
    HAND_OVER[0].store(true, Relaxed);
    let timed = [two(timedlock), three(clocklock)];
    own::replace_mutexes([one(lock), one(trylock), one(trylock), one(unlock)], timed);
}

/// Puts them in place of libc's semaphores.
pub(crate) fn install_semaphores() {
    count_forks();
    HAND_OVER[1].store(true, Relaxed);
    real::SEM_WAIT.replace(one(sem_wait));
    real::SEM_TRYWAIT.replace(one(sem_trywait));
    real::SEM_TIMEDWAIT.replace(two(sem_timedwait));
    real::SEM_CLOCKWAIT.replace(three(sem_clockwait));
    real::SEM_POST.replace(one(sem_post));
}
