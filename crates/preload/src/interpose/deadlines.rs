//! Calls whose arguments libc checks even if they need not wait: clocks and times. A recorder that
//! makes an attempt first would accept invalid ones.

use core::ffi::c_int;

use crate::interpose::libc::{self, Real};
use crate::interpose::locks::{self, How};
use crate::layout::SEMAPHORE;
use crate::policy::platform::Deadline;

/// Returns whether libc accepts deadlines on this clock.
pub(crate) fn is_clock(clock: usize) -> bool {
    Deadline::on_clock(clock, 0).is_ok()
}

/// Returns whether the nanoseconds of a deadline are less than a second.
pub(crate) fn is_time(time: usize) -> bool {
    Deadline { time, is_realtime: true }.error().is_none()
}

/// Acquires a lock until a deadline. Leaves it to libc to refuse an invalid one.
pub(crate) fn acquire(
    is_valid: bool,
    how: &How,
    block: &Real,
    arguments: &[usize; 4],
    site: usize,
) -> c_int {
    if !is_valid {
        return block.call(*arguments);
    }
    if how.kind == SEMAPHORE {
        cancellation_point();
    }
    locks::acquire(how, block, arguments, site)
}

/// A wait for a semaphore acts on a cancellation that is pending, even if a unit is free.
#[inline]
pub(crate) fn cancellation_point() {
    libc::TESTCANCEL.call([0; 4]);
}
