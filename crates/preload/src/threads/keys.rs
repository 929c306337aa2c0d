//! Keys of a thread: a lock, the call site that acquires it, and the number of acquisitions.
//! Counting uses one cache line, in which tags distinguish eight keys; other data of a key is
//! stored elsewhere. The first keys of all threads are close together; a thread that needs more has
//! a table. Locks beyond that share one key for each place.

use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::arch;
use crate::file::map::{self, add, get, set};
use crate::file::pages;
use crate::layout::{
    FIRST, GROWING, GROWN, KIND_SHIFT, LINE_COUNT, LINE_KEYS, SLOW, Told, line, mixed, tag,
};
use crate::threads::lines::{
    Key, KeyData, LINE, Line, TABLE, count_of, line_at, neighbour, unused,
};
use crate::threads::local::Local;
use crate::threads::thread::Thread;

/// Number of keys in a table above which only contended locks, and places, get one.
const KEYS_FREE: u64 = (LINE_COUNT * LINE_KEYS) as u64 * 3 / 4;
/// Bits of the address that select a line of a table.
const CHOICE: usize = (LINE_COUNT - 1) * LINE;

/// Returns the kind under which a lock without a key is counted.
#[inline(always)]
fn kind_of(lock: u64) -> u64 {
    lock >> KIND_SHIFT << KIND_SHIFT
}

/// Returns the address of the thread's lines, with [`TABLE`] if it has a table.
#[inline(always)]
fn lines() -> usize {
    arch::local_word::<{ offset_of!(Local, lines) }>() as usize
}

/// Returns whether the thread has a table of keys.
#[inline(always)]
fn has_table() -> bool {
    lines() & TABLE != 0
}

/// Returns the line in which a key is looked up first.
#[inline(always)]
fn first_line(mixed: u64) -> &'static Line {
    let lines = lines();
    let choice = CHOICE & (lines & TABLE).wrapping_neg();
    // SAFETY: `attach` and `grow` set it to lines of the file.
    unsafe { line_at((lines & !TABLE) + ((line(mixed) * LINE) & choice)) }
}

/// Returns whether the hold of an acquisition that brings a count to this number is timed.
#[inline(always)]
fn is_due(count: u32) -> bool {
    /// Below this count, every acquisition is timed.
    const FEWEST: u32 = FIRST as u32 + 1;
    // Smaller counts wrap around; counts with the slow bit are above.
    count.wrapping_sub(FEWEST) >= SLOW - FEWEST
}

impl Thread {
    /// Counts a call if nothing else is due and its key is where it is looked up first. Returns
    /// whether it is counted.
    #[inline(always)]
    pub(crate) fn counts_plainly(self, kind: u64, lock: usize, site: usize) -> bool {
        let turns_left = self.turns_left();
        if turns_left == 0 || self.was_timed() {
            return false;
        }
        let mixed = mixed(lock as u64 | kind << KIND_SHIFT, site as u64);
        let Some(count) = count_of(first_line(mixed), tag(mixed)) else { return false };
        // Relaxed: only this thread writes its counts.
        let now = count.load(Relaxed).wrapping_add(1);
        if is_due(now) {
            return false;
        }
        count.store(now, Relaxed);
        set(self.due(), turns_left);
        true
    }

    #[inline(always)]
    pub(crate) fn count(self, kind: u64, lock: usize, site: usize) -> Option<Key> {
        let lock = lock as u64 | kind << KIND_SHIFT;
        let mixed = mixed(lock, site as u64);
        let line = first_line(mixed);
        match count_of(line, tag(mixed)) {
            Some(count) => Some(self.counted(count)),
            None => self.count_elsewhere(line, mixed, lock, site as u64),
        }
    }

    #[inline(always)]
    fn counted(self, count: &'static AtomicU32) -> Key {
        // Relaxed: only this thread writes its counts.
        let now = count.load(Relaxed).wrapping_add(1);
        count.store(now, Relaxed);
        let key = Key { count, is_due: is_due(now) };
        if key.is_due { self.round(key) } else { key }
    }

