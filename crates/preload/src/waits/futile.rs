//! Futile wakeups, where the calls do not show them: the thread waits at the same place again after
//! it has done less than a wakeup costs. And wakeups that are passed on: a woken thread wakes the
//! next thread that waits there, as in libraries that release the threads of a broadcast one by
//! one.

use crate::arch;
use crate::file::map::{File, add, get, set};
use crate::file::pages;
use crate::layout::{Mapped, Round};
use crate::threads::detail::Detail;
use crate::threads::thread::Thread;
use crate::waits::waiters::Waiters;

/// Maximum ticks between a wakeup and the next wait, without other waits, of a thread that found
/// little to do: some 20 us. It acquires the mutex, for which Rust's spin up to 5 us before they
/// sleep and again afterwards, checks the condition, and releases the mutex with a call that wakes
/// the next thread.
const BRIEF: u64 = 1 << 16;

/// Returns whether the thread has done little since this wait when it waits again, or wakes
/// another thread, at `now`.
fn is_brief(round: &Round<Mapped>, now: u64) -> bool {
    let (end, away) = (get(&round.end), get(&round.away));
    end != 0 && now.saturating_sub(end).saturating_sub(away) < BRIEF
}

impl Thread {
    fn round_at(self, place: u64) -> Option<&'static Round<Mapped>> {
        self.state().rounds.iter().find(|round| get(&round.place) == place)
    }

    /// Returns whether the thread, which waits at `place` from `asked` on, has done little since
    /// its last wait there.
    pub(crate) fn did_little(self, place: usize, asked: u64) -> bool {
        self.round_at(place as u64).is_some_and(|round| is_brief(round, asked))
    }

    /// Counts the last wakeup at `place` as futile if the thread has done little since. A thread
    /// that has not even left the critical section of the mutex has done nothing.
    pub(crate) fn returns(self, detail: Detail, place: usize, asked: u64, has_left: bool) {
        if !has_left || self.did_little(place, asked) {
            let counts = detail.counts();
            add(&counts.futile, 1);
            if has_left {
                add(&counts.returned, 1);
            }
        }
    }

    /// Notes the end of such a wait, and its detail if a wakeup ended it.
    pub(crate) fn waited_at(self, place: usize, [asked, got]: [u64; 2], by: Option<Detail>) {
        let [first, second] = &self.state().rounds;
        // The older place is replaced.
        let here = self
            .round_at(place as u64)
            .unwrap_or_else(|| if get(&first.end) <= get(&second.end) { first } else { second });
        let other = if core::ptr::eq(here, first) { second } else { first };
        // A sleep until a time limit is no wait: `Thread.sleep` of Java waits for a condition.
        if by.is_some() {
            add(&other.away, got.saturating_sub(asked));
        }
        set(&here.place, place as u64);
        set(&here.end, if by.is_some() { got } else { 0 });
        set(&here.away, 0);
        set(&here.detail, by.map_or(0, Detail::index));
    }

    /// Notes that the thread has waited for something else from `asked` until `got`.
    pub(crate) fn was_away(self, [asked, got]: [u64; 2]) {
        for round in &self.state().rounds {
            add(&round.away, got.saturating_sub(asked));
        }
    }

    /// Called before the thread wakes the waiter of a condition: if that thread waits where this
    /// one did until a moment ago, the wakeup is counted as passed on. It represents `weight`
    /// wakeups.
    pub(crate) fn passes_on(self, file: &'static File, waiters: Waiters, weight: u64) {
        let waiter =
            waiters.only_waiter().and_then(|id| file.slots.get((id as usize).wrapping_sub(1)));
        let Some(waiter) = waiter.map(|slot| &slot.state) else { return };
        if !pages::is_reserved(file, waiter) {
            return;
        }
        // If only one thread waits for the condition, the detail contains the call stack.
        let place = match Detail::at(file, get(&waiter.wait.detail)) {
            Some(detail) => detail.site(),
            None => get(&waiter.wait.site),
        };
        let here =
            self.round_at(place).filter(|round| place != 0 && is_brief(round, arch::ticks()));
        if let Some(detail) = here.and_then(|round| Detail::at(file, get(&round.detail))) {
            add(&detail.counts().passed, weight);
        }
    }
}
