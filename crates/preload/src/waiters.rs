//! Locks with waiters: their number, their start, and the time of the last release. Only waits come
//! here, so that an uncontended lock costs no shared cache line.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::index::taken;
use crate::layout::*;
use crate::thread::Thread;
use crate::{arch, map, native, room};

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
        let first = place(lock, 0, LOCK_COUNT);
        let (bits, bit) = taken(first);
        if !make && bits.load(Relaxed) & bit == 0 {
            return None;
        }
        let file = map::file()?;
        for at in (first..first + PROBES).map(|at| at % LOCK_COUNT) {
            if !room::has(file, LOCKS + at * LOCK_WORDS, LOCK_WORDS) {
                return None;
            }
            let words = &file[LOCKS + at * LOCK_WORDS..][..LOCK_WORDS];
            let own = &words[L_ADDRESS];
            let mut found = own.load(Relaxed);
            if found == 0 && make {
                found = own.compare_exchange(0, lock, Relaxed, Relaxed).err().unwrap_or(lock);
                let (bits, bit) = taken(at);
                bits.fetch_or(bit, Relaxed);
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

    /// Waits with `block`, in which the thread may be cancelled: then it waits no more.
    pub(crate) fn until(this: Option<Self>, block: impl FnOnce() -> c_int) -> c_int {
        extern "C" fn cancelled(words: *mut c_void) {
            // SAFETY: the words of a lock in the file, which stays mapped.
            let words = unsafe { &*words.cast::<[AtomicU64; LOCK_WORDS]>() };
            Waiters(words).leave(arch::ticks());
            if let Some(thread) = Thread::known() {
                thread.shows_nothing();
            }
        }
        match this {
            Some(Self(words)) => native::undone_by(cancelled, words.as_ptr() as usize, block),
            None => block(),
        }
    }

    /// A thread begins to wait.
    pub(crate) fn enter(self, now: u64) {
        let waiters = self.0[L_WAITERS].fetch_add(1, Relaxed) + 1;
        if waiters == 1 {
            self.0[L_SINCE].store(now, Relaxed);
        }
        if waiters > self.0[L_MOST].load(Relaxed) {
            self.0[L_MOST].fetch_max(waiters, Relaxed);
        }
    }

    /// A thread waits no more.
    pub(crate) fn leave(self, now: u64) {
        if self.0[L_WAITERS].fetch_sub(1, Relaxed) != 1 {
            return;
        }
        let since = self.0[L_SINCE].load(Relaxed);
        let length = now.saturating_sub(since);
        self.0[L_WAITED].fetch_add(length, Relaxed);
        if self.0[L_LONGEST].load(Relaxed) < length
            && self.0[L_LONGEST].fetch_max(length, Relaxed) < length
        {
            self.0[L_LONGEST_AT].store(since, Relaxed);
        }
    }

    /// The owner is about to give the lock up; noted if somebody waits.
    pub(crate) fn release(self, now: u64) {
        if self.0[L_WAITERS].load(Relaxed) != 0 {
            self.0[L_RELEASED].store(now, Relaxed);
        }
    }

    /// Threads that wait for this condition give up `mutex`.
    pub(crate) fn gives_up(self, mutex: usize) {
        self.0[L_MUTEX].store(mutex as u64, Relaxed);
    }

    /// A thread begins to wait for this condition; whether nobody else ever does, so that it is
    /// what the thread is woken by and not what it waits for.
    pub(crate) fn is_own_of(self, thread: u64) -> bool {
        let known = self.0[L_WAITER].load(Relaxed);
        if known == MANY {
            return false;
        }
        let (owner, waits) = (known & ((1 << WAITS_SHIFT) - 1), known >> WAITS_SHIFT);
        let next = match owner {
            0 => thread | 1 << WAITS_SHIFT,
            // Far from the end of its bits: more says nothing.
            _ if owner == thread => thread | (waits + 1).min(1 << 16) << WAITS_SHIFT,
            // One that was given on to another thread, for the other one has ended.
            _ if waits > 2 * OWN_AFTER => thread | 1 << WAITS_SHIFT,
            _ => MANY,
        };
        self.0[L_WAITER].store(next, Relaxed);
        owner == thread && waits >= OWN_AFTER
    }

    /// The one thread that waits for it, by its [`id`](crate::thread::Thread::id).
    pub(crate) fn only_waiter(self) -> Option<u64> {
        let known = self.0[L_WAITER].load(Relaxed);
        (known != MANY).then_some(known & ((1 << WAITS_SHIFT) - 1))
    }

    /// A thread has it now.
    pub(crate) fn took(self, thread: u64) {
        self.0[L_OWNER].store(thread, Relaxed);
    }

    /// A thread that `took` it waits for it again, so it did not have it.
    pub(crate) fn went_on(self, thread: u64) {
        if self.0[L_OWNER].load(Relaxed) == thread {
            self.0[L_OWNER].store(0, Relaxed);
        }
    }

    /// A thread is about to give it up; whether it has it.
    pub(crate) fn gives(self, thread: u64) -> bool {
        let is_owner = self.0[L_OWNER].load(Relaxed) == thread;
        if is_owner {
            self.0[L_OWNER].store(0, Relaxed);
        }
        is_owner
    }

    /// A thread gave it up that had it, or did not.
    pub(crate) fn gave(self, had_it: bool) {
        let word = if had_it { L_OWN } else { L_OTHER };
        self.0[word].fetch_add(1, Relaxed);
    }

    /// Whether those that have it give it up: so it was often, and seldom otherwise.
    pub(crate) fn is_owned(self) -> bool {
        /// Times that tell.
        const OFTEN: u64 = 16;
        let [own, other] = [L_OWN, L_OTHER].map(|word| self.0[word].load(Relaxed));
        own > OFTEN + 2 * other
    }

    /// A thread signals what it waited for without having left the section in between: it had
    /// nothing.
    pub(crate) fn told(self) {
        self.0[L_OTHER].fetch_add(1, Relaxed);
    }

    /// A thread gives up what it never waited for: that tells only if somebody has it.
    pub(crate) fn passed(self, thread: u64) {
        if ![0, thread].contains(&self.0[L_OWNER].load(Relaxed)) {
            self.0[L_OTHER].fetch_add(1, Relaxed);
        }
    }

    /// The thread that has it, by its [`id`](crate::thread::Thread::id); 0: none.
    pub(crate) fn owner(self) -> u64 {
        self.0[L_OWNER].load(Relaxed)
    }

    /// When it was last given up, ticks.
    pub(crate) fn released(self) -> u64 {
        self.0[L_RELEASED].load(Relaxed)
    }
}
