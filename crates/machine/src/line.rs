//! Cache-line coherence: the holders of a line, the cost of an access, and the CPUs that spin on
//! it.
//!
//! A directory protocol with the states of MESI. A line is *owned* by one CPU (modified or
//! exclusive), *shared* by a set of CPUs, or in no cache. A request for a line that is in transit
//! queues behind the transfer, so the price of a contended line grows with its requesters by
//! itself.
//!
//! A preset may state the geometry of its caches; then lines are evicted as well, and
//! `hierarchy.rs` has the transitions. Without one a line leaves a cache by invalidation only.

use crate::caches::Hierarchy;
use crate::entry::{Entry, Hot, Line};
use crate::memory::{LINE, STACK, release, reserve};
use crate::numa::{Controllers, Distances};
use crate::preset::Preset;
use crate::reach::{Copies, Reach};
use crate::turns::Turns;
use core::cell::RefCell;
use core::ptr::NonNull;

/// The lines of a region and their prices.
pub(crate) struct Lines {
    table: NonNull<Entry>,
    hot: NonNull<Hot>,
    count: usize,
    /// Offsets below this lie on task stacks.
    stacks: usize,
    /// Stacks, which have one entry each, before the others.
    slots: usize,
    /// Lines behind the stacks.
    heap: usize,
    /// Words of 64 sharers for each set in the pool; 1 means the set is in the line itself.
    pub(crate) words: usize,
    pub(crate) pool: RefCell<Vec<u64>>,
    pub(crate) cpus: usize,
    /// CPUs that share a last-level cache.
    pub(crate) llc: usize,
    pub(crate) price: Distances,
    pub(crate) reach: Reach,
    pub(crate) turns: Turns,
    controllers: Controllers,
    pub(crate) caches: Option<Box<RefCell<Hierarchy>>>,
    perturbation: u64,
    seed: u64,
}

/// Scale of the perturbation fraction.
const FRACTION: u64 = 1 << 20;

/// A mixing function for keyed perturbation and hashes (the finaliser of `SplitMix64`, Steele et
/// al. 2014).
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the perturbation, at most `most`, of a line's miss number `misses`; `chance` is the
/// line's.
#[inline(always)]
pub(crate) fn more(most: u64, chance: u64, misses: u32) -> u64 {
    let key = chance ^ u64::from(misses);
    most * (mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15)) % FRACTION) / FRACTION
}

impl Lines {
    pub(crate) fn new(
        preset: &Preset,
        seed: u64,
        count: usize,
        stacks: usize,
    ) -> std::io::Result<Self> {
        let topology = &preset.topology;
        let caches = preset.cache.as_ref().map(|caches| Hierarchy::new(caches, topology));
        let (price, llc) = (Distances::new(preset), topology.cpus_per_llc);
        Ok(Self {
            table: reserve(count * size_of::<Entry>())?.cast(),
            hot: reserve(count * size_of::<Hot>())?.cast(),
            count,
            stacks,
            slots: stacks / STACK,
            heap: count - stacks / LINE,
            words: topology.cpus.div_ceil(64),
            // Set 0 is the empty set and never written.
            pool: RefCell::new(vec![0; topology.cpus.div_ceil(64)]),
            cpus: topology.cpus,
            llc,
            reach: Reach::new(&price, topology.cpus, llc),
            price,
            turns: Turns::new(preset, count),
            controllers: Controllers::new(preset),
            caches: caches.map(|caches| Box::new(RefCell::new(caches))),
            perturbation: (preset.perturbation * FRACTION as f64) as u64,
            seed,
        })
    }

    /// The entry of `offset`. A task's stack, which holds its waiter in a lock's queue, counts as
    /// one line: otherwise results would depend on the compiler's frame layout and differ between
    /// builds. So stacks have one entry each, before the rest.
    #[inline(always)]
    pub(crate) fn index(&self, offset: usize) -> usize {
        // An offset below the heap wraps around, beyond the last line.
        let line = offset.wrapping_sub(self.stacks) / LINE;
        if line < self.heap {
            return self.slots + line;
        }
        assert!(offset < self.stacks, "an atomic word outside simulated memory was used");
        offset / STACK
    }

    /// What keys the perturbation of line `index`: the number of its first line in the region,
    /// spread for stacks.
    #[inline(always)]
    fn key(&self, index: usize) -> u64 {
        const LINES: usize = STACK / LINE;
        let line = if index >= self.slots {
            index - self.slots + self.slots * LINES
        } else {
            index * LINES + index * 17 % LINES
        };
        line as u64
    }

