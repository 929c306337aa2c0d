//! Cache lines of keys in the file, and keys in their lines.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::file::map::{File, Slot, get};
use crate::layout::{self, GROWN, LINE_KEYS, Mapped, SLOW};

pub(crate) type Line = layout::Line<Mapped>;
/// The data of a key that counting does not need.
pub(crate) type KeyData = layout::Key<Mapped>;

/// Bytes of a line.
pub(crate) const LINE: usize = size_of::<Line>();
/// Number of calls of a thread at a place from which on they are frequent.
pub(crate) const FREQUENT: u32 = 256;
/// Flag in the address of the lines: they are the lines of a table.
pub(crate) const TABLE: usize = 1;

#[derive(Clone, Copy)]
pub(crate) struct Key {
    /// Its count, with [`SLOW`].
    pub(crate) count: &'static AtomicU32,
    /// Whether every hold of the key is timed.
    pub(crate) is_due: bool,
}

/// Returns the line at an address.
///
/// # Safety
/// The address is that of a line of the file.
#[inline(always)]
pub(crate) unsafe fn line_at(address: usize) -> &'static Line {
    // SAFETY: by the caller; lines are aligned, and words of the file stay.
    unsafe { &*(address as *const Line) }
}

#[inline(always)]
pub(crate) fn count_of(line: &'static Line, tag: u32) -> Option<&'static AtomicU32> {
    // SAFETY: eight tags, aligned; only this thread, or its signal handler, writes them.
    let found = unsafe { arch::same((&raw const line.tags).cast(), tag) };
    if found == 0 {
        return None;
    }
    // SAFETY: at most 15 of 16 bits are below the lowest that is set.
    Some(unsafe { line.counts.get_unchecked(found.trailing_zeros() as usize / 2) })
}

/// Returns the adjacent line in a table, which begins on a page boundary.
#[inline(always)]
pub(crate) fn neighbour(line: &'static Line) -> &'static Line {
    // SAFETY: the lines of a table are an even number.
    unsafe { line_at(core::ptr::from_ref(line) as usize ^ LINE) }
}

/// Returns the index of an unused key in a line.
pub(crate) fn unused(line: &Line) -> Option<usize> {
    // Relaxed: only this thread writes its tags.
    line.tags.iter().position(|tag| tag.load(Relaxed) == 0)
}

impl Key {
    pub(crate) fn address(self) -> usize {
        core::ptr::from_ref(self.count) as usize
    }

    /// Returns the index of the key in its line.
    pub(crate) fn in_line(self) -> usize {
        (self.address() % LINE - LINE / 2) / 4
    }

    pub(crate) fn is_slow(self) -> bool {
        // Relaxed: only this thread writes its counts.
        self.count.load(Relaxed) & SLOW != 0
    }

    /// Returns the number of calls since the count was restarted.
    pub(crate) fn calls(self) -> u32 {
        // Relaxed: as above.
        self.count.load(Relaxed) & !SLOW
    }

    /// Returns how many calls the last one represents: one of frequent calls represents several.
    pub(crate) fn weight(self) -> u64 {
        const TOGETHER: u32 = 16;
        match self.calls() {
            ..FREQUENT => 1,
            calls if calls.is_multiple_of(TOGETHER) => TOGETHER.into(),
            _ => 0,
        }
    }
}

/// Returns the address of a thread's lines, with [`TABLE`] if they are those of a table.
pub(crate) fn lines(file: &'static File, slot: &'static Slot, number: usize) -> usize {
    match get(&slot.state.grown) {
        GROWN => slot.table.lines.as_ptr() as usize | TABLE,
        _ => (&raw const file.few[number].line) as usize,
    }
}

/// Returns the data and the count of the key with a count at this address, if it belongs to this
/// slot.
pub(crate) fn key_at(
    file: &'static File,
    number: usize,
    slot: &'static Slot,
    address: usize,
) -> Option<(&'static KeyData, &'static AtomicU32)> {
    let few = &file.few[number];
    key_among(core::slice::from_ref(&few.line), &few.keys, address)
        .or_else(|| key_among(&slot.table.lines, &slot.table.keys, address))
}

fn key_among(
    lines: &'static [Line],
    keys: &'static [KeyData],
    address: usize,
) -> Option<(&'static KeyData, &'static AtomicU32)> {
    let offset = address.checked_sub(lines.as_ptr() as usize)?;
    let line = lines.get(offset / LINE)?;
    let index = (offset % LINE).checked_sub(LINE / 2)? / 4;
    Some((keys.get(offset / LINE * LINE_KEYS + index)?, line.counts.get(index)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_tag_in_each_place_and_not_in_the_adjacent_line() {
        let Pair(lines) = Box::leak(Box::new(Pair([empty(), empty()])));
        let lines: &'static [Line; 2] = lines;
        for place in 0..LINE_KEYS {
            assert_eq!(unused(&lines[0]), Some(place));
            lines[0].tags[place].store(place as u32 + 7, Relaxed);
        }
        assert_eq!(unused(&lines[0]), None);
        for place in 0..LINE_KEYS {
            let count = count_of(&lines[0], place as u32 + 7).unwrap();
            assert!(core::ptr::eq(count, &raw const lines[0].counts[place]));
            assert_eq!(Key { count, is_due: false }.in_line(), place);
            assert!(count_of(&lines[1], place as u32 + 7).is_none());
        }
        assert!(count_of(&lines[0], 6).is_none());
        assert!(core::ptr::eq(neighbour(&lines[0]), &raw const lines[1]));
        assert!(core::ptr::eq(neighbour(&lines[1]), &raw const lines[0]));
    }

    /// Two adjacent lines of a table.
    #[repr(align(128))]
    struct Pair([Line; 2]);

    fn empty() -> Line {
        Line {
            tags: [const { AtomicU32::new(0) }; LINE_KEYS],
            counts: [const { AtomicU32::new(0) }; LINE_KEYS],
        }
    }

    #[test]
    fn the_calls_that_represent_others_represent_all_of_them() {
        let count: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let key = Key { count, is_due: false };
        let weights = (1..10_001).map(|calls| {
            count.store(calls, Relaxed);
            key.weight()
        });
        let weights: Vec<u64> = weights.collect();
        assert!(weights[..255].iter().all(|weight| *weight == 1), "{weights:?}");
        assert!(weights.iter().sum::<u64>().abs_diff(10_000) < 16, "{weights:?}");
        assert!(weights.iter().filter(|weight| **weight != 0).count() < 900);
    }

    #[test]
    fn a_count_is_slow_by_its_highest_bit() {
        let count: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(SLOW - 1)));
        let key = Key { count, is_due: false };
        assert!(!key.is_slow());
        count.store(SLOW, Relaxed);
        assert!(key.is_slow());
    }
}
