//! Reads the keys of a slot: which operations its threads called, where, and how often.

use crate::layout::{
    self, BARRIER, CONDITION, FewKeys, GROWN, KIND_SHIFT, Line, READ, SIGNAL, Slot, Told, WRITE,
};
use crate::record::total;

/// Bit of the entry for all locks of a call site without keys. Addresses do not have it.
const OTHERS: u64 = 1 << (KIND_SHIFT - 1);

#[derive(Clone, Copy)]
pub(crate) struct Key {
    /// The lock with its kind; 0 if the key is unused.
    pub(crate) lock: u64,
    pub(crate) site: u64,
    /// Number of calls; 0 if the key has moved to the table.
    pub(crate) count: u64,
    /// Detail and threads.
    pub(crate) told: Told,
}

impl Key {
    /// Returns the keys of a slot by their numbers.
    pub(crate) fn all(slot: &Slot, few: &FewKeys) -> Vec<Self> {
        let mut keys: Vec<Self> = read(std::slice::from_ref(&few.line), &few.keys).collect();
        if slot.state.grown == GROWN {
            for key in &mut keys {
                (key.count, key.told) = (0, Told(0));
            }
            keys.extend(read(&slot.table.lines, &slot.table.keys));
        }
        keys
    }

    pub(crate) fn kind(&self) -> u64 {
        self.lock >> KIND_SHIFT
    }

    /// Returns the address of the lock, or the placeholder for locks without keys.
    pub(crate) fn address(&self) -> u64 {
        address(self.lock, self.site)
    }
}

/// See [`Key::address`].
pub(crate) fn address(lock: u64, site: u64) -> u64 {
    match lock << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT) {
        0 => OTHERS | site & (OTHERS - 1),
        address => address,
    }
}

fn read<'a>(lines: &'a [Line], keys: &'a [layout::Key]) -> impl Iterator<Item = Key> + 'a {
    let counts = lines.iter().flat_map(|line| line.counts);
    keys.iter().zip(counts).map(|(key, count)| {
        let told = Told(key.told);
        let count = if key.lock == 0 { 0 } else { told.counted(count) };
        Key { lock: key.lock, site: key.site, count, told }
    })
}

/// Counts the threads that call at one site.
#[derive(Default)]
pub(crate) struct Comers {
    pub(crate) threads: u64,
    count: u64,
    /// Sum of the square roots of the number of calls of each thread.
    roots: f64,
}

impl Comers {
    pub(crate) fn add(&mut self, count: u64, threads: u64) {
        self.threads = total([self.threads, threads]);
        self.count = total([self.count, count]);
        self.roots += (count as f64 * threads as f64).sqrt();
    }

    /// Returns the number of threads that would have the same sum of roots if all called equally
    /// often.
    pub(crate) fn regulars(&self) -> u64 {
        let even = (self.roots.powi(2) / self.count.max(1) as f64).round();
        (even as u64).clamp(1, self.threads.max(1))
    }
}

/// Returns the name of the operation at a site of this kind.
pub(crate) fn act(kind: u64) -> &'static str {
    match kind {
        READ => "read",
        WRITE => "write",
        BARRIER | CONDITION => "wait",
        SIGNAL => "signal",
        _ => "lock",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{LINE_KEYS, Part as _, SLOW};

    #[test]
    fn counts_are_those_of_the_table_once_there_is_one() {
        fn of(slot: &Slot, few: &FewKeys) -> Vec<u64> {
            let all = Key::all(slot, few);
            all.iter().filter(|key| key.lock != 0).map(|key| key.count).collect::<Vec<_>>()
        }
        let (mut slot, mut few) = (Slot::zeroed(), FewKeys::zeroed());
        few.line.counts[..2].copy_from_slice(&[7, SLOW | 9]);
        (few.keys[0].lock, few.keys[0].site) = (1 << KIND_SHIFT | 64, 5);
        few.keys[1].lock = 1 << KIND_SHIFT;
        assert_eq!(of(&slot, &few), [7, 9]);
        slot.state.grown = GROWN;
        // The tenth key of the table, with a count that has wrapped around twice.
        slot.table.lines[1].counts[1] = 3;
        slot.table.keys[9].lock = few.keys[0].lock;
        slot.table.keys[9].told = Told(0).used(3, 1).round().round().0;
        assert_eq!(of(&slot, &few), [0, 0, 2 * u64::from(SLOW) + 3]);
        let key = Key::all(&slot, &few)[LINE_KEYS + 9];
        assert_eq!((key.told.detail(), key.told.threads(), key.address()), (3, 1, 64));
        let other = Key::all(&slot, &few)[1];
        assert_eq!((other.kind(), other.address()), (1, OTHERS));
    }

    #[test]
    fn what_is_told_of_a_key_keeps_to_its_bits() {
        let mut told = Told(0).used(1, 1);
        for _ in 0..5000 {
            told = told.round();
        }
        assert_eq!((told.detail(), told.threads()), (1, 1));
        assert_eq!(told.counted(SLOW | 1), 4095 * u64::from(SLOW) + 1);
        assert_eq!(told.used(2, 1).threads(), 1);
        assert_eq!(told.used(2, 5).threads(), 2);
    }

    #[test]
    fn threads_that_seldom_call_hardly_count() {
        fn of(counts: &[(u64, u64)]) -> (u64, u64) {
            let mut comers = Comers::default();
            for &(count, threads) in counts {
                comers.add(count, threads);
            }
            (comers.threads, comers.regulars())
        }
        let workers = [(100_000, 1), (90_000, 1), (110_000, 1), (100_000, 1)];
        assert_eq!(of(&workers), (4, 4));
        assert_eq!(of(&[&workers[..], &[(25, 1), (2, 1)]].concat()), (6, 4));
        // 300 short-lived threads one after the other, in 30 places.
        assert_eq!(of(&[(1000, 10); 30]), (300, 300));
        assert_eq!(of(&[]), (0, 1));
    }
}
