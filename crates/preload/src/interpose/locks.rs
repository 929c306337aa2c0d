//! Recording before and after calls of libc's functions.

use core::ffi::c_int;

use crate::arch::{self, ticks, ticks_after};
use crate::file::map::{add, get, set};
use crate::file::process;
use crate::interpose::condvar;
use crate::interpose::libc::Real;
use crate::interpose::robust;
use crate::layout::{KIND_SHIFT, READ, SEMAPHORE, STEP_FAILED, STEP_LOCK, STEP_UNLOCK, YIELD};
use crate::policy::handoff;
use crate::threads::detail::{Detail, record};
use crate::threads::lines::Key;
use crate::threads::thread::{Thread, Turn};
use crate::waits::causes::{self, Cause};
use crate::waits::deferred::{settle, waited};
use crate::waits::sampling::WEIGHT_BITS;
use crate::waits::waiters::{Waiters, hold};

/// The owner of a robust mutex died; the caller has acquired it.
const EOWNERDEAD: c_int = 130;

/// How a kind of lock is acquired.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) kind: u64,
    /// Acquires the lock if it is free.
    pub(crate) attempt: &'static Real,
    /// Result of the attempt if the lock is not free.
    pub(crate) busy: c_int,
}

fn is_owned(result: c_int) -> bool {
    result == 0 || result == EOWNERDEAD
}

/// Acquires a mutex that is free in a process with one thread, where it needs no attempt that shows
/// whether it must wait. Nearly every acquisition ends in a call that needs no stack, so that it
/// costs little more than libc's function, which uses no atomic instruction there.
#[inline(always)]
pub(crate) fn take_alone(
    how: &'static How,
    block: &'static Real,
    lock: usize,
    site: usize,
) -> c_int {
    let is_counted = Thread::known().is_some_and(|thread| {
        // No other thread exists that could ask who owns the lock.
        !thread.is_monitor(how.kind, lock)
            && (process::only_contended() || thread.counts_plainly(how.kind, lock, site))
    });
    if is_counted { block.call([lock, 0, 0, 0]) } else { count_alone(how, block, lock, site) }
}

/// The same if something else is due, or the key is not where it is looked up first.
#[inline(never)]
fn count_alone(how: &How, block: &Real, lock: usize, site: usize) -> c_int {
    let Some(thread) = Thread::known().filter(|_| !process::only_contended()) else {
        return acquire_one(how, block, lock, site);
    };
    let (key, is_turn) = (thread.count(how.kind, lock, site), thread.is_turn());
    let is_plain = key.is_some_and(|key| !key.is_due) && !is_turn && !thread.was_timed();
    if is_plain && !thread.is_monitor(how.kind, lock) {
        return block.call([lock, 0, 0, 0]);
    }
    go_on(how, thread, || block.call([lock, 0, 0, 0]), lock, site, key, is_turn)
}

/// Acquires a lock with `block`, after an attempt that shows whether it must wait. This is the
/// short path of nearly every acquisition; everything else that may be due is out of line.
#[inline(always)]
pub(crate) fn take(how: &'static How, block: &'static Real, lock: usize, site: usize) -> c_int {
    let Some(thread) = Thread::known().filter(|_| !process::only_contended()) else {
        return acquire_one(how, block, lock, site);
    };
    let key = thread.count(how.kind, lock, site);
    let is_turn = thread.is_turn();
    let is_plain = key.is_some_and(|key| !key.is_due)
        && !is_turn
        && !thread.was_timed()
        && !thread.is_monitor(how.kind, lock);
    if !is_plain {
        return go_on_one(how, block, lock, site, key, is_turn);
    }
    let result = how.attempt.call([lock, 0, 0, 0]);
    if result == 0 && how.kind != SEMAPHORE {
        thread.takes(how.kind, lock, key);
        return 0;
    }
    tried(how, block, lock, site, key, result)
}

// Arguments that are passed in memory are stored out of line, too.

