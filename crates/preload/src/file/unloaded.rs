//! Programs that run without the object. The process that starts such a program notes it in its
//! file, with the reason. The notes are in the header, which exists before all other pages.

use core::ffi::{CStr, c_int};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::file::map;
use crate::layout::{FNV, fnv};

/// Calls `run`, which starts a program without the object. The program is not counted if it does
/// not start, which `run` reports by a value other than 0.
pub(crate) fn unless(why: u64, path: usize, run: impl FnOnce() -> c_int) -> c_int {
    let count = note(why, path);
    let result = run();
    if let Some(count) = count.filter(|_| result != 0) {
        count.fetch_sub(1, Relaxed);
    }
    result
}

/// Notes a program, and returns its count.
pub(crate) fn note(why: u64, path: usize) -> Option<&'static AtomicU64> {
    let file = map::nearest_file()?;
    // SAFETY: a C string, by the contract of libc's function.
    let path = unsafe { CStr::from_ptr(path as *const _) }.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = &name[..name.len().min(size_of_val(&file.header.programs[0].name))];
    let mark = fnv(FNV ^ why, name) | 1;
    let entry = file.header.programs.iter().find(|program| {
        // The exchange claims the entry. A thread that finds its own mark only adds to the count,
        // so the name needs no ordering: it is for readers of the file.
        let taken = program.mark.compare_exchange(0, mark, AcqRel, Acquire);
        if taken.is_ok() {
            program.why.store(why, Relaxed);
            for (word, part) in program.name.iter().zip(name.chunks(8)) {
                let mut bytes = [0; 8];
                bytes[..part.len()].copy_from_slice(part);
                // Relaxed: see above.
                word.store(u64::from_le_bytes(bytes), Relaxed);
            }
        }
        taken.is_ok() || taken == Err(mark)
    });
    let count = entry.map_or(&file.header.programs_more, |program| &program.count);
    // Relaxed: no other data depends on the count.
    count.fetch_add(1, Relaxed);
    Some(count)
}
