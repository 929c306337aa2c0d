//! Recording before and after calls of condition variables.

use core::ffi::c_int;

use crate::arch::{ticks, ticks_after};
use crate::file::map::{self, add};
use crate::interpose::libc::Real;
use crate::layout::{CONDITION, MUTEX, SEMAPHORE, SIGNAL, STEP_FAILED, STEP_WAIT};
use crate::sites::{python, stack};
use crate::threads::detail::Detail;
use crate::threads::lines::{FREQUENT, Key};
use crate::threads::thread::{Hold, Monitor, Stage, Thread};
use crate::waits::deferred::{settle, waited};
use crate::waits::waiters::{Waiters, hold};

/// Waits on a condition variable, which releases the mutex and reacquires it.
pub(crate) fn condition(block: &Real, arguments: [usize; 4], site: usize) -> c_int {
    let Some(thread) = Thread::current() else { return block.call(arguments) };
    let [condition, mutex, ..] = arguments;
    let asked = if thread.traces() { thread.begin_step() } else { ticks() };
    settle(thread);
    if let Some(hold) = thread.take(mutex) {
        thread.held(&hold, thread.kept(&hold), asked);
        if let Some(all) = Waiters::known(mutex) {
            all.release(asked, &hold);
        }
    }
    thread.forget();
    let waiters = Waiters::of(condition);
    let is_own = waiters.is_some_and(|all| all.is_own_of(thread.id()));
    let stack = if is_own { stack::context(site, core::ptr::from_ref(&condition)) } else { None };
    let place = stack.unwrap_or(site);
    let wait = thread.count(CONDITION, condition, place);
    let detail = if stack.is_none() { thread.detail_of_wait(wait) } else { thread.detail(wait) };
    let key = thread.count(MUTEX, mutex, site);
    thread.takes(MUTEX, mutex, key);
    let at = At { kind: MUTEX, condition, mutex, place, site, wait, detail };
    let result = wait_at(thread, &at, asked, || block.call(arguments));
    if let Some(key) = key {
        hold(thread, key, mutex, 1);
    }
    result
}

/// A wait for a condition.
struct At {
    /// Kind of the mutex.
    kind: u64,
    condition: usize,
    mutex: usize,
    /// The call site, or the call stack of a condition that only one thread waits for.
    place: usize,
    site: usize,
    /// Key and detail of the wait.
    wait: Option<Key>,
    detail: Option<Detail>,
}

/// Waits with `block` for a condition whose mutex has been released.
fn wait_at(thread: Thread, at: &At, asked: u64, block: impl FnOnce() -> c_int) -> c_int {
    let At { kind, condition, mutex, place, site, wait, detail } = *at;
    let waiters = Waiters::of(condition);
    let before = thread.end_monitor(kind, condition);
    // C++ condition variables for any lock acquire an internal mutex each time.
    let has_left = before.is_none_or(|monitor| monitor.stage != Stage::Waited);
    detail.inspect(|detail| thread.returns(*detail, place, asked, has_left));
    waiters.inspect(|all| {
        all.gives_up(mutex);
        all.went_on(thread.id());
        all.enter(asked);
    });
    thread.shows(CONDITION, condition, site, detail.map_or(0, Detail::index), asked);
    thread.sleeps();
    let result = Waiters::until(waiters, block);
    Thread::wakes();
    detail.inspect(|detail| thread.fetch_waits(*detail));
    let got = ticks_after();
    thread.shows_nothing();
    waiters.inspect(|all| {
        all.leave(got);
        all.woke(thread.id());
    });
    thread.waited_at(place, [asked, got], detail.filter(|_| result == 0));
    if let Some(detail) = detail {
        waited(thread, detail, [asked, got], 1, false);
        if result != 0 {
            add(&detail.counts().failed, 1);
        }
    }
    let failed = if result == 0 { 0 } else { STEP_FAILED };
    thread.step_at(STEP_WAIT | failed, wait, asked, got);
    if let (Some(wait), Some(detail)) = (wait, detail) {
        thread.begin_monitor(kind, [condition, mutex], thread.pack(wait, detail), got);
    }
    result
}

/// Offset of a condition whose waiters each have a semaphore from its mutex: it has no address of
/// its own that a thread which waits or signals could know.
const OF_MUTEX: usize = 4;

/// Waits with `block` on a semaphore of the thread, after it has released the mutex of a condition.
#[cold]
pub(crate) fn own_semaphore(
    thread: Thread,
    block: impl FnOnce() -> c_int,
    semaphore: usize,
    mutex: usize,
    site: usize,
) -> c_int {
    let asked = if thread.traces() { thread.begin_step() } else { ticks() };
    settle(thread);
    thread.forget();
    Waiters::of(semaphore).inspect(|own| own.gives_up(mutex));
    let condition = mutex + OF_MUTEX;
    let wait = thread.count(CONDITION, condition, site);
    let detail = thread.detail_of_wait(wait);
    let kind = SEMAPHORE;
    let at = At { kind, condition, mutex, place: site, site, wait, detail };
    wait_at(thread, &at, asked, block)
}

