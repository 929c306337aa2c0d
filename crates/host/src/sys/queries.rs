//! The calls behind the identity queries of `misc_rtns_1`.

use super::{Sys, last_errno};
use std::cell::RefCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Groups that one call can return; Linux has at most this many.
const MOST_GROUPS: usize = 65_536;

/// One `getgroups`, with room for all there can be.
pub(crate) fn groups() -> Sys<()> {
    thread_local! {
        static ROOM: RefCell<Vec<libc::gid_t>> = RefCell::new(vec![0; MOST_GROUPS]);
    }
    ROOM.with_borrow_mut(|room| {
        // SAFETY: The call writes at most as many ids as `room` has places.
        match unsafe { libc::getgroups(room.len() as libc::c_int, room.as_mut_ptr()) } {
            -1 => Err(last_errno()),
            _ => Ok(()),
        }
    })
}

/// `getpwnam("root")`, `getpwuid` and `getgrgid` of the root user and group: no calls except for
/// the database's. A database without the entries is not an error: only the calls count.
pub(crate) fn user_database() {
    let name: &CStr = c"root";
    // SAFETY: The name is terminated; the result is not used. These calls are not thread-safe: the
    // users of a load point are single-threaded processes.
    unsafe { libc::getpwnam(name.as_ptr()) };
    // SAFETY: As above.
    unsafe { libc::getpwuid(0) };
    // SAFETY: As above.
    unsafe { libc::getgrgid(0) };
}

/// `times`.
pub(crate) fn times() {
    let mut times = MaybeUninit::<libc::tms>::zeroed();
    // SAFETY: `times` is writable for a whole `tms`.
    unsafe { libc::times(times.as_mut_ptr()) };
}