    /// Counts a call whose key is not in the first line.
    #[inline(never)]
    fn count_elsewhere(self, line: &'static Line, mixed: u64, lock: u64, site: u64) -> Option<Key> {
        if has_table()
            && let Some(count) = count_of(neighbour(line), tag(mixed))
        {
            return Some(self.counted(count));
        }
        // Set only once there is no room for keys of locks.
        if get(&arch::local().other) == kind_of(lock) | site {
            // SAFETY: a count of a table, which stays where it is.
            let count = unsafe { AtomicU32::from_ptr(get(&arch::local().other_count) as *mut u32) };
            return Some(self.counted(count));
        }
        self.count_first(lock, site)
    }

    #[inline(never)]
    fn count_first(self, lock: u64, site: u64) -> Option<Key> {
        let separate = if self.has_room() { self.insert(lock, site) } else { None };
        separate.or_else(|| self.count_other(kind_of(lock), site))
    }

    /// Returns the address at which the table is, or will be.
    fn table(self) -> usize {
        self.slot().table.lines.as_ptr() as usize
    }

    /// Returns whether any lock gets a key.
    fn has_room(self) -> bool {
        !has_table() || get(&self.state().used) < KEYS_FREE
    }

    /// Counts a call under the key that all locks without a key share at this place. The pairs of
    /// lines are searched one after the other, until one has room.
    fn count_other(self, lock: u64, site: u64) -> Option<Key> {
        let mixed = mixed(lock, site);
        let mut line = first_line(mixed);
        // Without room for a table there is no adjacent line.
        let pairs = if has_table() { LINE_COUNT / 2 } else { 0 };
        for _ in 0..pairs {
            let count =
                count_of(line, tag(mixed)).or_else(|| count_of(neighbour(line), tag(mixed)));
            let key = match count {
                Some(count) => Some(self.counted(count)),
                None => self.insert_at(line, lock, site),
            };
            if let Some(key) = key {
                if !self.has_room() {
                    set(&arch::local().other_count, key.address() as u64);
                    set(&arch::local().other, lock | site);
                }
                return Some(key);
            }
            line = self.next_pair(line);
        }
        add(&self.state().lost, 1);
        None
    }