#[cold]
#[inline(never)]
fn acquire_one(how: &How, block: &Real, lock: usize, site: usize) -> c_int {
    acquire(how, block, &[lock, 0, 0, 0], site)
}

#[cold]
#[inline(never)]
fn go_on_one(
    how: &How,
    block: &Real,
    lock: usize,
    site: usize,
    key: Option<Key>,
    is_turn: bool,
) -> c_int {
    let block = || block.call([lock, 0, 0, 0]);
    let Some(thread) = Thread::known() else { return block() };
    go_on(how, thread, block, lock, site, key, is_turn)
}

/// Notes that the thread has acquired a lock that may be the mutex of a condition.
#[inline(always)]
fn enters(how: &How, thread: Thread, lock: usize) {
    let is_monitor = thread.is_monitor(how.kind, lock);
    let condition = if is_monitor { thread.enters_monitor(how.kind) } else { None };
    let waiters = condition.and_then(Waiters::known);
    waiters.inspect(|waiters| waiters.took_free(thread.id()));
}

/// Acquires a lock on the long path.
#[inline(never)]
pub(crate) fn acquire(how: &How, block: &Real, arguments: &[usize; 4], site: usize) -> c_int {
    if process::is_brief()
        && let Some(result) = take_briefly(how, arguments[0], site)
    {
        return result;
    }
    let Some(thread) = Thread::acquiring() else { return block.call(*arguments) };
    if process::only_contended() {
        return contend(how, thread, block, arguments, site);
    }
    let lock = arguments[0];
    let key = thread.count(how.kind, lock, site);
    go_on(how, thread, || block.call(*arguments), lock, site, key, thread.is_turn())
}

/// Acquires a lock in a forked process without a file, if it is free.
#[cold]
#[inline(never)]
fn take_briefly(how: &How, lock: usize, site: usize) -> Option<c_int> {
    let result = how.attempt.call([lock, 0, 0, 0]);
    if result == how.busy {
        return None;
    }
    robust::settle(lock, result);
    if is_owned(result)
        && !process::count_brief()
        && let Some(thread) = Thread::acquiring()
    {
        let key = thread.count(how.kind, lock, site);
        thread.takes(how.kind, lock, key);
    }
    Some(result)
}

/// Acquires a lock whose acquisition has been counted.
#[inline(always)]
fn go_on(
    how: &How,
    thread: Thread,
    block: impl Fn() -> c_int,
    lock: usize,
    site: usize,
    key: Option<Key>,
    is_turn: bool,
) -> c_int {
    let turn = if is_turn { thread.draw() } else { Turn::NOTHING };
    let asked = if turn.is_traced { thread.begin_step() } else { 0 };
    if thread.was_timed() {
        think(thread, key);
    }
    enters(how, thread, lock);
    let is_sampled = turn.weight != 0;
    if is_sampled && how.kind == READ {
        learn(thread, key);
    }
    let requested = if is_sampled { ticks() } else { 0 };
    let result = how.attempt.call([lock, 0, 0, 0]);
    if result == how.busy {
        return wait_or_pass(how, thread, key, block, lock, site);
    }
    robust::settle(lock, result);
    thread.takes(how.kind, lock, key);
    if is_sampled && is_owned(result) {
        acquired(thread, key, ticks().saturating_sub(requested), turn.weight);
    }
    if turn.is_traced && is_owned(result) {
        thread.step_at(STEP_LOCK, key, asked, ticks_after());
    }
    begin(how, thread, key, lock, turn.weight, result);
    result
}

/// Continues after an attempt that did not return 0, or after one on a semaphore.
#[cold]
#[inline(never)]
fn tried(
    how: &How,
    block: &Real,
    lock: usize,
    site: usize,
    key: Option<Key>,
    result: c_int,
) -> c_int {
    robust::settle(lock, result);
    let Some(thread) = Thread::known() else { return result };
    if result == how.busy {
        return wait_or_pass(how, thread, key, || block.call([lock, 0, 0, 0]), lock, site);
    }
    thread.takes(how.kind, lock, key);
    begin(how, thread, key, lock, 0, result);
    result
}

