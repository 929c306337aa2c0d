//! Traces: in windows that open some 25 ms and later an eighth of the run apart, each thread writes
//! down what it does, step by step, until its trace is full. So the order of its steps is known,
//! which counts by place do not tell: what lies within what, who signals whom, and how often.
//!
//! A thread looks for a window when it draws which hold is timed, and when it has waited. Who opens
//! one makes that draw due in all others, so that nothing is asked at other acquisitions.

use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::layout::*;
use crate::process::{self, Map};
use crate::thread::{Key, Thread};

/// Ticks between two windows at least: some 25 ms.
const APART: u64 = 1 << 26;
/// The same as a part of the run until then.
const PART: u64 = 8;
/// Traces of a window at most, while there is room for all, for half of them, and less.
const MOST: [usize; 4] = [48, 48, 24, 12];

impl Thread {
    /// Whether it has a trace.
    #[inline(always)]
    pub(crate) fn traces(self) -> bool {
        self.get(S_TRACE) != 0
    }

    /// Opens a window if it is time, and begins a trace if there is one.
    pub(crate) fn look_at_window(self, now: u64) {
        let Some(file) = process::file() else { return };
        let next = file[H_WINDOW_NEXT].load(Relaxed);
        if now >= next {
            let run = now.saturating_sub(file[H_TICKS_BEGIN].load(Relaxed));
            let after = now + (run / PART).max(APART);
            if file[H_WINDOW_NEXT].compare_exchange(next, after, Relaxed, Relaxed).is_ok() {
                open(file);
            }
        }
        let window = file[H_WINDOW].load(Relaxed);
        if self.get(S_WINDOW) != window {
            self.set(S_WINDOW, window);
            self.begin_trace(file, window);
        }
    }

    fn begin_trace(self, file: &'static Map, window: u64) {
        self.end_trace();
        let used = file[H_TRACES].load(Relaxed) as usize;
        let most = MOST[(used * MOST.len() / TRACE_COUNT).min(MOST.len() - 1)];
        if file[H_WINDOW_TRACES].fetch_add(1, Relaxed) as usize >= most {
            return;
        }
        let Some(trace) = process::trace(file) else { return };
        let start = core::ptr::from_ref(self.0) as usize - core::ptr::from_ref(file) as usize;
        let slot = (start / 8 - SLOTS) / SLOT_WORDS;
        for (at, value) in [(T_SLOT, slot as u64), (T_THREAD, self.id()), (T_WINDOW, window)] {
            file[trace + at].store(value, Relaxed);
        }
        self.set(S_TRACE_END, (trace + TRACE_WORDS) as u64);
        self.set(S_TRACE, (trace + T_STEPS) as u64);
        self.set(S_HOLDS, self.get(S_HOLDS) | TRACED);
        self.set(S_TRACE_SWITCHES, self.switches());
        self.set(S_TRACE_OFF, 0);
        // What is due at the next acquisition is the next step.
        if self.get(S_POKED) == 0 {
            self.set(S_LEFT, self.get(S_COUNTDOWN).max(1));
        }
        self.set(S_COUNTDOWN, 1);
    }

    fn end_trace(self) {
        if self.traces() {
            self.set(S_TRACE, 0);
            self.set(S_HOLDS, self.get(S_HOLDS) & !TRACED);
            self.set(S_COUNTDOWN, self.get(S_LEFT).max(1));
        }
    }

    /// A step begins: whatever switches the thread away from now on belongs to it. When.
    #[cold]
    pub(crate) fn begin_step(self) -> u64 {
        let switched = self.switches() != self.get(S_TRACE_SWITCHES);
        self.set(S_TRACE_OFF, if switched { STEP_OFF } else { 0 });
        arch::ticks()
    }

    /// Writes a step from `begin` to `end`.
    #[cold]
    #[inline(never)]
    pub(crate) fn step(self, kind: u64, what: u64, begin: u64, end: u64) {
        let (Some(file), at) = (process::file(), self.get(S_TRACE) as usize) else { return };
        if at == 0 {
            return;
        }
        let off = self.get(S_TRACE_OFF);
        file[at].store(begin, Relaxed);
        file[at + 1].store(end, Relaxed);
        file[at + 2].store(kind | off | what << STEP_SHIFT, Relaxed);
        self.set(S_TRACE_SWITCHES, self.switches());
        let next = at + STEP_WORDS;
        if next + STEP_WORDS > self.get(S_TRACE_END) as usize {
            self.end_trace();
        } else {
            self.set(S_TRACE, next as u64);
        }
    }

    /// Writes a step that has a key.
    pub(crate) fn step_at(self, kind: u64, key: Option<Key>, begin: u64, end: u64) {
        if let Some(Key { word, .. }) = key {
            self.step(kind, ((word - S_KEYS) / KEY_WORDS) as u64, begin, end);
        }
    }
}

fn open(file: &'static Map) {
    file[H_WINDOW_TRACES].store(0, Relaxed);
    file[H_WINDOW].fetch_add(1, Relaxed);
    let used = (file[H_SLOTS].load(Relaxed) as usize).min(SLOT_COUNT);
    for index in 0..used {
        let slot = &file[SLOTS + index * SLOT_WORDS..][..SLOT_WORDS];
        let left = slot[S_COUNTDOWN].load(Relaxed);
        if slot[S_TRACE].load(Relaxed) == 0 && left > 1 {
            slot[S_LEFT].store(left, Relaxed);
            slot[S_POKED].store(1, Relaxed);
            // The thread may overwrite it: then it sees the window when it draws next.
            slot[S_COUNTDOWN].store(1, Relaxed);
        }
    }
}
