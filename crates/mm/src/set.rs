//! The lists of one CPU, and how long they may become.

use crate::list::List;
use crate::tally::Tally;
use convoy_sync::{Platform, RawLock};

/// Whether a page's content is likely to be in the cache of the CPU that frees it, or wanted there
/// by the one that allocates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temperature {
    /// It is: memory that programs will write.
    Hot,
    /// It is not: memory that a device will fill.
    Cold,
}

/// Sizes of a CPU's two lists of pages; the formula of Linux 2.6.16 to 2.6.24 (`zone_batchsize` and
/// `setup_pageset` of `mm/page_alloc.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSize {
    batch: u32,
    /// Batches at which a list of hot pages returns one to the zone; a list of cold pages does so
    /// at a third of them.
    batches: u32,
}

/// Batches of a list of hot pages in Linux.
const BATCHES: u32 = 6;

/// A batch is at most this many pages before it is divided: 512 KiB of 4 KiB, as up to 4.18.
const BATCH_MAX: u32 = 128;

impl SetSize {
    /// The sizes for a zone of `pages` pages: a batch of 31 from 352 MiB of 4 KiB pages on, of 7
    /// for 96 to 175 MiB.
    pub fn of(pages: u32) -> Self {
        Self::limited(pages, BATCH_MAX)
    }

    /// [`Self::of`] of kernels from 4.19 on: twice the batch for large zones, 63 pages (commit
    /// d8a759b57035).
    pub fn doubled(pages: u32) -> Self {
        Self::limited(pages, 2 * BATCH_MAX)
    }

    fn limited(pages: u32, batch_max: u32) -> Self {
        let part = ((pages / 1024).min(batch_max) / 4).max(1);
        let bits = (part + part / 2).ilog2();
        Self { batch: (1 << bits) - 1, batches: BATCHES }
    }

    /// Lists that have at most one batch, of `batch` hot pages. These are the shortest possible
    /// lists, so that as many pages move in and out as are allocated and freed.
    pub fn single(batch: u32) -> Self {
        Self { batch, batches: 1 }
    }

    /// Pages per batch.
    pub fn batch(self, temperature: Temperature) -> u32 {
        match temperature {
            Temperature::Hot => self.batch.max(1),
            Temperature::Cold => (self.batch / 2).max(1),
        }
    }

    /// Length from which a list returns a batch to the zone.
    pub fn high(self, temperature: Temperature) -> u32 {
        match temperature {
            Temperature::Hot => self.batches * self.batch,
            Temperature::Cold => self.batches * self.batch / 3,
        }
    }
}

/// No lock: for lists that only their own CPU uses, with interrupts disabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlocked;

impl<P: Platform> RawLock<P> for Unlocked {
    #[inline(always)]
    fn lock(&self) {}
    #[inline(always)]
    fn try_lock(&self) -> bool {
        true
    }
    #[inline(always)]
    fn unlock(&self) {}
    fn is_locked(&self) -> bool {
        false
    }
}

/// The kernel's `per_cpu_pageset`.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PageSet<S> {
    pub(crate) lock: S,
    lists: [List; 2],
    pub(crate) refills: Tally,
    pub(crate) drains: Tally,
}

impl<S> PageSet<S> {
    pub(crate) fn new(lock: S) -> Self {
        let lists = [List::new(), List::new()];
        Self { lock, lists, refills: Tally::default(), drains: Tally::default() }
    }

    pub(crate) fn list(&self, temperature: Temperature) -> &List {
        &self.lists[temperature as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_follow_the_size_of_the_zone() {
        let batch = |mib: u32| SetSize::of(mib * 256).batch;
        for (mib, expected) in
            [(16, 0), (32, 1), (48, 3), (96, 7), (175, 7), (176, 15), (352, 31), (8192, 31)]
        {
            assert_eq!(batch(mib), expected, "{mib} MiB");
        }
        let (small, large) = (SetSize::of(16 * 256), SetSize::of(1 << 21));
        assert_eq!((small.batch(Temperature::Hot), small.high(Temperature::Hot)), (1, 0));
        assert_eq!((large.batch(Temperature::Hot), large.high(Temperature::Hot)), (31, 186));
        assert_eq!((large.batch(Temperature::Cold), large.high(Temperature::Cold)), (15, 62));
        for (mib, expected) in [(352, 31), (687, 31), (688, 63), (8192, 63)] {
            assert_eq!(SetSize::doubled(mib * 256).batch, expected, "{mib} MiB since 4.19");
        }
        assert_eq!(SetSize::doubled(1 << 21).high(Temperature::Hot), 378);
    }
}