/// Acquires a lock, and records the acquisition only if it must wait.
#[inline]
fn contend(how: &How, thread: Thread, block: &Real, arguments: &[usize; 4], site: usize) -> c_int {
    let lock = arguments[0];
    enters(how, thread, lock);
    let result = how.attempt.call([lock, 0, 0, 0]);
    if result != how.busy {
        robust::settle(lock, result);
        if how.kind == SEMAPHORE && result == 0 {
            took(thread, lock);
        }
        return result;
    }
    let key = thread.count(how.kind, lock, site);
    wait_or_pass(how, thread, key, || block.call(*arguments), lock, site)
}

/// Waits for a lock, and records the wait if it is one of those that represent all.
#[inline(always)]
fn wait_or_pass(
    how: &How,
    thread: Thread,
    key: Option<Key>,
    block: impl Fn() -> c_int,
    lock: usize,
    site: usize,
) -> c_int {
    let asked = ticks();
    match thread.represents(how.kind, key, asked) {
        Some(weight) => wait(how, thread, key, block, lock, site, weight),
        None => pass(how, thread, key, block, lock, site, asked),
    }
}

/// Waits for a mutex without a record of the wait, unless it is long or fails. The sampler sees it.
#[inline(always)]
fn pass(
    how: &How,
    thread: Thread,
    key: Option<Key>,
    block: impl Fn() -> c_int,
    lock: usize,
    site: usize,
    asked: u64,
) -> c_int {
    let waiters = Waiters::of(lock);
    waiters.inspect(|all| all.enter(asked));
    thread.shows(how.kind, lock, site, 0, asked);
    let owner = causes::owner_of(lock);
    set(&thread.state().wait.owner, owner.into());
    let result = block();
    let got = ticks();
    thread.shows_nothing();
    waiters.inspect(|all| {
        all.leave(got);
        all.passes();
    });
    thread.was_away([asked, got]);
    if result != 0 || Thread::is_long(got.saturating_sub(asked)) {
        return pass_not(how, thread, key, (lock, site), (owner, [asked, got], result));
    }
    thread.takes(how.kind, lock, key);
    result
}

/// Records such a wait that was long or failed.
#[cold]
#[inline(never)]
fn pass_not(
    how: &How,
    thread: Thread,
    key: Option<Key>,
    (lock, site): (usize, usize),
    (owner, times, result): (u32, [u64; 2], c_int),
) -> c_int {
    let key = key.map(|key| thread.key_of_wait(how.kind, lock, site, key));
    let (Some(key), Some(detail)) = (key, thread.detail_of_wait(key)) else { return result };
    settle(thread);
    Cause::of_long(thread, how.kind, lock, site, detail.index(), times, owner);
    after(how, thread, (key, detail), lock, (times, result, 1))
}

/// Acquires a lock if it is free.
#[inline(always)]
pub(crate) fn attempt(how: &How, lock: usize, site: usize) -> c_int {
    let result = how.attempt.call([lock, 0, 0, 0]);
    if process::is_brief() && (!is_owned(result) || process::count_brief()) {
        return result;
    }
    let thread = if is_owned(result) { Thread::acquiring() } else { Thread::current() };
    let Some(thread) = thread else { return result };
    if !is_owned(result) {
        // A loop of attempts is one request, however long it takes; failures are counted
        // separately.
        if !process::only_contended() {
            thread.count(YIELD, lock, site);
        }
        return result;
    }
    if process::only_contended() {
        enters(how, thread, lock);
        if how.kind == SEMAPHORE {
            took(thread, lock);
        }
        return result;
    }
    let key = thread.count(how.kind, lock, site);
    thread.takes(how.kind, lock, key);
    thread.forget();
    enters(how, thread, lock);
    let turn = if thread.is_turn() { thread.draw() } else { Turn::NOTHING };
    if turn.is_traced {
        thread.begin_step();
        let now = ticks_after();
        thread.step_at(STEP_LOCK, key, now, now);
    }
    begin(how, thread, key, lock, turn.weight, result);
    result
}