    /// The line of `offset`.
    #[inline(always)]
    pub(crate) fn at(&self, offset: usize) -> Line<'_> {
        self.entry(self.index(offset))
    }

    /// The first part of the line of `offset`, and the number of the line.
    #[inline(always)]
    pub(crate) fn hot(&self, offset: usize) -> (&Hot, usize) {
        let index = self.index(offset);
        // SAFETY: `index` returns numbers of stacks, and of lines of the heap behind them: together
        // at most `count`, the length of the table.
        let hot = unsafe { self.hot.add(index) };
        // SAFETY: the table is zero-initialised, and the zero image of `Hot` is valid.
        (unsafe { hot.as_ref() }, index)
    }

    /// The line of number `index`.
    #[inline(always)]
    pub(crate) fn entry(&self, index: usize) -> Line<'_> {
        assert!(index < self.count, "no line has this number");
        // SAFETY: `index` is below `count`, the length of the table.
        let hot = unsafe { self.hot.add(index) };
        // SAFETY: the same holds of the other table.
        let entry = unsafe { self.table.add(index) };
        // SAFETY: the table is zero-initialised, and the zero image of `Hot` is valid.
        let hot = unsafe { hot.as_ref() };
        // SAFETY: the same holds of `Entry`.
        let entry = unsafe { entry.as_ref() };
        Line { hot, entry }
    }

    /// Returns the address of the data that an access to `offset` reads first, if `offset` is in
    /// simulated memory.
    #[inline]
    pub(crate) fn place(&self, offset: usize) -> *const u8 {
        let line = offset.wrapping_sub(self.stacks) / LINE;
        let index = if line < self.heap { self.slots + line } else { offset / STACK };
        self.hot.as_ptr().wrapping_add(index).cast()
    }

    /// The number of `line`.
    #[inline(always)]
    pub(crate) fn number(&self, line: Line<'_>) -> usize {
        let offset = core::ptr::from_ref(line.entry).addr() - self.table.addr().get();
        offset / size_of::<Entry>()
    }

    /// Whether `offset` lies on the stack of a task.
    pub(crate) fn on_stack(&self, offset: usize) -> bool {
        offset < self.stacks
    }

    /// Whether `cpu` may read `line` without a transfer.
    #[inline]
    pub(crate) fn readable(&self, line: Line<'_>, cpu: usize) -> bool {
        if line.owner.get() as usize == cpu + 1 {
            return true;
        }
        let sharers = line.sharers.get();
        if self.words == 1 {
            sharers >> cpu & 1 == 1
        } else {
            sharers != 0
                && self.pool.borrow()[sharers as usize * self.words + cpu / 64] >> (cpu % 64) & 1
                    == 1
        }
    }

    /// Calls `visit` with each word of 64 sharers of `line` that is not empty, and its number.
    #[inline(always)]
    fn each_word(&self, line: Line<'_>, mut visit: impl FnMut(usize, u64)) {
        let sharers = line.sharers.get();
        if self.words == 1 {
            visit(0, sharers);
        } else if sharers != 0 {
            let start = sharers as usize * self.words;
            for (at, &bits) in self.pool.borrow()[start..start + self.words].iter().enumerate() {
                visit(at, bits);
            }
        }
    }

    /// Calls `visit` for each CPU that shares `line`, in order.
    pub(crate) fn each_sharer(&self, line: Line<'_>, mut visit: impl FnMut(usize)) {
        self.each_word(line, |at, mut bits| {
            while bits != 0 {
                visit(at * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        });
    }

    /// Whether any CPU shares `line`.
    pub(crate) fn shared(&self, line: Line<'_>) -> bool {
        let mut any = false;
        self.each_word(line, |_, bits| any |= bits != 0);
        any
    }

    /// Whether a CPU or the third level of `group` has a copy of `line`.
    pub(crate) fn held_in(&self, line: Line<'_>, group: usize) -> bool {
        let owner = line.owner.get() as usize;
        let mut held = line.l3.get() >> (group % 32) & 1 == 1;
        held |= owner != 0 && self.price.group_of(owner - 1) == group;
        self.each_word(line, |at, bits| held |= self.some_in(group, at, bits));
        held
    }

    /// Whether one of the CPUs `bits`, which are word `word` of a set, is in `group`.
    pub(crate) fn some_in(&self, group: usize, word: usize, bits: u64) -> bool {
        let (first, end) = (group * self.llc, (group + 1) * self.llc);
        let (from, to) = (first.max(word * 64), end.min(word * 64 + 64));
        from < to && bits >> (from - word * 64) << (64 - (to - from)) != 0
    }

    /// The copies of `line` that are neither in the private caches of `cpu` nor in the third level
    /// of its group.
    #[inline(always)]
    pub(crate) fn copies(&self, line: Line<'_>, cpu: usize) -> Option<&Copies> {
        let owner = line.owner.get() as usize;
        let mut found = 0;
        if owner == 0 {
            self.each_word(line, |at, bits| found |= self.reach.of(cpu, at, bits));
        } else if owner != cpu + 1 {
            found = 1 << self.price.distance(cpu, owner - 1);
        }
        if line.l3.get() != 0 {
            found |= self.reach.of_groups(self.price.group_of(cpu), line.l3.get());
        }
        self.reach.copies(found, self.away(line, cpu))
    }

    /// Returns whether `line` is in the memory of a package other than `cpu`'s, if this affects its
    /// transfers.
    #[inline]
    pub(crate) fn away(&self, line: Line<'_>, cpu: usize) -> bool {
        let home = line.home.get() as usize;
        !self.price.away.is_empty() && home != 0 && home != self.price.package_of(cpu) + 1
    }

    /// [`Self::copies`] for a read, which only wants the nearest.
    #[inline(always)]
    pub(crate) fn nearest(&self, line: Line<'_>, cpu: usize) -> Option<&Copies> {
        let mut inside = false;
        if line.owner.get() == 0 {
            self.each_word(line, |at, bits| inside |= self.reach.inside(cpu, at, bits));
        }
        if inside { self.reach.copies(1, false) } else { self.copies(line, cpu) }
    }

    /// The caches of a preset with a geometry.
    #[cfg(test)]
    pub(crate) fn hierarchy(&self) -> core::cell::RefMut<'_, Hierarchy> {
        self.caches.as_ref().expect("a geometry").borrow_mut()
    }

    #[inline]
    pub(crate) fn clear_sharers(&self, line: Line<'_>) {
        if self.words == 1 {
            line.sharers.set(0);
        } else if line.sharers.get() != 0 {
            let start = line.sharers.get() as usize * self.words;
            self.pool.borrow_mut()[start..start + self.words].fill(0);
        }
    }

    #[inline(always)]
    pub(crate) fn add_sharer(&self, line: Line<'_>, cpu: usize) {
        if self.words == 1 {
            line.sharers.set(line.sharers.get() | 1 << cpu);
        } else {
            self.pool_sharer(line, cpu);
        }
    }

    /// If other CPUs share `line` and `cpu` does not, it does so too, and the result is true.
    #[inline(always)]
    pub(crate) fn join_sharers(&self, line: Line<'_>, cpu: usize) -> bool {
        if self.words == 1 {
            let (sharers, mine) = (line.sharers.get(), 1 << cpu);
            let joins = sharers != 0 && sharers & mine == 0;
            if joins {
                line.sharers.set(sharers | mine);
            }
            return joins;
        }
        let (start, mine) = (line.sharers.get() as usize * self.words, 1 << (cpu % 64));
        let mut pool = self.pool.borrow_mut();
        let set = &mut pool[start..start + self.words];
        let joins = set.iter().any(|&bits| bits != 0) && set[cpu / 64] & mine == 0;
        if joins {
            set[cpu / 64] |= mine;
        }
        joins
    }

    fn pool_sharer(&self, line: Line<'_>, cpu: usize) {
        let mut pool = self.pool.borrow_mut();
        if line.sharers.get() == 0 {
            line.sharers.set((pool.len() / self.words) as u64);
            let end = pool.len() + self.words;
            pool.resize(end, 0);
        }
        pool[line.sharers.get() as usize * self.words + cpu / 64] |= 1 << (cpu % 64);
    }

    pub(crate) fn remove_sharer(&self, line: Line<'_>, cpu: usize) {
        if self.words == 1 {
            line.sharers.set(line.sharers.get() & !(1 << cpu));
        } else if line.sharers.get() != 0 {
            let at = line.sharers.get() as usize * self.words + cpu / 64;
            self.pool.borrow_mut()[at] &= !(1 << (cpu % 64));
        }
    }

    /// A request by `cpu` at `at` for a line that no cache holds: when its memory controller takes
    /// it, and how long the line then travels.
    pub(crate) fn memory_turn(
        &self,
        line: Line<'_>,
        index: usize,
        cpu: usize,
        at: u64,
    ) -> (u64, u64) {
        if line.home.get() == 0 {
            line.home.set(self.price.package_of(cpu).min(254) as u8 + 1);
        }
        let home = line.home.get() as usize - 1;
        (self.occupy(line, index, at), self.price.memory(cpu, home))
    }

    /// Takes the next turn at the memory controller of `line` after `at`: when it begins.
    pub(crate) fn occupy(&self, line: Line<'_>, index: usize, at: u64) -> u64 {
        self.controllers.take((line.home.get() as usize).saturating_sub(1), index, at)
    }

    /// The perturbed price of a miss.
    #[inline(always)]
    pub(crate) fn perturb(&self, line: Line<'_>, index: usize, price: u64) -> u64 {
        let misses = line.misses.get();
        line.misses.set(misses.wrapping_add(1));
        if self.perturbation == 0 {
            return price;
        }
        price + more(self.most(price), self.chance(index), misses)
    }

    /// By how much the perturbation may change `price`.
    #[inline(always)]
    pub(crate) fn most(&self, price: u64) -> u64 {
        price * self.perturbation / FRACTION
    }

    /// Returns the common seed of the draws for misses of line `index`.
    #[inline(always)]
    pub(crate) fn chance(&self, index: usize) -> u64 {
        self.seed ^ self.key(index) << 32
    }

    /// A read of `line` by `cpu` at `now`: returns when the CPU has the line. `front` says that the
    /// line is known to be in front of the CPU's sets.
    #[inline]
    pub(crate) fn read(&self, line: Line<'_>, cpu: usize, now: u64, front: bool) -> u64 {
        let index = self.number(line);
        if let Some(caches) = &self.caches {
            return self.read_cached(&mut caches.borrow_mut(), index, cpu, now, front);
        }
        if self.readable(line, cpu) { now } else { self.fetch(line, index, cpu, now) }
    }

    /// A write to `line` by `cpu` at `now`: returns when the CPU owns the line.
    #[inline]
    pub(crate) fn write(&self, line: Line<'_>, cpu: usize, now: u64) -> u64 {
        let index = self.number(line);
        if let Some(caches) = &self.caches {
            return self.write_cached(&mut caches.borrow_mut(), index, cpu, now);
        }
        if line.owner.get() as usize == cpu + 1 { now } else { self.own(line, index, cpu, now) }
    }

    #[inline]
    fn fetch(&self, line: Line<'_>, index: usize, cpu: usize, now: u64) -> u64 {
        let copies = self.nearest(line, cpu);
        let owner = line.owner.get() as usize;
        let request = self.read_request(line, cpu, copies.is_some_and(|copies| copies.inside));
        if owner != 0 {
            self.add_sharer(line, owner - 1);
            line.set_owner(0);
        }
        let Some(copies) = copies else {
            // From memory alone: the reader gets it exclusive (MESI), so that its first write is
            // silent.
            line.set_owner(cpu as u16 + 1);
            return self.serve_from_memory(line, index, &request, cpu, now);
        };
        self.add_sharer(line, cpu);
        self.serve_read(line, index, &request, now, copies.near, self.price.llc)
    }

    /// Invalidates the copies of the others.
    #[inline]
    fn own(&self, line: Line<'_>, index: usize, cpu: usize, now: u64) -> u64 {
        let copies = self.copies(line, cpu);
        let mut request = self.read_request(line, cpu, true);
        let copied = self.readable(line, cpu);
        self.clear_sharers(line);
        line.set_owner(cpu as u16 + 1);
        match copies {
            Some(&Copies { far, outside, .. }) => {
                request.inside = !outside;
                let price = if copied { self.price.upgrade.unwrap_or(far) } else { far };
                self.serve_write(line, index, &request, now, price)
            }
            // Shared by this CPU alone: nobody is asked.
            None if copied => self.turns.begin(line, index, &request, now),
            None => self.serve_from_memory(line, index, &request, cpu, now),
        }
    }

    /// Takes the line of `offset` as private memory of `cpu` without a transfer.
    pub(crate) fn adopt(&self, offset: usize, cpu: usize, now: u64) {
        let index = self.index(offset);
        if let Some(caches) = &self.caches {
            return self.adopt_cached(&mut caches.borrow_mut(), index, cpu, now);
        }
        let line = self.entry(index);
        self.clear_sharers(line);
        line.set_owner(cpu as u16 + 1);
        line.set_busy(0);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: the table is the reservation of `new`, and no reference to a line outlives
        // `self`.
        unsafe { release(self.table.cast(), self.count * size_of::<Entry>()) };
        // SAFETY: the same.
        unsafe { release(self.hot.cast(), self.count * size_of::<Hot>()) };
    }
}
