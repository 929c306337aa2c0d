//! Clock readings in the file, which give the length of a tick.

use core::sync::atomic::Ordering::Relaxed;

use crate::file::map::{File, get, set};
use crate::system::calls::{CLOCK_GETTIME, call};
use crate::system::rights::is_quiet;

const CLOCK_MONOTONIC: usize = 1;
const CLOCK_PROCESS: usize = 2;

/// Records the clocks, so that ticks have a length even if the process is killed.
#[cold]
pub(crate) fn look(file: &File, ticks: u64) {
    if is_quiet() {
        return guess(file, ticks);
    }
    let header = &file.header;
    for (clock, word) in [(CLOCK_PROCESS, &header.cpu_ns), (CLOCK_MONOTONIC, &header.ns_last)] {
        let mut time = [0_u64; 2];
        call(CLOCK_GETTIME, [clock, (&raw mut time) as usize, 0, 0, 0, 0]);
        // A reader that sees only some of these stores is wrong by the time between two readings of
        // the clocks.
        set(word, time[0] * 1_000_000_000 + time[1]);
    }
    set(&header.ticks_last, ticks);
}

/// Extrapolates without a clock, assuming that the length of a tick has not changed.
fn guess(file: &File, ticks: u64) {
    let header = &file.header;
    let ticks_last = get(&header.ticks_last);
    let ticks_measured = ticks_last.saturating_sub(get(&header.ticks_begin)).max(1);
    let ns_measured = get(&header.ns_last).saturating_sub(get(&header.ns_begin));
    let ticks_since = ticks.saturating_sub(ticks_last);
    let ns = u128::from(ticks_since) * u128::from(ns_measured) / u128::from(ticks_measured);
    // Relaxed: as in `look`.
    header.ns_last.fetch_add(ns as u64, Relaxed);
    set(&header.ticks_last, ticks);
}

/// Records the clocks if the last reading is old enough. The more threads there are, the longer the
/// interval.
#[inline]
pub(crate) fn look_sometimes(file: &File, ticks: u64) {
    /// About 26 ms; the number of threads that doubles it; and about a second, the maximum.
    const LOOK: u64 = 1 << 26;
    const FEW: u64 = 64;
    const LONGEST: u64 = 1 << 31;
    let interval = (LOOK + LOOK / FEW * get(&file.header.threads)).min(LONGEST);
    if ticks.wrapping_sub(get(&file.header.ticks_last)) > interval {
        look(file, ticks);
    }
}