/// Notes that the thread wakes another one that waits on such a semaphore, by a call from `site`.
#[cold]
pub(crate) fn posts_own_semaphore(thread: Thread, mutex: u64, site: usize) {
    let condition = mutex as usize + OF_MUTEX;
    let key = thread.count(SIGNAL, condition, python::place(site));
    tells(thread, SEMAPHORE, key, condition);
}

/// Wakes one or all waiters of a condition variable.
pub(crate) fn signal(wake: &Real, step: u64, condition: usize, site: usize) -> c_int {
    let thread = Thread::current();
    let key = thread.and_then(|thread| thread.count(SIGNAL, condition, site));
    thread.inspect(|thread| tells(*thread, MUTEX, key, condition));
    let Some(thread) = thread.filter(|thread| thread.traces()) else {
        return wake.call([condition, 0, 0, 0]);
    };
    let begin = thread.begin_step();
    let result = wake.call([condition, 0, 0, 0]);
    thread.step_at(step, key, begin, ticks());
    result
}

/// Notes that the thread is about to wake waiters of a condition whose mutex is of this kind. If
/// the thread signals often and does nothing else with the condition, most signals read no memory
/// that other threads write: a signal is part of a critical section.
#[inline(always)]
fn tells(thread: Thread, kind: u64, key: Option<Key>, condition: usize) {
    let weight = key.map_or(1, Key::weight);
    if weight != 0 || thread.watches(kind, condition) {
        represents(thread, kind, key, condition, weight);
    }
}

/// Records a signal that represents `weight` signals.
#[inline(never)]
fn represents(thread: Thread, kind: u64, key: Option<Key>, condition: usize, weight: u64) {
    let Some(all) = Waiters::known(condition) else { return };
    if weight != 0 {
        map::file().inspect(|file| thread.passes_on(file, all, weight));
    }
    releases(thread, kind, key, condition, all, weight);
    if let Some(key) = key {
        begins(thread, kind, key, condition, all);
    }
}

/// Returns whether a thread is watched that signals and has not waited nor returned a unit since
/// its last signal: if it signals often, a few times in a row are enough. A thread that only
/// signals, such as the producer of a queue, enters the mutex of the condition once for each
/// signal.
fn is_watched(key: Key) -> bool {
    const IN_A_ROW: u32 = 4;
    key.calls() < FREQUENT || key.calls() % FREQUENT <= IN_A_ROW
}

/// Begins to watch a thread that signals a condition and has not waited for any: it may take units
/// of a pool again and again before the woken threads run.
fn begins(thread: Thread, kind: u64, key: Key, condition: usize, waiters: Waiters) {
    if !is_watched(key) || thread.has_monitor(kind) {
        return;
    }
    let mutex = waiters.mutex();
    if mutex != 0
        && let Some(detail) = thread.detail(Some(key))
    {
        let hold = Hold::of(thread.pack(key, detail));
        let stage = Stage::Signalled;
        thread.signalled(kind, [condition, mutex as usize], &Monitor { stage, hold });
    }
}

/// Counts a signal as a release, if the waiters of the condition wait for one. If the last thread
/// that was woken signals, and has reacquired the mutex since, the condition is part of a lock.
/// A thread that has entered the critical section twice since its last signal has taken a unit of
/// a pool and returns it.
fn releases(
    thread: Thread,
    kind: u64,
    key: Option<Key>,
    condition: usize,
    waiters: Waiters,
    weight: u64,
) {
    let Some(monitor) = thread.end_monitor(kind, condition) else {
        return waiters.passed(thread.id(), weight);
    };
    let is_returned = matches!(monitor.stage, Stage::Returned | Stage::Reentered);
    match monitor.stage {
        Stage::Waited | Stage::Woken => return waiters.told(),
        Stage::Returned => waiters.gave(waiters.gives(thread.id())),
        Stage::Reentered if waiters.gives(thread.id()) => {}
        Stage::Reentered => waiters.passed(thread.id(), 1),
        Stage::Signalled | Stage::Entered => waiters.passed(thread.id(), weight),
    }
    if is_returned {
        thread.held(&monitor.hold, thread.kept(&monitor.hold), ticks());
    }
    if is_returned || key.is_none_or(is_watched) {
        thread.signalled(kind, [condition, waiters.mutex() as usize], &monitor);
    }
}