/// Records the callers of a reader, of which many may cost time without waiting. The lock is not
/// held yet: the unwinder may wait for a mutex.
#[cold]
#[inline(never)]
fn learn(thread: Thread, key: Option<Key>) {
    if let Some(detail) = thread.detail(key) {
        thread.learn_callers(detail);
    }
}

/// Records how long it took to acquire a free lock, whose cache line was elsewhere.
#[cold]
#[inline(never)]
fn acquired(thread: Thread, key: Option<Key>, took: u64, weight: u64) {
    if let Some(detail) = thread.detail(key) {
        record(&detail.counts().acquire, took, weight);
    }
}

#[inline]
fn think(thread: Thread, key: Option<Key>) {
    thread.thought(thread.detail(key), ticks());
}

/// Times the critical section of an uncontended acquisition, if it is due or represents `weight`.
#[inline(always)]
fn begin(how: &How, thread: Thread, key: Option<Key>, lock: usize, weight: u64, result: c_int) {
    if how.kind == SEMAPHORE && result == 0 {
        took(thread, lock);
    }
    match key {
        Some(key) if key.is_due && is_owned(result) => hold(thread, key, lock, 1),
        Some(key) if weight != 0 && is_owned(result) => hold(thread, key, lock, weight),
        _ => {}
    }
}

/// Notes the owner of a semaphore that threads have waited for: posts by its owner show that it is
/// a lock, posts by other threads that it is a signal.
#[inline(never)]
fn took(thread: Thread, lock: usize) {
    thread.takes_semaphore(lock);
    if let Some(all) = Waiters::known(lock) {
        all.took(thread.id());
    }
}

/// Waits for a lock that has an owner. The wait represents `weight` waits, if it is short.
#[inline(always)]
fn wait(
    how: &How,
    thread: Thread,
    key: Option<Key>,
    block: impl Fn() -> c_int,
    lock: usize,
    site: usize,
    weight: u64,
) -> c_int {
    if how.kind == SEMAPHORE
        && let Some(mutex) = thread.mutex_of_own(lock)
    {
        return condvar::own_semaphore(thread, block, lock, mutex, site);
    }
    let key = key.map(|key| thread.key_of_wait(how.kind, lock, site, key));
    let (Some(key), Some(detail)) = (key, thread.detail_of_wait(key)) else { return block() };
    let waiters = Waiters::of(lock);
    settle(thread);
    let asked = ticks();
    waiters.inspect(|all| all.enter(asked));
    let cause = Cause::begin(thread, how.kind, lock, site, detail.index(), asked);
    thread.sleeps();
    let result = match how.kind {
        SEMAPHORE => Waiters::until(waiters, block),
        _ => block(),
    };
    Thread::wakes();
    thread.fetch_waits(detail);
    let got = ticks_after();
    waiters.inspect(|all| all.leave(got));
    thread.was_away([asked, got]);
    let is_whole = !is_owned(result) || Thread::is_long(got.saturating_sub(asked));
    let weight = if is_whole { 1 } else { weight };
    if let Some(cause) = cause {
        cause.end(got, weight);
    }
    after(how, thread, (key, detail), lock, ([asked, got], result, weight))
}

