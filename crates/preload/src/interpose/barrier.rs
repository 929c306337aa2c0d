//! Wrappers of libc's functions that are not locks: yielding the CPU, and barriers.

use core::ffi::c_int;

use crate::arch::ticks;
use crate::interpose::libc::Real;
use crate::layout::{BARRIER, STEP_BARRIER, STEP_YIELD, YIELD, YIELDS_LOCK};
use crate::threads::detail::Detail;
use crate::threads::thread::Thread;
use crate::waits::deferred::{settle, waited};

/// Yields the CPU.
pub(crate) fn pause(real: &Real, site: usize) -> c_int {
    let thread = Thread::current();
    if let Some(thread) = thread {
        thread.count(YIELD, YIELDS_LOCK, site);
    }
    let Some(thread) = thread.filter(|thread| thread.traces()) else {
        return real.call([0; 4]);
    };
    let begin = thread.begin_step();
    let result = real.call([0; 4]);
    thread.step(STEP_YIELD, 0, begin, ticks());
    result
}

pub(crate) fn barrier(block: &Real, barrier: usize, site: usize) -> c_int {
    let Some(thread) = Thread::current() else { return block.call([barrier, 0, 0, 0]) };
    settle(thread);
    let key = thread.count(BARRIER, barrier, site);
    let detail = thread.detail(key);
    thread.forget();
    let asked = if thread.traces() { thread.begin_step() } else { ticks() };
    thread.shows(BARRIER, barrier, site, detail.map_or(0, Detail::index), asked);
    let result = block.call([barrier, 0, 0, 0]);
    thread.shows_nothing();
    if let Some(detail) = detail {
        let got = ticks();
        waited(thread, detail, [asked, got], 1, false);
        thread.step_at(STEP_BARRIER, key, asked, got);
    }
    result
}
