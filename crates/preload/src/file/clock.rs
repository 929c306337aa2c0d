//! Clock readings in the file, which give the length of a tick.

use core::sync::atomic::Ordering::Relaxed;

use crate::file::map::Map;
use crate::layout::*;
use crate::system::calls::{CLOCK_GETTIME, call};
use crate::system::rights::is_quiet;

const CLOCK_MONOTONIC: usize = 1;
const CLOCK_PROCESS: usize = 2;

/// Records the clocks, so that ticks have a length even if the process is killed.
#[cold]
pub(crate) fn look(file: &Map, ticks: u64) {
    if is_quiet() {
        return guess(file, ticks);
    }
    for (clock, word) in [(CLOCK_PROCESS, H_CPU_NS), (CLOCK_MONOTONIC, H_NS_LAST)] {
        let mut time = [0_u64; 2];
        call(CLOCK_GETTIME, [clock, (&raw mut time) as usize, 0, 0, 0, 0]);
        // Relaxed: a reader that sees only some of these stores is wrong by the time between two
        // readings of the clocks.
        file[word].store(time[0] * 1_000_000_000 + time[1], Relaxed);
    }
    file[H_TICKS_LAST].store(ticks, Relaxed);
}

/// Extrapolates without a clock, assuming that the length of a tick has not changed.
fn guess(file: &Map, ticks: u64) {
    let of = |word: usize| file[word].load(Relaxed);
    let known = of(H_TICKS_LAST).saturating_sub(of(H_TICKS_BEGIN)).max(1);
    let ns = of(H_NS_LAST).saturating_sub(of(H_NS_BEGIN));
    let since = ticks.saturating_sub(of(H_TICKS_LAST));
    let more = (u128::from(since) * u128::from(ns) / u128::from(known)) as u64;
    // Relaxed: as in `look`.
    file[H_NS_LAST].fetch_add(more, Relaxed);
    file[H_TICKS_LAST].store(ticks, Relaxed);
}

/// Records the clocks if the last reading is old enough. The more threads there are, the longer the
/// interval.
#[inline]
pub(crate) fn look_sometimes(file: &Map, ticks: u64) {
    /// About 26 ms; the number of threads that doubles it; and about a second, the maximum.
    const LOOK: u64 = 1 << 26;
    const FEW: u64 = 64;
    const LONGEST: u64 = 1 << 31;
    let threads = file[H_THREADS].load(Relaxed);
    let apart = (LOOK + LOOK / FEW * threads).min(LONGEST);
    if ticks.wrapping_sub(file[H_TICKS_LAST].load(Relaxed)) > apart {
        look(file, ticks);
    }
}
