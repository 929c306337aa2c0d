//! Locks that somebody waits for: how many do, since when, and when the lock was last given up.
//! Only waits come here, so that an uncontended lock costs no shared cache line.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::layout::*;
use crate::process;

/// Places that are looked at before the table counts as full.
const PROBES: usize = 16;

/// The waiters of one lock.
#[derive(Clone, Copy)]
pub(crate) struct Waiters(&'static [AtomicU64]);

impl Waiters {
    /// Those of `lock`, if the table has room for them.
    pub(crate) fn of(lock: usize) -> Option<Self> {
        Self::find(lock as u64, true)
    }

    /// Those of `lock`, if it ever had any.
    pub(crate) fn known(lock: usize) -> Option<Self> {
        Self::find(lock as u64, false)
    }

    fn find(lock: u64, make: bool) -> Option<Self> {
        let file = process::file()?;
        let first = place(lock, 0, LOCK_COUNT);
        for at in (first..first + PROBES).map(|at| at % LOCK_COUNT) {
            let words = &file[LOCKS + at * LOCK_WORDS..][..LOCK_WORDS];
            let own = &words[L_ADDRESS];
            let mut found = own.load(Relaxed);
            if found == 0 && make {
                found = own.compare_exchange(0, lock, Relaxed, Relaxed).err().unwrap_or(lock);
            }
            if found == lock {
                return Some(Self(words));
            }
            if found == 0 {
                return None;
            }
        }
        None
    }

    /// A thread begins to wait.
    pub(crate) fn enter(self, now: u64) {
        let waiters = self.0[L_WAITERS].fetch_add(1, Relaxed) + 1;
        if waiters == 1 {
            self.0[L_SINCE].store(now, Relaxed);
        }
        self.0[L_MOST].fetch_max(waiters, Relaxed);
    }

    /// A thread waits no more.
    pub(crate) fn leave(self, now: u64) {
        if self.0[L_WAITERS].fetch_sub(1, Relaxed) != 1 {
            return;
        }
        let since = self.0[L_SINCE].load(Relaxed);
        let length = now.saturating_sub(since);
        self.0[L_WAITED].fetch_add(length, Relaxed);
        if self.0[L_LONGEST].fetch_max(length, Relaxed) < length {
            self.0[L_LONGEST_AT].store(since, Relaxed);
        }
    }

    /// The owner is about to give the lock up; noted if somebody waits.
    pub(crate) fn release(self, now: u64) {
        if self.0[L_WAITERS].load(Relaxed) != 0 {
            self.0[L_RELEASED].store(now, Relaxed);
        }
    }

    /// When it was last given up, ticks.
    pub(crate) fn released(self) -> u64 {
        self.0[L_RELEASED].load(Relaxed)
    }
}
