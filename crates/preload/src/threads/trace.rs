//! Traces: in windows that open some 25 ms and later an eighth of the run apart, each thread
//! records its steps until its trace is full. Unlike counts by call site, a trace contains the
//! order of the steps: nested locks, signalling threads, and frequencies.
//!
//! A thread checks for a window when it releases a lock with a timed hold, and after a wait. The
//! thread that opens a window makes a draw of timed acquisitions due in all others, so that other
//! acquisitions need no check.

use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::arch::number::PRCTL;
use crate::file::map::{self, File, get, index_of, set, words};
use crate::file::pages;
use crate::layout::{STEP_OFF, STEP_SHIFT, TRACE_COUNT};
use crate::system::calls::call;
use crate::system::rights::is_quiet;
use crate::threads::details;
use crate::threads::lines::Key;
use crate::threads::local::{PRIVATE, TRACED};
use crate::threads::thread::Thread;

/// Minimum number of ticks between two windows: some 25 ms.
const APART: u64 = 1 << 26;
/// The same as a part of the run so far: an eighth.
const PART: u64 = 8;
/// Maximum number of traces in a window while the first, second, third and last quarter of all
/// traces is being used.
const MOST: [usize; 4] = [48, 48, 24, 12];

// Words of `Local::sample`.
/// End of the thread's trace, as an index of a word of the file.
const END: usize = 0;
/// Switches until the last step of the trace.
const SWITCHES: usize = 1;
/// [`STEP_OFF`] of the step that has begun.
const OFF: usize = 2;
/// Words of a step.
const STEP_WORDS: usize = 3;

/// `PR_GET_NAME` of prctl(2), which writes at most 16 bytes.
const GET_NAME: usize = 16;

impl Thread {
    /// Opens a window if it is time, and begins a trace in a window that is new to the thread.
    pub(crate) fn look_at_window(self, now: u64) {
        let Some(file) = map::file() else { return };
        let header = &file.header;
        // Relaxed, in this file: windows and steps only sample. A thread that sees a window late
        // traces less of it.
        let next = get(&header.window_next);
        if now >= next {
            let run = now.saturating_sub(get(&header.ticks_begin));
            let after = now + (run / PART).max(APART);
            if header.window_next.compare_exchange(next, after, Relaxed, Relaxed).is_ok() {
                open(file);
            }
        }
        let (window, noticed) = (get(&header.window), &arch::local().window);
        if get(noticed) != window {
            set(noticed, window);
            self.begin_trace(file, window);
        }
    }

    fn begin_trace(self, file: &'static File, window: u64) {
        self.end_trace();
        // The number of traces is only an estimate here.
        let used = get(&file.header.traces) as usize;
        let most = MOST[(used * MOST.len() / TRACE_COUNT).min(MOST.len() - 1)];
        // Relaxed: see `look_at_window`.
        if file.header.window_traces.fetch_add(1, Relaxed) as usize >= most {
            return;
        }
        let Some(trace) = details::trace(file) else { return };
        let (local, state) = (arch::local(), self.state());
        set(&trace.slot, get(&local.slot));
        set(&trace.thread, get(&local.thread_id));
        set(&trace.window, window);
        if !is_quiet() {
            let mut name = [0_u64; 2];
            call(PRCTL, [GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0]);
            trace.name.iter().zip(name).for_each(|(word, part)| set(word, part));
        }
        let first = index_of(file, &trace.steps);
        set(&local.sample[END], (first + trace.steps.len() * STEP_WORDS) as u64);
        set(&state.trace, first as u64);
        set(&local.holds, get(&local.holds) | TRACED);
        set(&local.sample[SWITCHES], self.switches());
        set(&local.sample[OFF], 0);
        // From now on, each acquisition is a step and therefore due.
        if get(&state.poked) == 0 {
            set(&state.left, get(self.due()).max(1));
        }
        set(self.due(), 1);
    }

    fn end_trace(self) {
        if self.traces() {
            set(&self.state().trace, 0);
            let holds = &arch::local().holds;
            set(holds, get(holds) & !TRACED);
            arch::local().sample.iter().for_each(|word| set(word, 0));
            // If `open` stores to the countdown at the same time, one of both is lost: then the
            // thread notices the window at its next draw.
            set(self.due(), get(&self.state().left).max(1));
        }
    }

    /// Begins a step, which includes any switch from now on. Returns the current time.
    #[cold]
    pub(crate) fn begin_step(self) -> u64 {
        let sample = &arch::local().sample;
        let switched = self.switches() != get(&sample[SWITCHES]);
        set(&sample[OFF], if switched { STEP_OFF } else { 0 });
        arch::ticks()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn step(self, kind: u64, what: u64, begin: u64, end: u64) {
        if !self.traces() {
            return;
        }
        let Some(file) = map::file() else { return };
        let (sample, first) = (&arch::local().sample, get(&self.state().trace) as usize);
        let [begin_word, end_word, what_word] = &words(file)[first..][..STEP_WORDS] else { return };
        set(begin_word, begin);
        set(end_word, end);
        set(what_word, kind | get(&sample[OFF]) | what << STEP_SHIFT);
        set(&sample[SWITCHES], self.switches());
        let next = first + STEP_WORDS;
        if next >= get(&sample[END]) as usize {
            self.end_trace();
        } else {
            set(&self.state().trace, next as u64);
        }
    }

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

fn open(file: &'static File) {
    set(&file.header.window_traces, 0);
    // Relaxed: see `look_at_window`.
    file.header.window.fetch_add(1, Relaxed);
    let used = (get(&file.header.slots) as usize).min(PRIVATE);
    let states = file.slots[..used].iter().map(|slot| &slot.state);
    for state in states.filter(|state| pages::is_reserved(file, *state)) {
        // Hints for a thread that reads them at its next draw. If it sees only some of the stores,
        // it draws too early or too late, once.
        let left = get(&state.countdown);
        if get(&state.trace) == 0 && left > 1 {
            set(&state.left, left);
            set(&state.poked, 1);
            // The thread may overwrite it: then it notices the window at its next draw.
            set(&state.countdown, 1);
        }
    }
}
