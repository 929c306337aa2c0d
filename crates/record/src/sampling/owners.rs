//! Owners of locks at the time of a sample, and where they acquired them, from the memory and the
//! file of a process.

use std::collections::BTreeMap;
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;

use crate::layout::{
    self, FewKeys, KIND_SHIFT, Key, LINE_COUNT, LINE_KEYS, LOCK_COUNT, Line, Lock, MUTEX, Part,
    READ, SEMAPHORE, SLOT_COUNT, Slot, State, Table, Told, WRITE, place,
};
use crate::raw::part::read_part;
use crate::sampling::attached::code_words;
use crate::sampling::syscall_file::owner_at;

/// Number of probed entries in the table of locks; the recorded process probes as many.
const PROBES: usize = 16;
/// Number of slots of another process that are searched for an owner: processes that share locks
/// have few threads each.
const FEW_SLOTS: usize = 16;

/// The file of a process and its memory.
pub(crate) struct Source {
    file: File,
    memory: Option<File>,
    /// Address of the file in that memory.
    base: u64,
    /// First line of its memory map; children of a fork have the same one as their parent.
    image: String,
}

/// The owner of a lock at the time of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Its thread ID; 0 if unknown or if there is no owner.
    pub(crate) thread: u64,
    /// Whether the lock has no owner.
    pub(crate) is_free: bool,
}

/// An owner, with the place where it acquired the lock and the detail of that place.
pub(crate) type Found = (Owner, Option<[u64; 2]>);

impl Source {
    pub(crate) fn new(file: File, pid: u32, base: u64, maps: &str) -> Self {
        let memory = File::open(format!("/proc/{pid}/mem")).ok();
        let image = maps.lines().next().unwrap_or_default().to_owned();
        Self { file, memory, base, image }
    }

    /// Reads the part at this offset of the file, bytes.
    pub(crate) fn part<T: Part>(&self, offset: usize) -> Option<Box<T>> {
        read_part(&self.file, offset).ok()
    }

    pub(crate) fn state(&self, slot: usize) -> Option<Box<State>> {
        self.part(slot_at(slot) + offset_of!(Slot, state))
    }

    /// Returns the words of a stack that point into these ranges of code.
    pub(crate) fn code_words(&self, stack: u64, code: &[(u64, u64)]) -> Option<Vec<u64>> {
        code_words(self.memory.as_ref()?, stack, code)
    }

    /// Returns the 32-bit word at this offset in a lock, in bytes.
    pub(crate) fn of_lock(&self, lock: u64, offset: u64) -> Option<u64> {
        let mut word = [0; 4];
        self.memory.as_ref()?.read_exact_at(&mut word, address(lock) + offset).ok()?;
        Some(u32::from_le_bytes(word).into())
    }

    /// Returns the owner of a lock, or `None` if it cannot be determined.
    pub(crate) fn owner(&self, lock: u64) -> Option<Owner> {
        let kind = lock >> KIND_SHIFT;
        if kind == SEMAPHORE {
            // The last taker owns the semaphore until it posts.
            let thread = self.last_taker(address(lock))?;
            let is_free = thread == 0 && self.of_lock(lock, 0).is_some_and(|units| units > 0);
            return Some(Owner { thread, is_free });
        }
        let thread = self.of_lock(lock, owner_at(kind)?)?;
        match thread {
            // A lock does not store its readers.
            0 if kind != MUTEX => None,
            _ => Some(Owner { thread, is_free: thread == 0 }),
        }
    }

