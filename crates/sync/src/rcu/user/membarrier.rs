//! The fences of threads: the system makes every running thread of the process execute one.

use super::Fences;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, compiler_fence, fence};

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration, of `linux/membarrier.h`.
const EXPEDITED: i32 = 1 << 3;
const REGISTER: i32 = 1 << 4;

/// The system does not have the call, or does not permit it: readers execute fences themselves.
static READERS_FENCE: AtomicBool = AtomicBool::new(false);

/// `membarrier`, or fences of each thread where that is missing.
#[derive(Clone, Copy, Debug)]
pub struct Membarrier;

fn membarrier(command: i32) -> bool {
    // Miri does not support the call.
    if cfg!(miri) {
        return false;
    }
    // SAFETY: the call neither reads nor writes this program's memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

impl Membarrier {
    /// Before the first reader.
    pub(super) fn prepare() {
        // Relaxed: readers come after this by the lock of their list.
        READERS_FENCE.store(!membarrier(REGISTER), Relaxed);
    }
}

impl Fences for Membarrier {
    #[inline(always)]
    fn light() {
        // Relaxed: written before there are readers.
        if READERS_FENCE.load(Relaxed) {
            fence(SeqCst);
        } else {
            // SeqCst: the compiler keeps the order; the processor is `heavy`'s.
            compiler_fence(SeqCst);
        }
    }

    fn heavy() {
        // Relaxed: as in `light`.
        if READERS_FENCE.load(Relaxed) {
            // SeqCst pairs with the fence in `light`.
            fence(SeqCst);
        } else {
            assert!(membarrier(EXPEDITED), "membarrier was there when the first reader registered");
        }
    }

    fn full() {
        // SeqCst: a full fence.
        fence(SeqCst);
    }
}
