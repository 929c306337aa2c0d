//! Pages of memory for threads: the zone over one mapping.

mod cache;
mod error;

pub use cache::Cache;
pub use error::Exhausted;

use crate::buddy::ORDERS;
use crate::bulk::HoldAll;
use crate::frame::State;
use crate::set::{PageSet, SetSize, Temperature, Unlocked};
use crate::tally::Moments;
use crate::zone::{LockPlace, NativeZone, Setup};
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use memmap2::{MmapMut, MmapRaw};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// The default size of a [`Cache`]: batches of 63 pages, as in Linux since 4.19, and at most 16
/// batches (4 MiB) in a cache.
const CACHE: (u32, u32) = (63, 16);

/// Pages of 4 KiB and blocks of up to 1024 of them, from one mapping.
///
/// A thread allocates pages through a private [`Cache`]; it may free pages of other threads.
/// [`Self::allocate`] and [`Self::free`] are for threads without a cache: they share a list of
/// pages with all threads on their CPU, under a lock. Metadata is stored outside the mapping, 32
/// bytes per page: the arena never reads or writes a page, and a program that writes outside its
/// own pages does not corrupt it.
///
/// Misuse panics at the call, in all builds: a pointer of another allocator, a double free, a block
/// that is freed with a different order. Two threads that free one page at the same moment are
/// detected with debug assertions only. A double free is not detected if another thread has
/// allocated the page in between.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let arena = convoy_mm::Arena::new(1024)?; // 4 MiB
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             let cache = arena.cache();
///             let page = cache.allocate().expect("1024 pages are enough for four");
///             // SAFETY: the page is this thread's, and as long as a page is.
///             unsafe { page.write_bytes(0xa5, convoy_mm::PAGE_BYTES) };
///             cache.free(page);
///         });
///     }
/// });
/// assert_eq!(arena.stats().taken, 0);
/// # Ok(())
/// # }
/// ```
pub struct Arena {
    zone: NativeZone<HoldAll>,
    /// Never a slice: threads write to its pages while others read its start address.
    memory: MmapRaw,
    cache_size: SetSize,
    caches: Mutex<Vec<CacheSet>>,
    exhausted: AtomicU64,
}

/// The pages of a cache. They outlive it, so that the next one can have them.
struct CacheSet {
    set: Arc<PageSet<Unlocked>>,
    in_use: bool,
}

/// Counters of an arena; exact while no call is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStats {
    /// Pages of the arena.
    pub pages: u32,
    /// Pages that callers have.
    pub taken: u32,
    /// Free pages in the caches of threads.
    pub cached: u32,
    /// Free pages on the lists of the CPUs.
    pub listed: u32,
    /// Free blocks of 2^order pages, by order.
    pub blocks: [u32; ORDERS],
    /// Caches that are in use.
    pub caches: u32,
    /// Calls that found no page.
    pub exhausted: u64,
    /// Pages that each filling of a list or cache moved, under the zone lock.
    pub refills: Moments,
    /// Pages that each return from a list or cache moved, and single blocks.
    pub drains: Moments,
}

impl Arena {
    /// An arena of `pages` pages, all free. Memory is used when a page is first written.
    ///
    /// # Errors
    ///
    /// If the system cannot create the mapping.
    pub fn new(pages: u32) -> io::Result<Self> {
        let (batch, batches) = CACHE;
        // Caches of all threads of a machine should not swallow a small arena.
        let batches = (pages / 64 / batch).clamp(2, batches);
        Self::with_caches(pages, SetSize::of_batches(batch, batches))
    }

    /// [`Self::new`] with a different size of caches: pages per batch, and batches per cache.
    ///
    /// # Errors
    ///
    /// If the system cannot create the mapping.
    pub fn with_caches(pages: u32, cache_size: SetSize) -> io::Result<Self> {
        let memory = MmapRaw::from(MmapMut::map_anon((pages as usize).max(1) * PAGE_BYTES)?);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let lock = LockPlace::OwnLine;
        Ok(Self {
            zone: NativeZone::new(Setup { lock, ..Setup::new(pages, cpus, HoldAll) }),
            memory,
            cache_size,
            caches: Mutex::new(Vec::new()),
            exhausted: AtomicU64::new(0),
        })
    }

    /// Takes a page. Its content is what its last owner left, and zero if it had none.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] when no page is free but in the caches of threads.
    pub fn allocate(&self) -> Result<NonNull<u8>, Exhausted> {
        let number = self.zone.allocate(Temperature::Hot).or_else(|| {
            self.drain_lists();
            self.zone.allocate(Temperature::Hot)
        });
        self.page(number, 0)
    }

    /// Frees a page, which any thread may have allocated.
    ///
    /// # Panics
    ///
    /// If it is not a page of this arena, or not allocated.
    #[track_caller]
    pub fn free(&self, page: NonNull<u8>) {
        let number = self.number(page);
        self.check(number, 0);
        self.zone.free(number, Temperature::Hot);
    }

