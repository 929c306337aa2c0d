//! Cache lines of keys in the file, and keys in their lines.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::arch;
use crate::file::map::{Map, Slot};
use crate::layout::*;

/// Bytes of a line.
pub(crate) const LINE: usize = LINE_WORDS * 8;
/// Flag in the address of the lines: they are the lines of a table.
pub(crate) const TABLE: usize = 1;

/// A key of the thread.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    /// Its count, with [`SLOW`].
    pub(crate) count: &'static AtomicU32,
    /// Whether every hold of the key is timed.
    pub(crate) is_due: bool,
}

/// A line of the layout, which only its thread writes.
#[repr(C, align(64))]
pub(crate) struct Line {
    pub(crate) tags: [AtomicU32; LINE_KEYS],
    pub(crate) counts: [AtomicU32; LINE_KEYS],
}

const _: () = assert!(size_of::<Line>() == LINE && LINE_COUNTS * 8 == LINE / 2);

/// Returns the line at an address.
///
/// # Safety
/// The address is that of a line of the file.
#[inline(always)]
pub(crate) unsafe fn line_at(address: usize) -> &'static Line {
    // SAFETY: by the caller; lines are aligned, and words of the file stay.
    unsafe { &*(address as *const Line) }
}

impl Line {
    /// Returns the count of the key with this tag.
    #[inline(always)]
    pub(crate) fn find(&'static self, tag: u32) -> Option<&'static AtomicU32> {
        // SAFETY: eight tags, aligned; only this thread, or its signal handler, writes them.
        let found = unsafe { arch::same((&raw const self.tags).cast(), tag) };
        if found == 0 {
            return None;
        }
        // SAFETY: at most 15 of 16 bits are below the lowest that is set.
        Some(unsafe { self.counts.get_unchecked(found.trailing_zeros() as usize / 2) })
    }

    /// Returns the adjacent line in a table, which begins on a page boundary.
    #[inline(always)]
    pub(crate) fn beside(&'static self) -> &'static Self {
        // SAFETY: the lines of a table are an even number.
        unsafe { line_at(core::ptr::from_ref(self) as usize ^ LINE) }
    }

    pub(crate) fn free(&self) -> Option<usize> {
        self.tags.iter().position(|tag| tag.load(Relaxed) == 0)
    }
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
        self.count.load(Relaxed) & SLOW != 0
    }
}

/// Returns the first keys of a slot.
pub(crate) fn few(file: &'static Map, slot: usize) -> &'static [AtomicU64] {
    &file[FEW + slot * FEW_WORDS..][..FEW_WORDS]
}

/// Returns the address of a thread's lines, with [`TABLE`] if they are those of a table.
pub(crate) fn lines(file: &'static Map, slot: &'static Slot, number: usize) -> usize {
    match slot[S_GROWN].load(Relaxed) {
        GROWN => core::ptr::from_ref(&slot[S_LINES]) as usize | TABLE,
        _ => few(file, number).as_ptr() as usize,
    }
}

/// Returns the other words and the count of the key at this address, if it belongs to this slot.
pub(crate) fn at(
    file: &'static Map,
    number: usize,
    slot: &'static Slot,
    address: usize,
) -> Option<(&'static [AtomicU64], &'static AtomicU32)> {
    let few = few(file, number);
    let in_line = |line: usize| ((address - line) % LINE).checked_sub(LINE / 2).map(|at| at / 4);
    let first = few.as_ptr() as usize;
    let table = core::ptr::from_ref(&slot[S_LINES]) as usize;
    let (words, at) = match (address.checked_sub(first), address.checked_sub(table)) {
        (Some(0..LINE), _) => (&few[F_KEYS..], in_line(first)?),
        (_, Some(far)) if far < LINE_COUNT * LINE => {
            (&slot[S_KEYS..], far / LINE * LINE_KEYS + in_line(table)?)
        }
        _ => return None,
    };
    // SAFETY: a count of a line of the file, aligned; words of the file stay.
    let count = unsafe { AtomicU32::from_ptr((address & !3) as *mut u32) };
    Some((words.get(at * KEY_WORDS..(at + 1) * KEY_WORDS)?, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_tag_in_each_place_and_not_in_the_adjacent_line() {
        let Pair(lines) = Box::leak(Box::new(Pair([empty(), empty()])));
        let lines: &'static [Line; 2] = lines;
        for place in 0..LINE_KEYS {
            assert_eq!(lines[0].free(), Some(place));
            lines[0].tags[place].store(place as u32 + 7, Relaxed);
        }
        assert_eq!(lines[0].free(), None);
        for place in 0..LINE_KEYS {
            let count = lines[0].find(place as u32 + 7).unwrap();
            assert!(core::ptr::eq(count, &raw const lines[0].counts[place]));
            assert_eq!(Key { count, is_due: false }.in_line(), place);
            assert!(lines[1].find(place as u32 + 7).is_none());
        }
        assert!(lines[0].find(6).is_none());
        assert!(core::ptr::eq(lines[0].beside(), &raw const lines[1]));
        assert!(core::ptr::eq(lines[1].beside(), &raw const lines[0]));
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
    fn a_count_is_slow_by_its_highest_bit() {
        let count: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(SLOW - 1)));
        let key = Key { count, is_due: false };
        assert!(!key.is_slow());
        count.store(SLOW, Relaxed);
        assert!(key.is_slow());
    }
}
