//! System calls of the recorder. They do not change `errno`, and stop once the process has given up
//! rights.

use core::ffi::c_long;
use core::sync::atomic::AtomicU64;

use crate::arch;
use crate::arch::number::CLOSE;
pub(crate) use crate::arch::number::{
    CLOCK_GETTIME, GETPID, GETPPID, GETTID, MMAP, OPENAT, READ as READ_CALL,
};
use crate::system::rights::is_quiet;

const AT_FDCWD: usize = -100_isize as usize;
pub(crate) const READ_WRITE: usize = 0o2;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
pub(crate) const PROTECT_READ_WRITE: usize = 3;

pub(crate) fn call(number: c_long, arguments: [usize; 6]) -> isize {
    /// Returned as if the kernel lacked the call.
    const ENOSYS: isize = -38;
    if is_quiet() {
        return ENOSYS;
    }
    // SAFETY: every use below passes descriptors, numbers, and memory that outlives the call.
    unsafe { arch::call(number, arguments) }
}

pub(crate) fn close(descriptor: isize) {
    call(CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]);
}

pub(crate) fn open(path: &[u8], flags: usize) -> isize {
    call(OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags | CLOSE_ON_EXEC, 0o600, 0, 0])
}

/// Reads the beginning of a file into words, and returns the number of bytes read.
pub(crate) fn read(path: &[u8], words: &[AtomicU64]) -> usize {
    let descriptor = open(path, 0);
    let mut length = 0;
    while descriptor >= 0 && length < words.len() * 8 {
        let place = words.as_ptr() as usize + length;
        let room = words.len() * 8 - length;
        let got = call(READ_CALL, [descriptor as usize, place, room, 0, 0, 0]);
        if got <= 0 {
            break;
        }
        length += got as usize;
    }
    if descriptor >= 0 {
        close(descriptor);
    }
    length
}
