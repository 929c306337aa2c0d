//! mlockall(2) for all memory of the program, but not for the file of the recording, which is large
//! and sparse: the kernel would fill it, or refuse to lock that much memory.
//!
//! Each mapping is locked separately. The kernel's check of the limit is done here, without the
//! file; if the limit would be exceeded, libc is called, and the kernel refuses.

use core::ffi::c_int;

use crate::arch::number::{CAPGET, MLOCK, PRLIMIT64 as LIMITS};
use crate::file::map;
use crate::interpose::libc;
use crate::system::calls::{self, READ_CALL, call};
use crate::system::rights;

const LIMIT_OF_LOCKED: usize = 8;
// Flags of mlockall(2).
const CURRENT: usize = 1;
const FUTURE: usize = 2;

/// Locks the memory of the program.
pub(crate) fn lock_all(flags: usize) -> c_int {
    let file = map::file().filter(|_| flags & !FUTURE == CURRENT && !rights::is_quiet());
    let Some(file) = file else { return libc::MLOCKALL.call([flags, 0, 0, 0]) };
    let own = core::ptr::from_ref(file) as usize;
    let own = own..own + size_of_val(file);
    let mut total = 0_usize;
    let is_read = each_mapping(|begin, end| {
        if !own.contains(&begin) {
            total = total.saturating_add(end - begin);
        }
    });
    if !is_read || !is_permitted(total) {
        return libc::MLOCKALL.call([flags, 0, 0, 0]);
    }
    each_mapping(|begin, end| {
        if !own.contains(&begin) {
            // As in the kernel, a mapping that cannot be read in is not an error.
            call(MLOCK, [begin, end - begin, 0, 0, 0, 0]);
        }
    });
    if flags & FUTURE == 0 { 0 } else { libc::MLOCKALL.call([FUTURE, 0, 0, 0]) }
}

/// Returns whether the process may lock this number of bytes.
fn is_permitted(bytes: usize) -> bool {
    /// Version 3 of the structures of capget(2), and the capability, a bit of the first set.
    const VERSION: u32 = 0x2008_0522;
    const IPC_LOCK: u32 = 14;
    let (mut limits, header, mut sets) = ([0_u64; 2], [VERSION, 0], [0_u32; 6]);
    call(LIMITS, [0, LIMIT_OF_LOCKED, 0, (&raw mut limits) as usize, 0, 0]);
    call(CAPGET, [(&raw const header) as usize, (&raw mut sets) as usize, 0, 0, 0, 0]);
    bytes as u64 <= limits[0] || sets[0] & 1 << IPC_LOCK != 0
}

/// Calls `each` with the start and the end of each mapping of the process. Returns whether they
/// could be read.
fn each_mapping(mut each: impl FnMut(usize, usize)) -> bool {
    /// Addresses from here on belong to the kernel: `[vsyscall]`.
    const KERNEL: usize = 1 << 63;
    let descriptor = calls::open(b"/proc/self/maps\0", 0);
    if descriptor < 0 {
        return false;
    }
    let mut bytes = [0_u8; 512];
    // The two numbers of a line, and the index of the one that is being read; 2: neither.
    let (mut numbers, mut which) = ([0_usize; 2], 0);
    loop {
        let place = (&raw mut bytes) as usize;
        let got = call(READ_CALL, [descriptor as usize, place, bytes.len(), 0, 0, 0]);
        let Some(text) = usize::try_from(got).ok().and_then(|got| bytes.get(..got)) else { break };
        if text.is_empty() {
            break;
        }
        for byte in text {
            match (byte, which) {
                (b'\n', _) => (numbers, which) = ([0; 2], 0),
                (b'-', 0) => which = 1,
                (b' ', 1) => {
                    which = 2;
                    if numbers[0] < KERNEL {
                        each(numbers[0], numbers[1]);
                    }
                }
                (_, 0 | 1) => {
                    let digit = (*byte as char).to_digit(16).unwrap_or(0);
                    numbers[which] = numbers[which] << 4 | digit as usize;
                }
                _ => {}
            }
        }
    }
    calls::close(descriptor);
    true
}
