//! The caches of a machine with a geometry, as lists of lines by recency; `hierarchy.rs` has their
//! transitions.

use crate::preset::{Caches, Topology, ps};

/// One level: the same cache many times.
pub(crate) struct Level {
    pub(crate) sets: usize,
    /// `sets - 1` if `sets` is a power of two, else 0.
    pub(crate) mask: usize,
    pub(crate) ways: usize,
    /// For each cache and set the lines it lists as number + 1, the most recently used first, ways
    /// that were never used (0) last.
    pub(crate) tags: Vec<u32>,
    /// A bit for each set of each cache: it may have gaps.
    pub(crate) gaps: Vec<u64>,
}

impl Level {
    pub(crate) fn new(caches: usize, lines: usize, ways: usize) -> Self {
        // Zero pages come from the host untouched, so a large cache costs what is used of it.
        let sets = lines / ways;
        let gaps = vec![0; (caches * sets).div_ceil(64)];
        let mask = if sets.is_power_of_two() { sets - 1 } else { 0 };
        Self { sets, mask, ways, tags: vec![0; caches * lines], gaps }
    }

    /// Returns the number of the set of `line`, among the sets of all caches.
    #[inline]
    pub(crate) fn number(&self, cache: usize, line: usize) -> usize {
        cache * self.sets + self.place(line)
    }

    /// The set of `line` in each cache. A division is dear, and most have a power of two of sets.
    #[inline]
    pub(crate) fn place(&self, line: usize) -> usize {
        if self.mask == 0 { line % self.sets } else { line & self.mask }
    }

    #[inline]
    pub(crate) fn set(&mut self, cache: usize, line: usize) -> &mut [u32] {
        let start = self.number(cache, line) * self.ways;
        &mut self.tags[start..start + self.ways]
    }

    /// Whether its set lists `line` as the most recently used one.
    #[inline]
    pub(crate) fn in_front(&self, cache: usize, line: usize) -> bool {
        self.tags[self.number(cache, line) * self.ways] == line as u32 + 1
    }

    /// Makes `line` the most recently used of its set; whether the set lists it.
    #[inline]
    pub(crate) fn refresh(&mut self, cache: usize, line: usize) -> bool {
        refresh(self.set(cache, line), line)
    }

    /// Brings in `line`, which the cache does not hold; returns the line that falls out. `held`
    /// says whether the cache still holds a line that it lists.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        cache: usize,
        line: usize,
        held: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let tag = line as u32 + 1;
        let set = self.set(cache, line);
        if set[0] == tag {
            return None;
        }
        // Its own gap, if it has one, lies before what was never used.
        if let Some(way) = set.iter().position(|&other| other == tag || other == 0) {
            push_front(&mut set[..=way], tag);
            return None;
        }
        if let Some(way) = self.gap(cache, line, held) {
            push_front(&mut self.set(cache, line)[..=way], tag);
            return None;
        }
        Some(push_front(self.set(cache, line), tag) as usize - 1)
    }

    /// A gap in the set of `line`.
    pub(crate) fn gap(
        &mut self,
        cache: usize,
        line: usize,
        held: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let number = self.number(cache, line);
        if self.gaps[number / 64] >> (number % 64) & 1 == 0 {
            return None;
        }
        let way = self.set(cache, line).iter().position(|&tag| !held(tag as usize - 1));
        if way.is_none() {
            self.gaps[number / 64] &= !(1 << (number % 64));
        }
        way
    }

    /// The directory takes `line` away.
    #[inline]
    pub(crate) fn leave_gap(&mut self, cache: usize, line: usize) {
        self.leave_gap_at(cache, self.place(line));
    }

    /// Records that the directory removes the line with [`Self::place`] `place`.
    #[inline]
    pub(crate) fn leave_gap_at(&mut self, cache: usize, place: usize) {
        let number = cache * self.sets + place;
        self.gaps[number / 64] |= 1 << (number % 64);
    }
}

/// [`Level::refresh`] in one set.
#[inline]
pub(crate) fn refresh(set: &mut [u32], line: usize) -> bool {
    let tag = line as u32 + 1;
    if set[0] == tag {
        return true;
    }
    let Some(way) = set.iter().position(|&other| other == tag) else { return false };
    push_front(&mut set[..=way], tag);
    true
}

/// Inserts `tag` at the front of `set`; returns the tag that is evicted at the end.
///
/// By hand, because a set is so short that a call to move memory takes longer.
#[inline]
pub(crate) fn push_front(set: &mut [u32], tag: u32) -> u32 {
    set.iter_mut().fold(tag, |carried, way| core::mem::replace(way, carried))
}

#[cfg(test)]
impl Level {
    pub(crate) fn lists(&mut self, cache: usize, line: usize) -> bool {
        self.set(cache, line).contains(&(line as u32 + 1))
    }
}

/// The caches of all CPUs.
pub(crate) struct Hierarchy {
    pub(crate) l1: Level,
    pub(crate) l2: Level,
    pub(crate) l2_price: u64,
    pub(crate) l3: Option<Level>,
    pub(crate) l3_price: u64,
    pub(crate) inclusive: bool,
}

impl Hierarchy {
    pub(crate) fn new(caches: &Caches, topology: &Topology) -> Self {
        let groups = topology.cpus.div_ceil(topology.cpus_per_llc);
        let l3 = caches.l3.as_ref();
        Self {
            l1: Level::new(topology.cpus, caches.l1.lines, caches.l1.ways),
            l2: Level::new(topology.cpus, caches.l2.lines, caches.l2.ways),
            l2_price: ps(caches.l2.ns),
            l3: l3.map(|l3| Level::new(groups, l3.lines, l3.ways)),
            l3_price: l3.map_or(0, |l3| ps(l3.ns)),
            inclusive: l3.is_some_and(|l3| l3.inclusive),
        }
    }

    #[inline]
    pub(crate) fn drop_private(&mut self, cpu: usize, line: usize) {
        self.l1.leave_gap(cpu, line);
        self.l2.leave_gap(cpu, line);
    }
}
