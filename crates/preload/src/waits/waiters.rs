//! Locks with waiters: the number of waiters, the time since which there are any, and the time of
//! the last release. Only waits access this data, so that an uncontended lock costs no shared cache
//! line.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::file::index::taken;
use crate::file::map::{self, get, set};
use crate::file::pages;
use crate::layout::{LOCK_COUNT, Lock, MANY, Mapped, OWN_AFTER, WAITS_SHIFT, place};
use crate::policy::platform;
use crate::threads::lines::Key;
use crate::threads::thread::{Hold, Thread};

/// Entries that are probed before the table counts as full.
const PROBES: usize = 16;

#[derive(Clone, Copy)]
pub(crate) struct Waiters(&'static Lock<Mapped>);

impl Waiters {
    /// Returns the waiters of `lock`, if the table has room for them.
    pub(crate) fn of(lock: usize) -> Option<Self> {
        Self::find(lock as u64, true)
    }

    /// Returns the waiters of `lock`, if it ever had any.
    pub(crate) fn known(lock: usize) -> Option<Self> {
        Self::find(lock as u64, false)
    }

    fn find(lock: u64, make: bool) -> Option<Self> {
        let first = place(lock, 0, LOCK_COUNT);
        let (bits, bit) = taken(first);
        // Relaxed: a thread that does not see the bit yet behaves as if the lock never had waiters.
        if !make && bits.load(Relaxed) & bit == 0 {
            return None;
        }
        let file = map::file()?;
        for index in (first..first + PROBES).map(|index| index % LOCK_COUNT) {
            let entry = &file.locks[index];
            if !pages::has(file, entry) {
                return None;
            }
            // Relaxed: an entry is its address and statistics, which start at 0; nothing is
            // published.
            let mut known = entry.address.load(Relaxed);
            if known == 0 && make {
                let made = entry.address.compare_exchange(0, lock, Relaxed, Relaxed);
                known = made.err().unwrap_or(lock);
                let (bits, bit) = taken(index);
                bits.fetch_or(bit, Relaxed);
            }
            if known == lock {
                return Some(Self(entry));
            }
            if known == 0 {
                return None;
            }
        }
        None
    }

    /// Waits with `block`, in which the thread may be cancelled: then it stops waiting.
    pub(crate) fn until(this: Option<Self>, block: impl FnOnce() -> c_int) -> c_int {
        extern "C" fn cancelled(entry: *mut c_void) {
            // SAFETY: a lock in the file, which stays mapped.
            Waiters(unsafe { &*entry.cast() }).leave(arch::ticks());
            if let Some(thread) = Thread::known() {
                thread.shows_nothing();
            }
        }
        match this {
            Some(Self(entry)) => {
                platform::undone_by(cancelled, core::ptr::from_ref(entry) as usize, block)
            }
            None => block(),
        }
    }

    /// Notes that a thread begins to wait.
    pub(crate) fn enter(self, now: u64) {
        // Relaxed, in this file: each number is a statistic. If two threads change the number of
        // waiters at the same time, the start or the end of a wait may be that of the other.
        let waiters = self.0.waiters.fetch_add(1, Relaxed) + 1;
        if waiters == 1 {
            set(&self.0.since, now);
        }
        if waiters > get(&self.0.waiters_max) {
            self.0.waiters_max.fetch_max(waiters, Relaxed);
        }
    }

    /// Notes that a thread stops waiting.
    pub(crate) fn leave(self, now: u64) {
        if self.0.waiters.fetch_sub(1, Relaxed) != 1 {
            return;
        }
        let since = get(&self.0.since);
        // Relaxed: see `enter`.
        let length = now.saturating_sub(since);
        self.0.waited.fetch_add(length, Relaxed);
        if get(&self.0.longest) < length && self.0.longest.fetch_max(length, Relaxed) < length {
            set(&self.0.longest_at, since);
        }
    }

    /// Notes that the owner is about to release the lock, if threads wait for it.
    pub(crate) fn release(self, now: u64, hold: &Hold) {
        if get(&self.0.waiters) != 0 {
            set(&self.0.released, now);
            set(&self.0.released_weight, hold.weight);
        }
    }

    /// Notes that a thread has acquired the lock whose release will not be noted: the time of an
    /// earlier release says nothing about the next owner.
    pub(crate) fn passes(self) {
        if get(&self.0.released) != 0 {
            set(&self.0.released, 0);
        }
    }

    /// Notes that threads which wait for this condition release `mutex`.
    pub(crate) fn gives_up(self, mutex: usize) {
        if self.mutex() != mutex as u64 {
            set(&self.0.mutex, mutex as u64);
        }
    }

    /// Returns the mutex that threads released at their last wait for this condition; 0: none.
    pub(crate) fn mutex(self) -> u64 {
        get(&self.0.mutex)
    }

    /// Notes that a thread begins to wait for this condition. Returns whether no other thread ever
    /// does: then the condition is the thread's means of wakeup, not the cause of its wait.
    pub(crate) fn is_own_of(self, thread: u64) -> bool {
        let known = get(&self.0.waiter);
        if known == MANY {
            return false;
        }
        let (owner, waits) = (known & ((1 << WAITS_SHIFT) - 1), known >> WAITS_SHIFT);
        let next = match owner {
            0 => thread | 1 << WAITS_SHIFT,
            // Limited far below the maximum of the field: a higher number says nothing more.
            _ if owner == thread => thread | (waits + 1).min(1 << 16) << WAITS_SHIFT,
            // The condition was passed on to another thread because the first one has ended.
            _ if waits > 2 * OWN_AFTER => thread | 1 << WAITS_SHIFT,
            _ => MANY,
        };
        set(&self.0.waiter, next);
        owner == thread && waits >= OWN_AFTER
    }

    /// Returns the only thread that waits for it, by its
    /// [`id`](crate::threads::thread::Thread::id).
    pub(crate) fn only_waiter(self) -> Option<u64> {
        let known = get(&self.0.waiter);
        (known != MANY).then_some(known & ((1 << WAITS_SHIFT) - 1))
    }

    /// Notes the thread that has acquired it.
    pub(crate) fn took(self, thread: u64) {
        set(&self.0.owner, thread);
    }

    /// Notes a thread that may have acquired it without a wait, unless it has an owner.
    pub(crate) fn took_free(self, thread: u64) {
        if self.owner() == 0 {
            self.took(thread);
        }
    }

    /// Notes that a thread was woken for it. Its owner until now has taken the unit without a wait,
    /// if the thread does not find one.
    pub(crate) fn woke(self, thread: u64) {
        let owner = self.owner();
        set(&self.0.overtaker, if owner == thread { 0 } else { owner });
        self.took(thread);
    }

    /// Notes that a thread waits for it again: a thread that `took` it did not get it.
    pub(crate) fn went_on(self, thread: u64) {
        if get(&self.0.owner) == thread {
            set(&self.0.owner, get(&self.0.overtaker));
        }
        if [get(&self.0.owner), thread].contains(&get(&self.0.overtaker)) {
            set(&self.0.overtaker, 0);
        }
    }

    /// Called when a thread is about to release it. Returns whether the thread owns it.
    pub(crate) fn gives(self, thread: u64) -> bool {
        if get(&self.0.overtaker) == thread {
            set(&self.0.overtaker, 0);
        }
        let is_owner = get(&self.0.owner) == thread;
        if is_owner {
            set(&self.0.owner, 0);
        }
        is_owner
    }

    /// Counts a release by its owner, or by another thread.
    pub(crate) fn gave(self, had_it: bool) {
        let releases = if had_it { &self.0.owner_releases } else { &self.0.other_releases };
        releases.fetch_add(1, Relaxed);
    }

    /// Returns whether its owner usually releases it, judged after enough releases.
    pub(crate) fn is_owned(self) -> bool {
        /// Number of releases that are needed for a decision.
        const OFTEN: u64 = 16;
        get(&self.0.owner_releases) > OFTEN + 2 * get(&self.0.other_releases)
    }

    /// Counts a signal by a thread that waited for the condition and has not left the critical
    /// section since: it owned nothing.
    pub(crate) fn told(self) {
        self.0.other_releases.fetch_add(1, Relaxed);
    }

    /// Counts a signal by a thread that never waited for the condition, if another thread owns it.
    /// The signal represents `weight` signals.
    pub(crate) fn passed(self, thread: u64, weight: u64) {
        if weight != 0 && ![0, thread].contains(&self.owner()) {
            self.0.other_releases.fetch_add(weight, Relaxed);
        }
    }

    /// Returns its owner, by its [`id`](crate::threads::thread::Thread::id); 0: none.
    pub(crate) fn owner(self) -> u64 {
        get(&self.0.owner)
    }

    /// Returns the time of the last release, ticks, and the number of releases that it represents.
    pub(crate) fn released(self) -> [u64; 2] {
        [get(&self.0.released), get(&self.0.released_weight)]
    }
}

/// Begins to time a hold that represents `weight` holds.
#[cold]
#[inline(never)]
pub(crate) fn hold(thread: Thread, key: Key, lock: usize, weight: u64) {
    if let Some(detail) = thread.detail(Some(key)) {
        // Waiters of the lock record the callers of its owner.
        if Waiters::known(lock).is_some() {
            thread.learn_callers(detail);
        }
        thread.hold(lock, thread.pack(key, detail), weight);
    }
}
