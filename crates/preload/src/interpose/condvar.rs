//! Recording before and after calls of condition variables.

use core::ffi::c_int;

use crate::arch::ticks;
use crate::file::map::{self, add};
use crate::interpose::libc::Real;
use crate::interpose::locks::hold;
use crate::layout::{CONDITION, MUTEX, SIGNAL, STEP_FAILED, STEP_WAIT};
use crate::sites::stack;
use crate::threads::detail::Detail;
use crate::threads::lines::Key;
use crate::threads::thread::{Hold, Monitor, Stage, Thread};
use crate::waits::deferred::{settle, waited};
use crate::waits::waiters::Waiters;

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
    let before = thread.end_monitor(condition);
    // C++ condition variables for any lock acquire an internal mutex each time.
    let has_left = before.is_none_or(|monitor| monitor.stage != Stage::Waited);
    detail.inspect(|detail| thread.returns(*detail, place, asked, has_left));
    waiters.inspect(|all| {
        all.gives_up(mutex);
        all.went_on(thread.id());
        all.enter(asked);
    });
    thread.shows(CONDITION, condition, site, detail.map_or(0, Detail::index), asked);
    let result = Waiters::until(waiters, || block.call(arguments));
    let got = ticks();
    thread.shows_nothing();
    waiters.inspect(|all| {
        all.leave(got);
        all.took(thread.id());
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
        thread.begin_monitor(condition, mutex, thread.pack(wait, detail), got);
    }
    if let Some(key) = key {
        hold(thread, key, mutex, 1);
    }
    result
}

/// Wakes one or all waiters of a condition variable.
pub(crate) fn signal(wake: &Real, step: u64, condition: usize, site: usize) -> c_int {
    let thread = Thread::current();
    let key = thread.and_then(|thread| thread.count(SIGNAL, condition, site));
    if let Some(thread) = thread
        && let Some(all) = Waiters::known(condition)
    {
        map::file().inspect(|file| thread.passes_on(file, all));
        releases(thread, condition, all);
        if let Some(key) = key {
            begins(thread, key, condition, all);
        }
    }
    let Some(thread) = thread.filter(|thread| thread.traces()) else {
        return wake.call([condition, 0, 0, 0]);
    };
    let begin = thread.begin_step();
    let result = wake.call([condition, 0, 0, 0]);
    thread.step_at(step, key, begin, ticks());
    result
}

/// Begins to watch a thread that signals a condition and has not waited for any: it may take units
/// of a pool again and again before the woken threads run. A thread that only signals enters the
/// mutex of the condition once for each signal.
fn begins(thread: Thread, key: Key, condition: usize, waiters: Waiters) {
    let mutex = waiters.mutex();
    if mutex != 0
        && !thread.has_monitor()
        && let Some(detail) = thread.detail(Some(key))
    {
        let hold = Hold::of(thread.pack(key, detail));
        thread.signalled(condition, &Monitor { stage: Stage::Signalled, hold, mutex });
    }
}

/// Counts a signal as a release, if the waiters of the condition wait for one. If the last thread
/// that was woken signals, and has reacquired the mutex since, the condition is part of a lock.
/// A thread that has entered the critical section twice since its last signal has taken a unit of
/// a pool and returns it.
fn releases(thread: Thread, condition: usize, waiters: Waiters) {
    let Some(monitor) = thread.end_monitor(condition) else { return waiters.passed(thread.id()) };
    match monitor.stage {
        Stage::Waited => return waiters.told(),
        Stage::Returned => waiters.gave(waiters.gives(thread.id())),
        Stage::Reentered if waiters.gives(thread.id()) => {}
        Stage::Signalled | Stage::Entered | Stage::Reentered => waiters.passed(thread.id()),
    }
    if matches!(monitor.stage, Stage::Returned | Stage::Reentered) {
        thread.held(&monitor.hold, thread.kept(&monitor.hold), ticks());
    }
    thread.signalled(condition, &monitor);
}
