//! Futile wakeups, where the calls do not show them: the thread waits at the same place again after
//! it has done less than a wakeup costs. And wakeups that are passed on: a woken thread wakes the
//! next thread that waits there, as in libraries that release the threads of a broadcast one by
//! one.

use core::sync::atomic::Ordering::Relaxed;

use crate::file::map::{self, Map};
use crate::file::pages;
use crate::layout::*;
use crate::threads::detail::Detail;
use crate::threads::thread::Thread;
use crate::waits::waiters::Waiters;

/// Maximum ticks between a wakeup and the next wait, without other waits, of a thread that found
/// little to do: some 20 us. It acquires the mutex, for which Rust's spin up to 5 us before they
/// sleep and again afterwards, checks the condition, and releases the mutex with a call that wakes
/// the next thread.
const BRIEF: u64 = 1 << 16;

const PLACE: usize = 0;
const END: usize = 1;
const AWAY: usize = 2;
const DETAIL: usize = 3;

/// The two places, as words of the slot.
const ROUNDS: [usize; 2] = [S_ROUNDS, S_ROUNDS + ROUND_WORDS];

impl Thread {
    /// Returns whether the thread, which waits at `place` from `asked` on, has done little since
    /// its last wait there.
    pub(crate) fn did_little(self, place: usize, asked: u64) -> bool {
        let known = ROUNDS.into_iter().find(|at| self.get(at + PLACE) == place as u64);
        known.is_some_and(|at| {
            let [end, away] = [END, AWAY].map(|word| self.get(at + word));
            end != 0 && asked.saturating_sub(end).saturating_sub(away) < BRIEF
        })
    }

    /// Counts the last wakeup at `place` as futile if the thread has done little since. A thread
    /// that has not even left the critical section of the mutex has done nothing.
    pub(crate) fn returns(self, detail: Detail, place: usize, asked: u64, has_left: bool) {
        if !has_left || self.did_little(place, asked) {
            detail.add(D_FUTILE);
            if has_left {
                detail.add(D_RETURNED);
            }
        }
    }

    /// Notes the end of such a wait, and its detail if a wakeup ended it.
    pub(crate) fn waited_at(self, place: usize, [asked, got]: [u64; 2], by: Option<Detail>) {
        let here = ROUNDS.into_iter().find(|at| self.get(at + PLACE) == place as u64);
        // The older place is replaced.
        let here = here.unwrap_or_else(|| {
            let [one, other] = ROUNDS;
            if self.get(one + END) <= self.get(other + END) { one } else { other }
        });
        let other = if here == ROUNDS[0] { ROUNDS[1] } else { ROUNDS[0] };
        self.set(other + AWAY, self.get(other + AWAY) + got.saturating_sub(asked));
        for (word, value) in [
            (PLACE, place as u64),
            (END, if by.is_some() { got } else { 0 }),
            (AWAY, 0),
            (DETAIL, by.map_or(0, Detail::index)),
        ] {
            self.set(here + word, value);
        }
    }

    /// Notes that the thread has waited for something else from `asked` until `got`.
    pub(crate) fn was_away(self, [asked, got]: [u64; 2]) {
        for at in ROUNDS {
            self.set(at + AWAY, self.get(at + AWAY) + got.saturating_sub(asked));
        }
    }

    /// Called before the thread wakes the waiter of `all`: if that thread waits where this one did,
    /// the wakeup is counted as passed on.
    pub(crate) fn passes_on(self, file: &'static Map, all: Waiters) {
        let Some(number) = all.only_waiter().and_then(|id| (id as usize).checked_sub(1)) else {
            return;
        };
        if number >= SLOT_COUNT || !pages::is_there(SLOTS + number * SLOT_WORDS) {
            return;
        }
        let slot = map::slot(file, number);
        // If only one thread waits for the condition, the detail contains the call stack.
        let waits = match Detail::at(file, slot[S_WAITS_DETAIL].load(Relaxed)) {
            Some(detail) => detail.site(),
            None => slot[S_WAITS_SITE].load(Relaxed),
        };
        let here = ROUNDS.into_iter().find(|at| waits != 0 && self.get(at + PLACE) == waits);
        let detail = here.filter(|at| self.get(at + END) != 0).map(|at| self.get(at + DETAIL));
        if let Some(detail) = detail.and_then(|index| Detail::at(file, index)) {
            detail.add(D_PASSED);
        }
    }
}
