//! Keys of a thread: a lock, the call site that acquires it, and the number of acquisitions.
//! Counting uses one cache line, in which tags distinguish eight keys; other data of a key is
//! stored elsewhere. The first keys of all threads are close together; a thread that needs more has
//! a table. Locks beyond that share one key for each place.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::arch;
use crate::file::map::{self, add};
use crate::file::pages;
use crate::layout::*;
use crate::threads::lines::{Key, LINE, Line, TABLE, few, line_at};
use crate::threads::local::*;
use crate::threads::thread::Thread;

/// Number of keys in a table above which only contended locks, and places, get one.
const KEYS_FREE: u64 = KEY_COUNT as u64 * 3 / 4;
/// Bits of the address that select a line of a table.
const CHOICE: usize = (LINE_COUNT - 1) * LINE;

/// Returns the kind under which a lock without a key is counted.
#[inline(always)]
fn other(lock: u64) -> u64 {
    lock >> KIND_SHIFT << KIND_SHIFT
}

impl Thread {
    /// Counts a call, and returns the key of this lock and site.
    #[inline(always)]
    pub(crate) fn count(self, kind: u64, lock: usize, site: usize) -> Option<Key> {
        let lock = lock as u64 | kind << KIND_SHIFT;
        let mixed = mixed(lock, site as u64);
        let line = self.line(mixed);
        match line.find(tag(mixed)) {
            Some(count) => Some(self.counted(count)),
            None => self.count_elsewhere(line, mixed, lock, site as u64),
        }
    }

    /// Increments a count.
    #[inline(always)]
    fn counted(self, count: &'static AtomicU32) -> Key {
        /// Below this count, every acquisition is timed.
        const FEWEST: u32 = FIRST as u32 + 1;
        let now = count.load(Relaxed).wrapping_add(1);
        count.store(now, Relaxed);
        // Smaller counts wrap around; counts with the slow bit are above.
        let key = Key { count, is_due: now.wrapping_sub(FEWEST) >= SLOW - FEWEST };
        if key.is_due { self.round(key) } else { key }
    }

