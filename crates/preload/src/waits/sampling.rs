//! Sample of waits. Threads that wait for mutexes far more often than a record needs would spend
//! more time on recording than on their waits, so of these waits one in a few is recorded and
//! represents all of them. Four kinds of waits always represent themselves: the first ones at each
//! call site, those of a thread with a trace, those that fail, and long ones, since a single wait
//! of a second must neither be missed nor be counted sixteen times.

use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::file::map::{self, get, set};
use crate::file::process;
use crate::layout::{FIRST, MUTEX, SLOW};
use crate::threads::lines::Key;
use crate::threads::thread::Thread;

/// Ticks between two recorded waits of the process: some 50 us. Recording takes less than a
/// hundredth of that.
const APART: u64 = 1 << 17;
/// Number of threads from which on that interval is shorter, so that waits of some 4 ms are always
/// recorded.
const THREADS: u64 = 64;
/// Maximum number of waits that one represents.
const MOST: u64 = 64;
/// Bits of a weight.
pub(crate) const WEIGHT_BITS: u32 = 8;

// Words of `Local::sample`, which threads with traces use for them. They are 0 afterwards.
/// Waits until one is recorded.
const PASSES: usize = 0;
/// The number of waits that it represents and, above [`WEIGHT_BITS`], the number of waits up to it.
const REPRESENTS: usize = 1;
/// The time of the last one, ticks.
const RECORDED: usize = 2;

/// Returns the ticks between two recorded waits of a thread.
fn apart() -> u64 {
    map::file().map_or(0, |file| APART * get(&file.header.slots).min(THREADS))
}

impl Thread {
    /// Returns whether a wait represents only itself because of its length. Where all acquisitions
    /// are recorded, the limit does not grow with the number of threads: a wait of a millisecond
    /// that represented 64 would be half of a short run.
    #[inline(always)]
    pub(crate) fn is_long(ticks: u64) -> bool {
        ticks >= if process::only_contended() { apart() } else { APART }
    }

    /// Returns how many waits the one that begins now represents if it is short; none if it is not
    /// recorded.
    #[inline(always)]
    pub(crate) fn represents(self, kind: u64, key: Option<Key>, now: u64) -> Option<u64> {
        // Relaxed: only this thread writes its counts.
        let is_first = |key: Key| u64::from(key.count.load(Relaxed) & !SLOW) <= FIRST;
        if kind != MUTEX || key.is_none_or(is_first) || self.traces() {
            return Some(1);
        }
        let passes = &arch::local().sample[PASSES];
        match get(passes) {
            0 | 1 => Some(self.draw_wait(now)),
            left => {
                set(passes, left - 1);
                None
            }
        }
    }

    /// Returns how many waits this one represents, and draws the next one.
    fn draw_wait(self, now: u64) -> u64 {
        let sample = &arch::local().sample;
        let last = get(&sample[REPRESENTS]);
        let passed = last >> WEIGHT_BITS;
        let span = now.saturating_sub(get(&sample[RECORDED])).max(1);
        let mean = (apart() * passed / span).clamp(1, MOST);
        // At irregular distances with this mean, so that no loop synchronizes with them.
        let left = 1 + self.random() % (2 * mean - 1);
        set(&sample[PASSES], left);
        set(&sample[REPRESENTS], left << WEIGHT_BITS | mean);
        set(&sample[RECORDED], now);
        (last & ((1 << WEIGHT_BITS) - 1)).max(1)
    }
}
