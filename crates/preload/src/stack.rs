//! Who called: by the unwind tables of the program, which allocates nothing. Rarely done, since it
//! takes a microsecond a frame.

use core::ffi::{c_int, c_void};

/// A walk up the stack.
struct Walk<'a> {
    /// Where it begins.
    site: usize,
    is_past: bool,
    count: usize,
    frames: &'a mut [u64],
}

/// Fills `frames` with what the callers of the function around `site` return to, the nearest first;
/// how many. `site` is what a function of ours, which is being called, returns to.
pub(crate) fn callers(site: usize, frames: &mut [u64]) -> usize {
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
    }
    let mut walk = Walk { site, is_past: false, count: 0, frames };
    // SAFETY: it reads the stack of this thread by its unwind tables; the argument outlives it.
    unsafe { _Unwind_Backtrace(frame, (&raw mut walk).cast()) };
    walk.count
}

extern "C" fn frame(context: *mut c_void, walk: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END: c_int = 4;
    unsafe extern "C" {
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }
    // SAFETY: the unwinder gives the context of a frame.
    let address = unsafe { _Unwind_GetIP(context) };
    // SAFETY: the walk of `callers`, which nobody else uses meanwhile.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    if !walk.is_past {
        walk.is_past = address == walk.site;
        return GO_ON;
    }
    let Some(place) = walk.frames.get_mut(walk.count) else { return END };
    *place = address as u64;
    walk.count += 1;
    GO_ON
}