    /// Returns the thread that last took a unit of a semaphore, or that a condition admitted last,
    /// until it releases that; 0 if no thread has one.
    fn last_taker(&self, address: u64) -> Option<u64> {
        let first = place(address, 0, LOCK_COUNT);
        for index in (first..first + PROBES).map(|index| index % LOCK_COUNT) {
            let table = offset_of!(layout::File, locks);
            let lock: Box<Lock> = self.part(table + index * size_of::<Lock>())?;
            match lock.address {
                0 => return None,
                known if known == address => {
                    let Some(slot) = lock.owner.checked_sub(1) else { return Some(0) };
                    let state = self.state((slot as usize).min(SLOT_COUNT - 1))?;
                    return Some(state.thread);
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the thread that a condition admitted last, if it has not signalled since.
    pub(crate) fn admitted(&self, condition: u64) -> Option<u64> {
        self.last_taker(address(condition)).filter(|thread| *thread != 0)
    }

    /// Returns whether processes share a lock.
    pub(crate) fn is_shared(&self, lock: u64) -> bool {
        /// Offsets in glibc's locks: the kind of a mutex, in which one bit marks a mutex shared
        /// between processes, and the flag that marks a shared reader/writer lock.
        const MUTEX_KIND: u64 = 16;
        const MUTEX_SHARED: u64 = 128;
        const RWLOCK_SHARED: u64 = 28;
        match lock >> KIND_SHIFT {
            MUTEX => self.of_lock(lock, MUTEX_KIND).is_some_and(|kind| kind & MUTEX_SHARED != 0),
            READ | WRITE => self.of_lock(lock, RWLOCK_SHARED).is_some_and(|shared| shared != 0),
            _ => false,
        }
    }

    /// Returns the place where the thread of a slot last acquired a lock, with the kind of the
    /// call, and the detail of that place.
    pub(crate) fn held(&self, slot: usize, lock: u64) -> Option<[u64; 2]> {
        let kind = lock >> KIND_SHIFT;
        let lock = address(lock);
        let count = *self.state(slot)?.taken(kind, lock as usize);
        let count = count.checked_sub(self.base)? as usize;
        let few = offset_of!(layout::File, few) + slot * size_of::<FewKeys>();
        let table = slot_at(slot) + offset_of!(Slot, table);
        let key = key_at(count, few, 1, offset_of!(FewKeys, keys))
            .or_else(|| key_at(count, table, LINE_COUNT, offset_of!(Table, keys)))?;
        let key: Box<Key> = self.part(key)?;
        let kind = key.lock >> KIND_SHIFT;
        (address(key.lock) == lock)
            .then(|| [key.site | kind << KIND_SHIFT, Told(key.told).detail()])
    }

    /// Returns the only thread, apart from the waiting one, that has acquired a semaphore and not
    /// posted it since: no other thread can own it. The last taker of a semaphore without waiters
    /// is not recorded.
    pub(crate) fn only_taker(
        &self,
        lock: u64,
        slots: &BTreeMap<u64, usize>,
        waits: u64,
    ) -> Option<Found> {
        let is_semaphore = lock >> KIND_SHIFT == SEMAPHORE;
        let others = slots.iter().filter(|(thread, _)| is_semaphore && **thread != waits);
        let mut all = others.filter_map(|(thread, slot)| Some((thread, self.held(*slot, lock)?)));
        let (thread, held) = all.next()?;
        let owner = Owner { thread: *thread, is_free: false };
        all.next().is_none().then_some((owner, Some(held)))
    }

    /// Returns the slot of a thread, if the process runs the same program as `other`, so that
    /// places have the same names.
    pub(crate) fn slot_of(&self, thread: u64, other: &Self) -> Option<usize> {
        let is_it = |slot: &usize| self.state(*slot).is_some_and(|state| state.thread == thread);
        (self.image == other.image).then(|| (0..FEW_SLOTS).find(is_it)).flatten()
    }
}

fn address(lock: u64) -> u64 {
    lock << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT)
}

/// Returns the offset of a slot in the file.
fn slot_at(slot: usize) -> usize {
    offset_of!(layout::File, slots) + slot * size_of::<Slot>()
}

/// Returns the offset in the file of the key with a count at this offset, if it is in the lines
/// that start at `start`; `keys` is the offset of their keys from there.
fn key_at(count: usize, start: usize, lines: usize, keys: usize) -> Option<usize> {
    let offset = count.checked_sub(start)?;
    let line = Some(offset / size_of::<Line>()).filter(|line| *line < lines)?;
    let index = (offset % size_of::<Line>()).checked_sub(offset_of!(Line, counts))? / 4;
    Some(start + keys + (line * LINE_KEYS + index) * size_of::<Key>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a source that consists of these words, by their offsets, mapped at address `BASE`.
    fn source(words: &[(usize, u64)]) -> Source {
        let path = std::env::temp_dir().join(format!("convoy-holders-{}", std::process::id()));
        let file = File::create_new(&path).expect("a file");
        file.set_len(size_of::<layout::File>() as u64).expect("a sparse file");
        for (offset, word) in words {
            file.write_all_at(&word.to_le_bytes(), *offset as u64).expect("written");
        }
        let file = File::open(&path).expect("it is there");
        std::fs::remove_file(path).expect("it goes away");
        Source { file, memory: None, base: BASE, image: "5000-6000 r-xp app".to_owned() }
    }

    /// Returns the offset of the entry for a lock in the state of a thread at `state`.
    fn taken(state: usize, kind: u64, lock: u64) -> usize {
        let empty = State::zeroed();
        let entry = core::ptr::from_ref(empty.taken(kind, lock as usize)).addr();
        state + entry - core::ptr::from_ref(&*empty).addr()
    }

    #[test]
    fn an_owner_is_found_with_its_place() {
        fn key(offset: usize, lock: u64, site: u64) -> [(usize, u64); 3] {
            let lock = (offset + offset_of!(Key, lock), lock | MUTEX << KIND_SHIFT);
            [lock, (offset + offset_of!(Key, site), site), (offset + offset_of!(Key, told), 21)]
        }
        let lock = 0x7f00_1234_5640_u64;
        let slot = slot_at(3);
        let state = slot + offset_of!(Slot, state);
        let semaphore =
            offset_of!(layout::File, locks) + place(lock, 0, LOCK_COUNT) * size_of::<Lock>();
        // The third key of the tenth line of its table, and the fifth of the few keys.
        let table = slot + offset_of!(Slot, table);
        let counts = offset_of!(Line, counts);
        let third = BASE + (table + 9 * size_of::<Line>() + counts + 2 * 4) as u64;
        let third_key = table + offset_of!(Table, keys) + (9 * LINE_KEYS + 2) * size_of::<Key>();
        let few = offset_of!(layout::File, few) + 3 * size_of::<FewKeys>();
        let fifth = BASE + (few + counts + 4 * 4) as u64;
        let other = lock + 8;
        let mut words = vec![
            (semaphore + offset_of!(Lock, address), lock),
            (semaphore + offset_of!(Lock, owner), 4),
            (state + offset_of!(State, thread), THREAD),
            (taken(state, MUTEX, lock), third),
            (taken(state, SEMAPHORE, lock), third),
            (taken(state, MUTEX, other), fifth),
        ];
        words.extend(key(third_key, lock, 0x500));
        words.extend(key(few + offset_of!(FewKeys, keys) + 4 * size_of::<Key>(), other, 0x600));
        let source = source(&words);
        let owner = source.owner(lock | SEMAPHORE << KIND_SHIFT);
        assert_eq!(owner, Some(Owner { thread: THREAD, is_free: false }));
        assert_eq!(source.held(3, lock), Some([0x500 | MUTEX << KIND_SHIFT, 21]));
        assert_eq!(source.held(3, other), Some([0x600 | MUTEX << KIND_SHIFT, 21]));
        assert_eq!(source.held(3, lock + 64), None);
        assert_eq!(source.slot_of(THREAD, &source), Some(3));
        assert_eq!(source.slot_of(THREAD + 1, &source), None);
        let slots = BTreeMap::from([(THREAD, 3), (THREAD + 1, 4)]);
        let taker = |waits| {
            let owner = source.only_taker(lock | SEMAPHORE << KIND_SHIFT, &slots, waits);
            owner.map(|(owner, _)| owner.thread)
        };
        assert_eq!((taker(THREAD + 1), taker(THREAD)), (Some(THREAD), None));
    }

    const THREAD: u64 = 77;
    const BASE: u64 = 0x4000_0000;
}
