//! Calls of futex(2) through libc's `syscall`: Rust's standard library, `parking_lot` and folly
//! wait this way, for locks without functions in libc. The call stack identifies the waiting code;
//! the owner of such a lock is known once it wakes the waiting thread.

use crate::arch::{self, number, ticks};
use crate::file::map::{self, add, get};
use crate::interpose::libc;
use crate::layout::{BROADCAST, FUTEX};
use crate::sites::stack;
use crate::threads::thread::Thread;
use crate::waits::causes::Cause;
use crate::waits::deferred::{settle, waited};
use crate::waits::waiters::Waiters;
use crate::waits::wakers;

/// Operations of futex(2), without their flags: those that wait, and those that wake.
const WAITS: [usize; 4] = [0, 6, 9, 13];
const WAKES: [usize; 6] = [1, 3, 4, 5, 7, 10];
/// The flags of a private word and of the realtime clock.
const FLAGS: usize = 128 | 256;
/// Value of a three-state lock word that has waiters.
const CONTENDED: usize = 2;
/// Values with which a thread waits on a word that only it waits on: of `parking_lot`, and of
/// `std::thread::park`.
const PARKED: [u32; 2] = [1, u32::MAX];
const EAGAIN: i32 = 11;

/// The parameters of `syscall`.
type Arguments = [usize; 7];

/// Called instead of `syscall` for futex(2). The first argument is the return address of the call,
/// which replaces the number of futex(2); the others are where the program has put them.
pub(crate) extern "C" fn called(
    site: usize,
    word: usize,
    operation: usize,
    value: usize,
    time: usize,
    other: usize,
    last: usize,
) -> isize {
    let arguments = [number::FUTEX as usize, word, operation, value, time, other, last];
    let is = |all: &[usize]| all.contains(&(operation as u32 as usize & !FLAGS));
    if is(&WAITS) {
        wait(&arguments, site)
    } else if is(&WAKES) {
        wake(&arguments, site)
    } else {
        libc::syscall(&arguments)
    }
}

/// Waits. A call that finds another value than the expected one has not waited.
#[inline(never)]
fn wait(arguments: &Arguments, site: usize) -> isize {
    let Some(thread) = Thread::current() else { return libc::syscall(arguments) };
    let word = arguments[1];
    settle(thread);
    // The thread has released the lock for which it was woken before, or has not acquired it.
    let _hold = thread.take(word);
    thread.forget();
    let place = stack::context(site, core::ptr::from_ref(&site)).unwrap_or(site);
    let waiters = Waiters::of(word);
    let is_parked = waiters.is_some_and(|all| {
        all.went_on(thread.id());
        all.is_own_of(thread.id()) && PARKED.contains(&(arguments[3] as u32))
    });
    let asked = ticks();
    let is_futile = thread.did_little(place, asked);
    waiters.inspect(|all| all.enter(asked));
    thread.shows(FUTEX, word, place, 0, asked);
    thread.sleeps();
    let result = libc::syscall(arguments);
    Thread::wakes();
    let got = ticks();
    thread.shows_nothing();
    waiters.inspect(|all| all.leave(got));
    let error = if result < 0 { libc::errno() } else { 0 };
    if error == EAGAIN {
        return result;
    }
    let key = thread.count(FUTEX, word, place);
    let detail = if place == site { thread.detail_of_wait(key) } else { thread.detail(key) };
    let (Some(key), Some(detail)) = (key, detail) else { return result };
    let for_lock = !is_parked && arguments[3] == CONTENDED;
    waited(thread, detail, [asked, got], 1, for_lock);
    let counts = detail.counts();
    add(if error == 0 { &counts.contended } else { &counts.failed }, 1);
    if is_futile {
        add(&counts.futile, 1);
        add(&counts.returned, 1);
    }
    thread.waited_at(place, [asked, got], Some(detail).filter(|_| error == 0));
    let lock = if is_parked { 0 } else { word };
    let blamed = wakers::blamed(word, place, [asked, got]).filter(|_| error == 0);
    Cause::of_wake(thread, lock, place, detail.index(), [asked, got], blamed);
    if error == 0 && !is_parked {
        waiters.inspect(|all| all.took(thread.id()));
        thread.hold(word, thread.pack(key, detail), 1);
    }
    result
}

/// Wakes. The owner of a lock calls this when it releases the lock.
#[inline(never)]
fn wake(arguments: &Arguments, site: usize) -> isize {
    let word = arguments[1];
    // Words without waiters need no thread.
    let known = Waiters::known(word).and_then(|all| Some((all, Thread::current()?)));
    let Some((all, thread)) = known else { return libc::syscall(arguments) };
    let now = ticks();
    let hold = thread.take(word);
    let kept = hold.as_ref().is_some_and(|hold| thread.kept(hold));
    let has_waited = get(&arch::local().waited_on) == word as u64;
    // The place where the thread waited for the lock says more than the place of the release.
    let place = match &hold {
        Some(_) if has_waited => get(&arch::local().waited_at) as usize,
        _ => stack::context(site, core::ptr::from_ref(&site)).unwrap_or(site),
    };
    wakers::wakes(word, place, now);
    // An owner that reacquired the lock before the woken threads did has waited for it at some
    // time.
    let had_it = all.gives(thread.id()) || hold.is_some() || has_waited;
    map::file().inspect(|file| thread.passes_on(file, all, 1));
    let result = libc::syscall(arguments);
    all.gave(had_it);
    let wakes_all = arguments[3] as u32 > 1 && result > 0;
    if wakes_all && let Some(at) = stack::context(site, core::ptr::from_ref(&site)) {
        let detail = thread.detail(thread.count(BROADCAST, word, at));
        detail.inspect(|detail| add(&detail.counts().contended, result as u64));
    }
    if let Some(hold) = &hold {
        thread.held(hold, kept, now);
    }
    settle(thread);
    result
}
