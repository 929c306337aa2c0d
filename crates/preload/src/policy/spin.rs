//! Limits of spinning before a thread sleeps.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use convoy_sync::SpinLimit;

use crate::arch;

/// Number of times that the spinning lock polls before it sleeps, the default of `AdaptiveLock`.
/// 0 with one CPU, and if all mutexes sleep.
static LOOKS: AtomicU32 = AtomicU32::new(100);

/// Lets no lock poll from now on.
pub(crate) fn forbid() {
    // Relaxed: done before the program has threads.
    LOOKS.store(0, Relaxed);
}

/// Returns whether a thread may poll a lock.
pub(crate) fn may_spin() -> bool {
    LOOKS.load(Relaxed) > 0
}

/// A real-time task that keeps the owner off its CPU while it polls does so only for some
/// microseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looks;

impl SpinLimit for Looks {
    fn looks(self) -> u32 {
        LOOKS.load(Relaxed)
    }
}

/// The same for the lock of a queue, whose critical sections are short: it wakes two sleepers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Short(Looks);

impl SpinLimit for Short {
    const WAKES: usize = 2;

    fn looks(self) -> u32 {
        self.0.looks()
    }
}

/// Waiters sleep without polling.
#[derive(Clone, Copy, Default)]
pub(crate) struct Never;

impl SpinLimit for Never {
    fn looks(self) -> u32 {
        0
    }
}

/// Returns the number of CPUs that this process may use.
pub(crate) fn cpus() -> u32 {
    let mut mask = [0_u64; 128];
    let place = (&raw mut mask) as usize;
    // SAFETY: the kernel writes at most as many bytes as the mask has.
    unsafe { arch::call(arch::number::SCHED_GETAFFINITY, [0, size_of_val(&mask), place, 0, 0, 0]) };
    mask.iter().map(|word| word.count_ones()).sum()
}
