//! Owners of locks at the time of a sample, and where they acquired them, from the memory and the
//! file of a process.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::layout::{
    F_KEYS, FEW, FEW_WORDS, K_DETAIL, K_LOCK, KEY_WORDS, KIND_SHIFT, L_ADDRESS, L_OWNER,
    LINE_COUNT, LINE_KEYS, LINE_WORDS, LOCK_COUNT, LOCK_WORDS, LOCKS, MUTEX, READ, S_KEYS, S_LINES,
    S_THREAD, SEMAPHORE, SLOT_COUNT, SLOT_WORDS, SLOTS, Told, WRITE, place, taken,
};
use crate::sampling::syscall_file::owner_at;

/// Size in bytes of a line of keys, and of the part before its counts.
const LINE: u64 = LINE_WORDS as u64 * 8;
const COUNTS: u64 = LINE / 2;
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

    pub(crate) fn word(&self, at: usize) -> Option<u64> {
        self.words::<1>(at).map(|[word]| word)
    }

    pub(crate) fn words<const N: usize>(&self, at: usize) -> Option<[u64; N]> {
        let mut bytes = [[0; 8]; N];
        self.file.read_exact_at(bytes.as_flattened_mut(), at as u64 * 8).ok()?;
        Some(bytes.map(u64::from_le_bytes))
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

    fn last_taker(&self, address: u64) -> Option<u64> {
        let first = place(address, 0, LOCK_COUNT);
        for at in (first..first + PROBES).map(|at| at % LOCK_COUNT) {
            let words = self.words::<{ L_OWNER + 1 }>(LOCKS + at * LOCK_WORDS)?;
            match words[L_ADDRESS] {
                0 => return None,
                known if known == address => {
                    let Some(slot) = words[L_OWNER].checked_sub(1) else { return Some(0) };
                    let slot = (slot as usize).min(SLOT_COUNT - 1);
                    return self.word(SLOTS + slot * SLOT_WORDS + S_THREAD);
                }
                _ => {}
            }
        }
        None
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
        let key = self.word(SLOTS + slot * SLOT_WORDS + taken(kind, lock as usize))?;
        let of = |word: usize| self.base + word as u64 * 8;
        let (few, lines) = (FEW + slot * FEW_WORDS, SLOTS + slot * SLOT_WORDS + S_LINES);
        let (keys, number) = match (key.checked_sub(of(few)), key.checked_sub(of(lines))) {
            (Some(far), _) if far < LINE => (few + F_KEYS, in_line(far)?),
            (_, Some(far)) if far < LINE_COUNT as u64 * LINE => {
                let first = (far / LINE) as usize * LINE_KEYS;
                (SLOTS + slot * SLOT_WORDS + S_KEYS, first + in_line(far % LINE)?)
            }
            _ => return None,
        };
        let words = self.words::<KEY_WORDS>(keys + number * KEY_WORDS)?;
        let [known, site, told] = [words[K_LOCK], words[1], words[K_DETAIL]];
        let kind = known >> KIND_SHIFT;
        (address(known) == lock).then(|| [site | kind << KIND_SHIFT, Told(told).detail()])
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
        let is_it = |slot: &usize| {
            self.word(SLOTS + slot * SLOT_WORDS + S_THREAD).is_some_and(|known| known == thread)
        };
        (self.image == other.image).then(|| (0..FEW_SLOTS).find(is_it)).flatten()
    }
}

fn address(lock: u64) -> u64 {
    lock << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT)
}

/// Returns the number of a key in its line, from the offset of its count.
fn in_line(far: u64) -> Option<usize> {
    far.checked_sub(COUNTS).map(|at| at as usize / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a source that consists of these words, mapped at address `BASE`.
    fn source(words: &[(usize, u64)]) -> Source {
        let path = std::env::temp_dir().join(format!("convoy-holders-{}", std::process::id()));
        let file = File::create_new(&path).expect("a file");
        for (at, word) in words {
            file.write_all_at(&word.to_le_bytes(), *at as u64 * 8).expect("written");
        }
        let file = File::open(&path).expect("it is there");
        std::fs::remove_file(path).expect("it goes away");
        Source { file, memory: None, base: BASE, image: "5000-6000 r-xp app".to_owned() }
    }

    #[test]
    fn an_owner_is_found_with_its_place() {
        fn key(at: usize, lock: u64, site: u64) -> [(usize, u64); 3] {
            [(at + K_LOCK, lock | MUTEX << KIND_SHIFT), (at + 1, site), (at + K_DETAIL, 21)]
        }
        let lock = 0x7f00_1234_5640_u64;
        let slot = SLOTS + 3 * SLOT_WORDS;
        let semaphore = LOCKS + place(lock, 0, LOCK_COUNT) * LOCK_WORDS;
        // The third key of the tenth line of its table, and the fifth of the `FEW` keys.
        let table = BASE + (slot + S_LINES) as u64 * 8 + 9 * LINE + COUNTS + 2 * 4;
        let number = 9 * LINE_KEYS + 2;
        let few = BASE + (FEW + 3 * FEW_WORDS) as u64 * 8 + COUNTS + 4 * 4;
        let other = lock + 8;
        let mut words = vec![
            (semaphore + L_ADDRESS, lock),
            (semaphore + L_OWNER, 4),
            (slot + S_THREAD, THREAD),
            (slot + taken(MUTEX, lock as usize), table),
            (slot + taken(SEMAPHORE, lock as usize), table),
            (slot + taken(MUTEX, other as usize), few),
        ];
        words.extend(key(slot + S_KEYS + number * KEY_WORDS, lock, 0x500));
        words.extend(key(FEW + 3 * FEW_WORDS + F_KEYS + 4 * KEY_WORDS, other, 0x600));
        words.push((DETAILS_END, 0));
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
            let found = source.only_taker(lock | SEMAPHORE << KIND_SHIFT, &slots, waits);
            found.map(|(owner, _)| owner.thread)
        };
        assert_eq!((taker(THREAD + 1), taker(THREAD)), (Some(THREAD), None));
    }

    const THREAD: u64 = 77;
    const BASE: u64 = 0x4000_0000;
    const DETAILS_END: usize = crate::layout::DETAILS;
}