    fn next_pair(self, line: &'static Line) -> &'static Line {
        let table = self.table();
        let offset = core::ptr::from_ref(line) as usize - table + 2 * LINE;
        // SAFETY: a line of the table.
        unsafe { line_at(table + offset % (LINE_COUNT * LINE)) }
    }

    /// Returns the key of a contended lock: a separate one if it had none, as far as there is room.
    pub(crate) fn key_of_wait(self, kind: u64, lock: usize, site: usize, key: Key) -> Key {
        if !self.is_other(key) {
            return key;
        }
        let Some(separate) = self.insert(lock as u64 | kind << KIND_SHIFT, site as u64) else {
            return key;
        };
        // Relaxed: only this thread writes its counts.
        key.count.store(key.count.load(Relaxed).saturating_sub(1), Relaxed);
        separate
    }

    /// Returns whether the key is shared by all locks that have none.
    pub(crate) fn is_other(self, key: Key) -> bool {
        has_table()
            && self
                .key_data(self.number(key))
                .is_some_and(|data| get(&data.lock) << (64 - KIND_SHIFT) == 0)
    }

    #[cold]
    #[inline(never)]
    fn insert(self, lock: u64, site: u64) -> Option<Key> {
        let line = first_line(mixed(lock, site));
        if has_table() || unused(line).is_some() {
            return self.insert_at(line, lock, site);
        }
        if self.grow() { self.insert(lock, site) } else { None }
    }

    #[cold]
    /// Inserts a key in this line, or in the adjacent one.
    fn insert_at(self, mut line: &'static Line, lock: u64, site: u64) -> Option<Key> {
        let mut free = unused(line);
        if free.is_none() && has_table() {
            line = neighbour(line);
            free = unused(line);
        }
        let index = free?;
        let key = Key { count: &line.counts[index], is_due: true };
        let data = self.key_data(self.number(key))?;
        // Only this thread and its signal handlers find keys by their tags. `causes::held` may read
        // them at any time and compares the lock, so that the worst case is a wrong site.
        add(&self.state().used, 1);
        set(&data.site, site);
        set(&data.lock, lock);
        // Relaxed: as above.
        line.counts[index].store(1, Relaxed);
        line.tags[index].store(tag(mixed(lock, site)), Relaxed);
        Some(key)
    }

    /// Moves the first few keys to a table. Returns whether there is room for one.
    #[cold]
    fn grow(self) -> bool {
        let Some(file) = map::file() else { return false };
        // A signal handler that interrupts this can only use existing keys.
        if get(&self.state().grown) != 0 {
            return false;
        }
        set(&self.state().grown, GROWING);
        let table = &self.slot().table;
        if !pages::reserve(file, table) {
            return false;
        }
        let few = &file.few[self.number_of_slot()];
        for (from, count) in few.keys.iter().zip(&few.line.counts) {
            let mixed = mixed(get(&from.lock), get(&from.site));
            // The table is empty except for up to seven keys.
            let line_number = line(mixed);
            let to = &table.lines[line_number];
            let Some(index) = unused(to) else { continue };
            let data = &table.keys[line_number * LINE_KEYS + index];
            set(&data.lock, get(&from.lock));
            set(&data.site, get(&from.site));
            set(&data.told, get(&from.told));
            // Relaxed: published by the release store below.
            to.counts[index].store(count.load(Relaxed), Relaxed);
            to.tags[index].store(tag(mixed), Relaxed);
        }
        // Release: a reader that sees this reads the counts here, which equal the old ones.
        self.state().grown.store(GROWN, Release);
        set(&arch::local().lines, (self.table() | TABLE) as u64);
        true
    }

    /// Returns the number of a key. The lowest numbers are reserved for the first few keys.
    pub(crate) fn number(self, key: Key) -> usize {
        let line = key.address() & !(LINE - 1);
        match line.checked_sub(self.table()) {
            Some(offset) if offset < LINE_COUNT * LINE => {
                LINE_KEYS + offset / LINE * LINE_KEYS + key.in_line()
            }
            _ => key.in_line(),
        }
    }

    pub(crate) fn key(self, number: usize) -> Option<Key> {
        let line = match number.checked_sub(LINE_KEYS) {
            None => &map::file()?.few[self.number_of_slot()].line,
            Some(number) => &self.slot().table.lines[number / LINE_KEYS % LINE_COUNT],
        };
        Some(Key { count: &line.counts[number % LINE_KEYS], is_due: false })
    }

    pub(crate) fn key_data(self, number: usize) -> Option<&'static KeyData> {
        match number.checked_sub(LINE_KEYS) {
            None => map::file()?.few[self.number_of_slot()].keys.get(number),
            Some(number) => self.slot().table.keys.get(number),
        }
    }

    /// Restarts a count that has become too large for its bits.
    #[cold]
    #[inline(never)]
    fn round(self, key: Key) -> Key {
        // Relaxed: only this thread writes its counts.
        if key.count.load(Relaxed) & !SLOW != 0 {
            return key;
        }
        // Undoes the carry, which has set the slow bit of a key that was not slow, or cleared that
        // bit of a slow one.
        key.count.fetch_xor(SLOW, Relaxed);
        if let Some(data) = self.key_data(self.number(key)) {
            set(&data.told, Told(get(&data.told)).round().0);
        }
        key
    }

    /// Sets whether every hold of this key is timed from now on.
    pub(crate) fn set_slow(self, number: usize, slow: bool) {
        if let Some(Key { count, .. }) = self.key(number) {
            // Relaxed: only this thread writes its counts.
            let now = count.load(Relaxed);
            count.store(if slow { now | SLOW } else { now & !SLOW }, Relaxed);
        }
    }
}
