//! Traces: in windows that open some 25 ms and later an eighth of the run apart, each thread
//! records its steps until its trace is full. Unlike counts by call site, a trace contains the
//! order of the steps: nested locks, signalling threads, and frequencies.
//!
//! A thread checks for a window when it releases a lock with a timed hold, and after a wait. The
//! thread that opens a window makes a draw of timed acquisitions due in all others, so that other
//! acquisitions need no check.

use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::file::map::{self, Map};
use crate::file::pages;
use crate::layout::*;
use crate::threads::details;
use crate::threads::lines::Key;
use crate::threads::local::*;
use crate::threads::thread::Thread;

/// Minimum number of ticks between two windows: some 25 ms.
const APART: u64 = 1 << 26;
/// The same as a part of the run so far: an eighth.
const PART: u64 = 8;
/// Maximum number of traces in a window while the first, second, third and last quarter of all
/// traces is being used.
const MOST: [usize; 4] = [48, 48, 24, 12];

impl Thread {
    /// Returns whether the thread has a trace.
    #[inline(always)]
    pub(crate) fn traces(self) -> bool {
        self.own(O_HOLDS) & TRACED != 0
    }

    /// Opens a window if it is time, and begins a trace in a window that is new to the thread.
    pub(crate) fn look_at_window(self, now: u64) {
        let Some(file) = map::file() else { return };
        // Relaxed, in this file: windows and steps only sample. A thread that sees a window late
        // traces less of it.
        let next = file[H_WINDOW_NEXT].load(Relaxed);
        if now >= next {
            let run = now.saturating_sub(file[H_TICKS_BEGIN].load(Relaxed));
            let after = now + (run / PART).max(APART);
            if file[H_WINDOW_NEXT].compare_exchange(next, after, Relaxed, Relaxed).is_ok() {
                open(file);
            }
        }
        // Relaxed: see above.
        let window = file[H_WINDOW].load(Relaxed);
        if self.own(O_WINDOW) != window {
            self.put(O_WINDOW, window);
            self.begin_trace(file, window);
        }
    }

    fn begin_trace(self, file: &'static Map, window: u64) {
        self.end_trace();
        // Relaxed: see `look_at_window`; `H_TRACES` is only an estimate here.
        let used = file[H_TRACES].load(Relaxed) as usize;
        let most = MOST[(used * MOST.len() / TRACE_COUNT).min(MOST.len() - 1)];
        if file[H_WINDOW_TRACES].fetch_add(1, Relaxed) as usize >= most {
            return;
        }
        let Some(trace) = details::trace(file) else { return };
        let slot = self.own(O_SLOT);
        for (at, value) in [(T_SLOT, slot), (T_THREAD, self.own(O_THREAD)), (T_WINDOW, window)] {
            // Relaxed: the trace belongs to this thread.
            file[trace + at].store(value, Relaxed);
        }
        self.put(O_TRACE_END, (trace + TRACE_WORDS) as u64);
        self.set(S_TRACE, (trace + T_STEPS) as u64);
        self.put(O_HOLDS, self.own(O_HOLDS) | TRACED);
        self.put(O_TRACE_SWITCHES, self.switches());
        self.put(O_TRACE_OFF, 0);
        // From now on, each acquisition is a step and therefore due.
        if self.get(S_POKED) == 0 {
            self.set(S_LEFT, self.due().load(Relaxed).max(1));
        }
        self.due().store(1, Relaxed);
    }

    fn end_trace(self) {
        if self.traces() {
            self.set(S_TRACE, 0);
            self.put(O_HOLDS, self.own(O_HOLDS) & !TRACED);
            // Relaxed: if `open` stores to the countdown at the same time, one of both is lost:
            // then the thread notices the window at its next draw.
            self.due().store(self.get(S_LEFT).max(1), Relaxed);
        }
    }

    /// Begins a step, which includes any switch from now on. Returns the current time.
    #[cold]
    pub(crate) fn begin_step(self) -> u64 {
        let switched = self.switches() != self.own(O_TRACE_SWITCHES);
        self.put(O_TRACE_OFF, if switched { STEP_OFF } else { 0 });
        arch::ticks()
    }

    /// Writes a step from `begin` to `end`.
    #[cold]
    #[inline(never)]
    pub(crate) fn step(self, kind: u64, what: u64, begin: u64, end: u64) {
        if !self.traces() {
            return;
        }
        let (Some(file), at) = (map::file(), self.get(S_TRACE) as usize) else { return };
        let off = self.own(O_TRACE_OFF);
        // Relaxed: only this thread writes its trace.
        file[at].store(begin, Relaxed);
        file[at + 1].store(end, Relaxed);
        file[at + 2].store(kind | off | what << STEP_SHIFT, Relaxed);
        self.put(O_TRACE_SWITCHES, self.switches());
        let next = at + STEP_WORDS;
        if next + STEP_WORDS > self.own(O_TRACE_END) as usize {
            self.end_trace();
        } else {
            self.set(S_TRACE, next as u64);
        }
    }

    /// Writes a step that has a key.
    #[inline]
    pub(crate) fn step_at(self, kind: u64, key: Option<Key>, begin: u64, end: u64) {
        if !self.traces() {
            return;
        }
        // The lock is unknown if its key is shared by all locks without one.
        if let Some(key) = key.filter(|key| !self.is_other(*key)) {
            self.step(kind, self.number(key) as u64, begin, end);
        }
    }
}

fn open(file: &'static Map) {
    // Relaxed: see `look_at_window`.
    file[H_WINDOW_TRACES].store(0, Relaxed);
    file[H_WINDOW].fetch_add(1, Relaxed);
    let used = (file[H_SLOTS].load(Relaxed) as usize).min(PRIVATE);
    for index in (0..used).filter(|index| pages::is_there(SLOTS + index * SLOT_WORDS)) {
        let slot = &file[SLOTS + index * SLOT_WORDS..][..SLOT_WORDS];
        // Relaxed: hints for a thread that reads them at its next draw. If it sees only some of the
        // stores, it draws too early or too late, once.
        let left = slot[S_COUNTDOWN].load(Relaxed);
        if slot[S_TRACE].load(Relaxed) == 0 && left > 1 {
            slot[S_LEFT].store(left, Relaxed);
            slot[S_POKED].store(1, Relaxed);
            // The thread may overwrite it: then it notices the window at its next draw.
            slot[S_COUNTDOWN].store(1, Relaxed);
        }
    }
}