    /// Takes a block of 2^`order` pages, which begins at a multiple of its length from the
    /// beginning of the arena.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] when no block of that order is free.
    ///
    /// # Panics
    ///
    /// When `order` is above [`ORDER_MAX`](crate::ORDER_MAX).
    pub fn allocate_block(&self, order: u32) -> Result<NonNull<u8>, Exhausted> {
        let first = self.zone.allocate_block(order).or_else(|| {
            self.drain_lists();
            self.zone.allocate_block(order)
        });
        self.page(first, order)
    }

    /// Frees a block of 2^`order` pages.
    ///
    /// # Panics
    ///
    /// If it is not a block of this arena, not allocated, or of another order.
    #[track_caller]
    pub fn free_block(&self, block: NonNull<u8>, order: u32) {
        let first = self.number(block);
        self.check(first, order);
        self.zone.free_block(first, order);
    }

    /// Whether `page` points into the arena.
    pub fn contains(&self, page: NonNull<u8>) -> bool {
        let offset = page.addr().get().wrapping_sub(self.memory.as_ptr().addr());
        offset < self.zone.frames() as usize * PAGE_BYTES
    }

    /// Returns the counters of the arena.
    pub fn stats(&self) -> ArenaStats {
        let moves = self.zone.stats();
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stats = ArenaStats {
            pages: self.zone.frames(),
            blocks: self.zone.blocks(),
            listed: (0..self.zone.sets()).flat_map(|cpu| self.zone.listed(cpu)).sum(),
            exhausted: self.exhausted.load(Relaxed),
            refills: moves.refills,
            drains: moves.drains,
            ..ArenaStats::default()
        };
        for CacheSet { set, in_use } in &*caches {
            stats.caches += u32::from(*in_use);
            stats.cached += set.list(Temperature::Hot).count();
            stats.refills = stats.refills.and(set.refills.moments());
            stats.drains = stats.drains.and(set.drains.moments());
        }
        let in_blocks: u32 = (0..).zip(stats.blocks).map(|(order, count)| count << order).sum();
        // Saturating: while calls are under way the parts need not fit together.
        stats.taken = stats.pages.saturating_sub(in_blocks + stats.listed + stats.cached);
        stats
    }

    /// Where a page or block begins that the zone gave.
    #[inline]
    fn page(&self, first: Option<u32>, order: u32) -> Result<NonNull<u8>, Exhausted> {
        match first.map(|first| first as usize * PAGE_BYTES) {
            // The zone gives no frame beyond the mapping.
            Some(offset) => {
                let page = self.memory.as_mut_ptr().wrapping_add(offset);
                Ok(NonNull::new(page).expect("a mapping does not begin at zero"))
            }
            None => Err(self.exhausted(order)),
        }
    }

    #[cold]
    fn exhausted(&self, order: u32) -> Exhausted {
        self.exhausted.fetch_add(1, Relaxed);
        let stats = self.stats();
        Exhausted { order, pages: stats.pages, taken: stats.taken, cached: stats.cached }
    }

    /// The number of the page that `page` is the beginning of.
    #[inline]
    #[track_caller]
    fn number(&self, page: NonNull<u8>) -> u32 {
        let offset = page.addr().get().wrapping_sub(self.memory.as_ptr().addr());
        let number = offset / PAGE_BYTES;
        if number >= self.zone.frames() as usize || !offset.is_multiple_of(PAGE_BYTES) {
            self.foreign(page);
        }
        number as u32
    }

    #[cold]
    #[track_caller]
    fn foreign(&self, page: NonNull<u8>) -> ! {
        let (first, pages) = (self.memory.as_ptr(), self.zone.frames());
        assert!(
            !self.contains(page),
            "{page:p} is freed, but it points into a page and not to its beginning"
        );
        panic!("{page:p} is freed, but it is none of the {pages} pages that begin at {first:p}");
    }

    #[track_caller]
    fn check(&self, number: u32, order: u32) {
        let state = self.zone.state(number);
        if state != State::Taken(order) {
            misused(number, order, state);
        }
    }

    /// Returns the lists of all CPUs to the zone.
    fn drain_lists(&self) {
        (0..self.zone.sets()).for_each(|cpu| self.zone.drain_lists(cpu));
    }
}

#[cold]
#[track_caller]
fn misused(number: u32, order: u32, state: State) -> ! {
    let what = match order {
        0 => format!("page {number}"),
        _ => format!("the block of order {order} at page {number}"),
    };
    match state {
        State::Taken(other) => {
            panic!("{what} is freed, but what begins there was taken as order {other}")
        }
        State::Inner => panic!("{what} is freed, but no block that is taken begins there"),
        State::Free(_) | State::Listed => panic!("{what} is freed twice"),
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
