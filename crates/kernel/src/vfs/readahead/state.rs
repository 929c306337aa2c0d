//! Pages that memory lacks, and windows of reading ahead.

use crate::block::Batch;
use crate::pages::Pages;
use std::rc::Rc;

/// Longest window, pages (`VM_MAX_READAHEAD`, 128 KiB).
pub(super) const MOST: u64 = 32;

/// Pages of a file that memory lacks.
#[derive(Default)]
pub(crate) struct Cold {
    pub(super) pages: Pages,
    pub(super) left: u64,
    /// Those on their way, with the request that brings them: first and last.
    pub(super) reading: Vec<(u64, u64, Rc<Batch>)>,
}

impl Cold {
    /// Takes `page` out of the set; whether it was in it.
    pub(super) fn take(&mut self, page: u64) -> bool {
        let there = self.pages.remove(page);
        self.left -= u64::from(there);
        there
    }
}

/// How far an open file has been read ahead (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) ahead_start: u64,
    pub(super) ahead_size: u64,
    /// Page after the last read page.
    pub(super) next: u64,
}

impl Window {
    /// First window for a read of `pages` pages (`get_init_ra_size`).
    pub(super) fn first(pages: u64) -> u64 {
        let size = pages.next_power_of_two();
        if size <= MOST / 32 {
            size * 4
        } else if size <= MOST / 4 {
            size * 2
        } else {
            MOST
        }
    }

    /// The window after this one (`get_next_ra_size`).
    pub(super) fn following(self) -> u64 {
        let times = if self.size < MOST / 16 { 4 } else { 2 };
        (times * self.size).min(MOST)
    }

    /// Puts the window ahead behind this one; where it is.
    pub(super) fn look_ahead(&mut self) -> (u64, u64) {
        self.ahead_size = self.following();
        self.ahead_start = self.start + self.size;
        (self.ahead_start, self.ahead_size)
    }

    /// Handles a read of `wanted` pages from `offset` on: calls `submit` for each window, with its
    /// first page and its length, and returns the page at which the next call is due
    /// (`page_cache_readahead`).
    pub(super) fn read(
        &mut self,
        offset: u64,
        wanted: u64,
        mut submit: impl FnMut((u64, u64)),
    ) -> u64 {
        let again = u64::from(offset + 1 == self.next);
        let (offset, wanted) = (offset + again, wanted - again);
        if wanted == 0 {
            return self.next;
        }
        let sequential = offset == self.next;
        let size = wanted.min(MOST);
        self.next = offset + size;
        if !sequential {
            *self = Self { next: self.next, ..Self::default() };
            submit((offset, size));
        } else if self.size == 0 {
            (self.start, self.size) = (offset, Self::first(size));
            submit((self.start, self.size));
            if wanted >= MOST {
                submit(self.look_ahead());
            }
        } else {
            if self.ahead_size == 0 {
                submit(self.look_ahead());
            }
            if self.next > self.ahead_start {
                (self.start, self.size) = (self.ahead_start, self.ahead_size);
                submit(self.look_ahead());
            }
        }
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows that reads of `pages` pages each from the start of a file ask for.
    fn windows(pages: u64, reads: u64) -> Vec<(u64, u64)> {
        let mut window = Window::default();
        let mut asked = Vec::new();
        for read in 0..reads {
            let (mut at, end) = (read * pages, (read + 1) * pages);
            while at < end {
                at = window.read(at, end - at, |pages| asked.push(pages)).max(at + 1);
            }
        }
        asked
    }

    #[test]
    fn windows_of_a_file_read_in_order_double_and_do_not_overlap() {
        assert_eq!(windows(1, 5), [(0, 4), (4, 8), (12, 16)]);
        assert_eq!(windows(1, 90)[3..], [(28, 32), (60, 32), (92, 32)]);
        assert_eq!(windows(512, 1)[..4], [(0, 32), (32, 32), (64, 32), (96, 32)]);
        for (pages, reads) in [(1, 300), (3, 100), (512, 3)] {
            let mut end = 0;
            for (first, count) in windows(pages, reads) {
                assert_eq!(first, end, "reads of {pages} pages");
                end = first + count;
            }
            assert!(end >= pages * reads && end <= pages * reads + 2 * MOST);
        }
    }

    #[test]
    fn a_read_elsewhere_gets_what_it_asks_for() {
        let mut window = Window::default();
        let mut asked = Vec::new();
        for at in [100, 50, 7] {
            window.read(at, 2, |pages| asked.push(pages));
        }
        assert_eq!(asked, [(100, 2), (50, 2), (7, 2)]);
    }
}
