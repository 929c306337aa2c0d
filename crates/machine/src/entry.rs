//! The directory entry of a line of simulated memory.
//!
//! It has two parts. Most accesses read only the 8 bytes of the first part, so eight of these share
//! a cache line of the host; the rest is in the second part.

use core::cell::Cell;
use core::ops::Deref;

/// The part that an access reads first: in the lowest bits CPU + 1 of the CPU that may use the line
/// without checking its caches, which without a geometry is the owner; above them the time of
/// [`Line::busy`] without its lowest bits.
pub(crate) type Hot = Cell<u64>;

/// The bits of [`Hot`] that name a CPU.
const QUICK: u64 = 0xffff;

/// If the CPU of number + 1 `tag` may use the line of `hot` without checking its caches, returns a
/// time since which it has had the line, not long after its arrival.
#[inline(always)]
pub(crate) fn quick_since(hot: &Hot, tag: u16) -> Option<u64> {
    let hot = hot.get();
    (hot as u16 == tag).then_some(hot | QUICK)
}

/// A line of simulated memory.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) hot: &'a Hot,
    pub(crate) entry: &'a Entry,
}

/// Directory entry. The zero image is "in no cache".
#[repr(C)]
pub(crate) struct Entry {
    /// CPU + 1 of the owner of the line, 0 if there is none.
    pub(crate) owner: Cell<u16>,
    /// CPU + 1 of the first spinner, 0 when there is none; the rest hang on the CPUs.
    pub(crate) spinner: Cell<u16>,
    /// Misses so far: the key of the perturbation.
    pub(crate) misses: Cell<u32>,
    /// Up to 64 CPUs: bit set of the sharers. Above: index of a set in the pool, 0 for the empty
    /// set.
    pub(crate) sharers: Cell<u64>,
    /// When the last request for the line that is known will have been served, in picoseconds.
    /// [`Turns`](crate::turns::Turns) has the order of the waiters until then.
    busy: Cell<u64>,
    /// Third levels that hold the line, a bit for each group.
    pub(crate) l3: Cell<u32>,
    /// Package + 1 of the memory that holds the line: the package of the CPU that first fetched it.
    pub(crate) home: Cell<u8>,
    /// Newer than memory. Kept only with a geometry.
    pub(crate) dirty: Cell<bool>,
}

impl Deref for Line<'_> {
    type Target = Entry;

    #[inline(always)]
    fn deref(&self) -> &Entry {
        self.entry
    }
}

impl Line<'_> {
    /// Returns CPU + 1 of the CPU that may use the line without checking its caches; 0 for none.
    #[inline(always)]
    pub(crate) fn quick(self) -> u16 {
        self.hot.get() as u16
    }

    #[inline(always)]
    pub(crate) fn set_quick(self, quick: u16) {
        self.hot.set(self.hot.get() & !QUICK | u64::from(quick));
    }

    /// See [`Entry::busy`].
    #[inline(always)]
    pub(crate) fn busy(self) -> u64 {
        self.busy.get()
    }

    #[inline(always)]
    pub(crate) fn set_busy(self, busy: u64) {
        self.busy.set(busy);
        self.hot.set(busy & !QUICK | self.hot.get() & QUICK);
    }

    /// With a geometry: notes that `cpu`, which just used the line in its first level, may use it
    /// directly the next time. A clean line first has to become dirty.
    pub(crate) fn mark_quick(self, cpu: usize) {
        let mine = self.owner.get() as usize == cpu + 1 && self.dirty.get();
        self.set_quick(if mine { cpu as u16 + 1 } else { 0 });
    }

    /// Without a geometry: sets the owner, 0 for none.
    pub(crate) fn set_owner(self, owner: u16) {
        self.owner.set(owner);
        self.set_quick(owner);
    }
}