    /// Returns the line in which a key is looked up first.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "only the calling thread has them")]
    fn line(self, mixed: u64) -> &'static Line {
        let lines = arch::own_word::<O_LINES>() as usize;
        let choice = CHOICE & (lines & TABLE).wrapping_neg();
        // SAFETY: `attach` and `grow` set it to lines of the file.
        unsafe { line_at((lines & !TABLE) + ((line(mixed) * LINE) & choice)) }
    }

    #[inline(always)]
    #[expect(clippy::unused_self, reason = "only the calling thread has them")]
    fn has_table(self) -> bool {
        arch::own_word::<O_LINES>() as usize & TABLE != 0
    }

    /// Counts a call whose key is not in the first line.
    #[inline(never)]
    fn count_elsewhere(self, line: &'static Line, mixed: u64, lock: u64, site: u64) -> Option<Key> {
        if self.has_table()
            && let Some(count) = line.beside().find(tag(mixed))
        {
            return Some(self.counted(count));
        }
        // Set only once there is no room for keys of locks.
        if arch::own_word::<O_OTHER>() == other(lock) | site {
            // SAFETY: a count of a table, which stays where it is.
            let count =
                unsafe { AtomicU32::from_ptr(arch::own_word::<O_OTHER_COUNT>() as *mut u32) };
            return Some(self.counted(count));
        }
        self.count_first(lock, site)
    }

    /// Counts the first call with a key.
    #[inline(never)]
    fn count_first(self, lock: u64, site: u64) -> Option<Key> {
        let own = if self.has_room() { self.insert(lock, site) } else { None };
        own.or_else(|| self.count_other(other(lock), site))
    }

    /// Returns the address at which the table is, or will be.
    fn table(self) -> usize {
        core::ptr::from_ref(&self.0[S_LINES]) as usize
    }

    /// Returns whether any lock gets a key.
    fn has_room(self) -> bool {
        !self.has_table() || self.get(S_USED) < KEYS_FREE
    }

    /// Counts a call under the key that all locks without a key share at this place. The pairs of
    /// lines are searched one after the other, until one has room.
    fn count_other(self, lock: u64, site: u64) -> Option<Key> {
        let mixed = mixed(lock, site);
        let mut line = self.line(mixed);
        // Without room for a table there is no adjacent line.
        let pairs = if self.has_table() { LINE_COUNT / 2 } else { 0 };
        for _ in 0..pairs {
            let found = line.find(tag(mixed)).or_else(|| line.beside().find(tag(mixed)));
            let key = match found {
                Some(count) => Some(self.counted(count)),
                None => self.insert_at(line, lock, site),
            };
            if let Some(key) = key {
                if !self.has_room() {
                    self.put(O_OTHER_COUNT, key.address() as u64);
                    self.put(O_OTHER, lock | site);
                }
                return Some(key);
            }
            line = self.after(line);
        }
        add(&self.0[S_LOST], 1);
        None
    }

    /// Returns the line of the next pair of a table.
    fn after(self, line: &'static Line) -> &'static Line {
        let table = self.table();
        let far = core::ptr::from_ref(line) as usize - table + 2 * LINE;
        // SAFETY: a line of the table.
        unsafe { line_at(table + far % (LINE_COUNT * LINE)) }
    }

    /// Returns the key of a contended lock: a separate one if it had none, as far as there is room.
    pub(crate) fn key_of_wait(self, kind: u64, lock: usize, site: usize, key: Key) -> Key {
        if !self.is_other(key) {
            return key;
        }
        let Some(own) = self.insert(lock as u64 | kind << KIND_SHIFT, site as u64) else {
            return key;
        };
        // Relaxed: only this thread writes its counts.
        key.count.store(key.count.load(Relaxed).saturating_sub(1), Relaxed);
        own
    }

    /// Returns whether the key is shared by all locks that have none.
    pub(crate) fn is_other(self, key: Key) -> bool {
        self.has_table()
            && self
                .key_words(self.number(key))
                .is_some_and(|words| words[K_LOCK].load(Relaxed) << (64 - KIND_SHIFT) == 0)
    }

    #[cold]
    #[inline(never)]
    fn insert(self, lock: u64, site: u64) -> Option<Key> {
        let line = self.line(mixed(lock, site));
        if self.has_table() || line.free().is_some() {
            return self.insert_at(line, lock, site);
        }
        if self.grow() { self.insert(lock, site) } else { None }
    }

    /// Inserts a key in this line, or in the adjacent one.
    #[cold]
    fn insert_at(self, mut line: &'static Line, lock: u64, site: u64) -> Option<Key> {
        let mut free = line.free();
        if free.is_none() && self.has_table() {
            line = line.beside();
            free = line.free();
        }
        let at = free?;
        let key = Key { count: &line.counts[at], is_due: true };
        let words = self.key_words(self.number(key))?;
        // Relaxed: only this thread and its signal handlers find keys by their tags. `owners::held`
        // may read them at any time and compares the lock, so that the worst case is a wrong site.
        add(&self.0[S_USED], 1);
        words[K_SITE].store(site, Relaxed);
        words[K_LOCK].store(lock, Relaxed);
        line.counts[at].store(1, Relaxed);
        line.tags[at].store(tag(mixed(lock, site)), Relaxed);
        Some(key)
    }

    /// Moves the first few keys to a table. Returns whether there is room for one.
    #[cold]
    fn grow(self) -> bool {
        let (Some(file), number) = (map::file(), self.own(O_SLOT) as usize) else {
            return false;
        };
        let words = SLOT_WORDS - S_LINES;
        // A signal handler that interrupts this can only use existing keys.
        let table = SLOTS + number * SLOT_WORDS + S_LINES;
        if self.get(S_GROWN) != 0 {
            return false;
        }
        self.set(S_GROWN, GROWING);
        if !pages::reserve(file, table, words) {
            return false;
        }
        let old = few(file, number);
        // SAFETY: the first words of the few are a line.
        let from = unsafe { line_at(old.as_ptr() as usize) };
        let table = self.table();
        for (at, words) in old[F_KEYS..].chunks_exact(KEY_WORDS).enumerate() {
            let of = |word: usize| words[word].load(Relaxed);
            let mixed = mixed(of(K_LOCK), of(K_SITE));
            // SAFETY: a line of the table, which is empty except for up to seven keys.
            let to = unsafe { line_at(table + line(mixed) * LINE) };
            let Some(free) = to.free() else { continue };
            let key = line(mixed) * LINE_KEYS + free;
            for word in 0..KEY_WORDS {
                self.set(S_KEYS + key * KEY_WORDS + word, of(word));
            }
            // Relaxed: published by the release store below.
            to.counts[free].store(from.counts[at].load(Relaxed), Relaxed);
            to.tags[free].store(tag(mixed), Relaxed);
        }
        // Release: a reader that sees this reads the counts here, which equal the old ones.
        self.0[S_GROWN].store(GROWN, Release);
        self.put(O_LINES, (table | TABLE) as u64);
        true
    }

    /// Returns the number of a key. The lowest numbers are reserved for the first few keys.
    pub(crate) fn number(self, key: Key) -> usize {
        let table = self.table();
        let line = key.address() & !(LINE - 1);
        match line.checked_sub(table) {
            Some(far) if far < LINE_COUNT * LINE => {
                LINE_KEYS + far / LINE * LINE_KEYS + key.in_line()
            }
            _ => key.in_line(),
        }
    }

    /// Returns the key with this number.
    pub(crate) fn key(self, number: usize) -> Option<Key> {
        let line = match number.checked_sub(LINE_KEYS) {
            None => few(map::file()?, self.own(O_SLOT) as usize).as_ptr() as usize,
            Some(far) => {
                let line = self.table();
                line + far / LINE_KEYS % LINE_COUNT * LINE
            }
        };
        // SAFETY: a line of the thread.
        let line = unsafe { line_at(line) };
        Some(Key { count: &line.counts[number % LINE_KEYS], is_due: false })
    }

    /// Returns the other words of a key.
    pub(crate) fn key_words(self, number: usize) -> Option<&'static [AtomicU64]> {
        let all = match number.checked_sub(LINE_KEYS) {
            None => &few(map::file()?, self.own(O_SLOT) as usize)[F_KEYS..],
            Some(_) => &self.0[S_KEYS..],
        };
        let at = number.checked_sub(LINE_KEYS).unwrap_or(number);
        all.get(at * KEY_WORDS..(at + 1) * KEY_WORDS)
    }

    /// Restarts a count that has become too large for its bits.
    #[cold]
    #[inline(never)]
    fn round(self, key: Key) -> Key {
        if key.count.load(Relaxed) & !SLOW != 0 {
            return key;
        }
        // Undoes the carry, which has set the slow bit of a key that was not slow, or cleared that
        // bit of a slow one.
        key.count.fetch_xor(SLOW, Relaxed);
        if let Some(words) = self.key_words(self.number(key)) {
            let told = Told(words[K_DETAIL].load(Relaxed));
            words[K_DETAIL].store(told.round().0, Relaxed);
        }
        key
    }

    /// Sets whether every hold of this key is timed from now on.
    pub(crate) fn set_slow(self, number: usize, slow: bool) {
        if let Some(Key { count, .. }) = self.key(number) {
            let now = count.load(Relaxed);
            count.store(if slow { now | SLOW } else { now & !SLOW }, Relaxed);
        }
    }
}