/// Records a wait that has ended, and begins to time the critical section.
#[inline(always)]
fn after(
    how: &How,
    thread: Thread,
    (key, detail): (Key, Detail),
    lock: usize,
    ([asked, got], result, weight): ([u64; 2], c_int, u64),
) -> c_int {
    if !is_owned(result) {
        waited(thread, detail, [asked, got], 1, true);
        thread.step_at(STEP_LOCK | STEP_FAILED, Some(key), asked, got);
        add(&detail.counts().failed, 1);
        return result;
    }
    let waiters = Waiters::known(lock);
    thread.takes(how.kind, lock, Some(key));
    if how.kind == SEMAPHORE {
        thread.takes_semaphore(lock);
        waiters.inspect(|all| all.took(thread.id()));
    }
    let [released, releases] = waiters.map_or([0; 2], Waiters::released);
    let passed = if (asked..got).contains(&released) { got - released } else { 0 };
    let packed = thread.pack(key, detail);
    let local = arch::local();
    set(&local.waited, packed.word());
    set(&local.waited_from, asked);
    set(&local.waited_to, got);
    set(&local.waited_handoff, passed);
    set(&local.waited_weight, weight | releases << WEIGHT_BITS);
    // With handoff locks, all other waiters now wait for this thread, so the wait is recorded after
    // the release, unless the thread has a trace, whose steps are in order, or might keep the lock.
    let is_semaphore = how.kind == SEMAPHORE;
    let gives_up = handoff::hands_over(is_semaphore)
        && (!is_semaphore || waiters.is_some_and(Waiters::is_owned));
    if thread.traces() || !gives_up {
        settle(thread);
        thread.step_at(STEP_LOCK, Some(key), asked, got);
    }
    // Reads the clock again: the time of recording is not part of the critical section.
    thread.hold(lock, packed, weight);
    result
}

/// Releases a lock with `give`. The critical section ends before the call and the think time begins
/// after it: a wakeup in between belongs to neither.
#[inline(always)]
pub(crate) fn release(give: &Real, lock: usize) -> c_int {
    // The word is 0 in a thread that is not recorded yet. The child of a fork may have inherited
    // the word of its parent.
    if Thread::times()
        && let Some(thread) = Thread::current()
    {
        return end(thread, give, lock);
    }
    give.call([lock, 0, 0, 0])
}

/// Releases a reader/writer lock. Only the slot of the thread names it as a reader.
#[inline(always)]
pub(crate) fn leave(give: &Real, lock: usize) -> c_int {
    if let Some(thread) = Thread::known() {
        thread.leaves(READ, lock);
    }
    release(give, lock)
}

/// Posts a semaphore: its owner releases it, or another thread signals with it.
pub(crate) fn post(give: &Real, lock: usize, site: usize) -> c_int {
    if process::is_brief() {
        return give.call([lock, 0, 0, 0]);
    }
    let Some(thread) = Thread::current() else { return give.call([lock, 0, 0, 0]) };
    thread.leaves(SEMAPHORE, lock);
    thread.posts(lock);
    let Some(all) = Waiters::known(lock) else { return release(give, lock) };
    // In a signal handler that interrupted its wait, the thread has not acquired it.
    let waits = get(&thread.state().wait.lock) << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
    let is_waiting = waits == lock as u64;
    let had_it = !is_waiting && (all.gives(thread.id()) || thread.is_timed(lock));
    let mutex = all.mutex();
    if !had_it && mutex != 0 {
        condvar::posts_own_semaphore(thread, mutex, site);
    }
    let result = release(give, lock);
    all.gave(had_it);
    result
}

#[cold]
#[inline(never)]
fn end(thread: Thread, give: &Real, lock: usize) -> c_int {
    let is_traced = thread.traces();
    let (hold, now) = (thread.take(lock), if is_traced { thread.begin_step() } else { ticks() });
    let kept = hold.as_ref().is_some_and(|hold| thread.kept(hold));
    if let Some(hold) = &hold
        && let Some(all) = Waiters::known(lock)
    {
        all.release(now, hold);
    }
    let result = give.call([lock, 0, 0, 0]);
    if is_traced {
        thread.step(STEP_UNLOCK, lock as u64, now, ticks());
    }
    // The lock is released: no thread waits for this one any more.
    if let Some(hold) = &hold {
        thread.fetch_key(hold);
        thread.held(hold, kept, now);
        if !process::only_contended() {
            thread.look_at_window(now);
        }
    }
    settle(thread);
    // The think time is not recorded if uncontended requests are not.
    if let Some(hold) = hold.as_ref().filter(|_| !process::only_contended()) {
        thread.released(hold);
    }
    result
}
