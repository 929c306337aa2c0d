//! Cache-line coherence: who holds a line, what an access costs, and who spins on it.
//!
//! A directory protocol with the states of MESI. A line is *owned* by one CPU (modified or
//! exclusive), *shared* by a set of CPUs, or in no cache. A request for a line that is in transit
//! queues behind the transfer, so the price of a contended line grows with its requesters by
//! itself.

use crate::memory::{LINE, STACK, release, reserve};
use crate::preset::{Preset, ps};
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

/// Directory entry. The zero image is "in no cache".
#[repr(C)]
pub(crate) struct Line {
    /// CPU + 1 that owns the line, 0 when nobody does.
    pub(crate) owner: Cell<u16>,
    /// CPU + 1 of the first spinner, 0 when there is none; the rest hang on [`Spinners`].
    pub(crate) spinner: Cell<u16>,
    /// Misses so far: the key of the perturbation.
    misses: Cell<u32>,
    /// Up to 64 CPUs: bit set of the sharers. Above: index of a set in the pool, 0 for the empty
    /// set.
    sharers: Cell<u64>,
    /// Time until which the last transfer keeps the line busy, in picoseconds.
    pub(crate) busy: Cell<u64>,
    _pad: u64,
}

/// The lines of a region and their prices.
pub(crate) struct Lines {
    table: NonNull<Line>,
    count: usize,
    /// Offsets below this lie on task stacks.
    stacks: usize,
    /// Words of 64 sharers for each set in the pool; 1 means the set is in the line itself.
    words: usize,
    pool: RefCell<Vec<u64>>,
    llc: usize,
    package: usize,
    /// Up to 64 CPUs: for each CPU the bit sets of its last-level cache and of its package.
    near: Vec<(u64, u64)>,
    price: Transfer,
    perturbation: u64,
    seed: u64,
}

/// The CPUs of the group of `size` that `cpu` is in, of 64 at most.
fn group(cpu: usize, size: usize) -> u64 {
    (0..64).filter(|other| other / size == cpu / size).fold(0, |set, other| set | 1 << other)
}

/// Transfer prices in picoseconds.
#[derive(Clone, Copy)]
struct Transfer {
    llc: u64,
    package: u64,
    remote: u64,
    memory: u64,
    read_service: u64,
}

/// Scale of the perturbation fraction.
const FRACTION: u64 = 1 << 20;

/// A mixing function for keyed perturbation and hashes (the finaliser of `SplitMix64`, Steele et
/// al. 2014).
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Lines {
    pub(crate) fn new(
        preset: &Preset,
        seed: u64,
        count: usize,
        stacks: usize,
    ) -> std::io::Result<Self> {
        let p = &preset.price_ns;
        let (llc, package) = (preset.topology.cpus_per_llc, preset.topology.cpus_per_package);
        let small = if preset.topology.cpus <= 64 { preset.topology.cpus } else { 0 };
        Ok(Self {
            table: reserve(count * size_of::<Line>())?.cast(),
            count,
            stacks,
            words: preset.topology.cpus.div_ceil(64),
            // Set 0 is the empty set and never written.
            pool: RefCell::new(vec![0; preset.topology.cpus.div_ceil(64)]),
            llc,
            package,
            near: (0..small).map(|cpu| (group(cpu, llc), group(cpu, package))).collect(),
            price: Transfer {
                llc: ps(p.llc),
                package: ps(p.package),
                remote: ps(p.remote),
                memory: ps(p.memory),
                read_service: ps(p.read_service),
            },
            perturbation: (preset.perturbation * FRACTION as f64) as u64,
            seed,
        })
    }

    /// The entry of `offset`. All that a task has on its stack, which is the waiter of the lock it
    /// waits for, counts as one line: where a frame puts it is the compiler's choice, and with it
    /// every build would have results of its own. So stacks have one entry each, before the rest.
    #[inline(always)]
    fn index(&self, offset: usize) -> usize {
        if offset >= self.stacks {
            self.stacks / STACK + (offset - self.stacks) / LINE
        } else {
            offset / STACK
        }
    }

    /// What keys the perturbation of the line of `offset`: the number of its first line, spread
    /// for stacks.
    fn key(&self, offset: usize) -> u64 {
        const LINES: usize = STACK / LINE;
        let slot = offset / STACK;
        let line =
            if offset >= self.stacks { offset / LINE } else { slot * LINES + slot * 17 % LINES };
        line as u64
    }

    /// The line of `offset`.
    #[inline(always)]
    pub(crate) fn at(&self, offset: usize) -> &Line {
        let index = self.index(offset);
        assert!(index < self.count, "an atomic word outside simulated memory was used");
        // SAFETY: `index` is below `count`, the length of the table.
        let line = unsafe { self.table.add(index) };
        // SAFETY: the table is zero-initialised, and the zero image of `Line` is valid.
        unsafe { line.as_ref() }
    }

    /// Whether `offset` lies on the stack of a task.
    pub(crate) fn on_stack(&self, offset: usize) -> bool {
        offset < self.stacks
    }

    /// Whether `cpu` may read `line` without a transfer.
    #[inline]
    pub(crate) fn readable(&self, line: &Line, cpu: usize) -> bool {
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

    /// Price of moving a line between two CPUs.
    fn distance(&self, a: usize, b: usize) -> u64 {
        if a / self.llc == b / self.llc {
            self.price.llc
        } else if a / self.package == b / self.package {
            self.price.package
        } else {
            self.price.remote
        }
    }

    /// Nearest sharer of `line`, which `cpu` does not share, as a price.
    fn nearest(&self, line: &Line, cpu: usize) -> Option<u64> {
        let sharers = line.sharers.get();
        if self.words > 1 || sharers == 0 {
            return self.sharer_prices(line, cpu).map(|(near, _)| near);
        }
        let (llc, package) = self.near[cpu];
        Some(if sharers & llc != 0 {
            self.price.llc
        } else if sharers & package != 0 {
            self.price.package
        } else {
            self.price.remote
        })
    }

    /// Nearest and farthest sharer of `line` other than `cpu`, as prices.
    fn sharer_prices(&self, line: &Line, cpu: usize) -> Option<(u64, u64)> {
        let sharers = line.sharers.get();
        if sharers == 0 {
            return None;
        }
        let mut range: Option<(u64, u64)> = None;
        let mut visit = |word: usize, mut bits: u64| {
            if word == cpu / 64 {
                bits &= !(1 << (cpu % 64));
            }
            if bits == 0 {
                return;
            }
            // Groups are consecutive, so the price grows with the distance of the numbers' groups;
            // the extreme set bits of each word bound it.
            let (low, high) = (bits.trailing_zeros() as usize, 63 - bits.leading_zeros() as usize);
            for other in [word * 64 + low, word * 64 + high] {
                let price = self.distance(cpu, other);
                let (near, far) = range.unwrap_or((price, price));
                range = Some((near.min(price), far.max(price)));
            }
            let mine = self.llc.min(64);
            let start = cpu / mine * mine;
            if word == start / 64 && mine < 64 && bits >> (start % 64) & ((1 << mine) - 1) != 0 {
                let (near, far) = range.unwrap_or((self.price.llc, self.price.llc));
                range = Some((near.min(self.price.llc), far));
            }
        };
        if self.words == 1 {
            visit(0, sharers);
        } else {
            let pool = self.pool.borrow();
            for word in 0..self.words {
                visit(word, pool[sharers as usize * self.words + word]);
            }
        }
        range
    }

    fn clear_sharers(&self, line: &Line) {
        if self.words == 1 {
            line.sharers.set(0);
        } else if line.sharers.get() != 0 {
            let start = line.sharers.get() as usize * self.words;
            self.pool.borrow_mut()[start..start + self.words].fill(0);
        }
    }

    #[inline]
    fn add_sharer(&self, line: &Line, cpu: usize) {
        if self.words == 1 {
            line.sharers.set(line.sharers.get() | 1 << cpu);
            return;
        }
        let mut pool = self.pool.borrow_mut();
        if line.sharers.get() == 0 {
            line.sharers.set((pool.len() / self.words) as u64);
            let end = pool.len() + self.words;
            pool.resize(end, 0);
        }
        pool[line.sharers.get() as usize * self.words + cpu / 64] |= 1 << (cpu % 64);
    }

    /// The perturbed price of a miss.
    #[inline]
    fn perturb(&self, line: &Line, offset: usize, price: u64) -> u64 {
        let misses = line.misses.get();
        line.misses.set(misses.wrapping_add(1));
        if self.perturbation == 0 {
            return price;
        }
        let key = self.seed ^ self.key(offset) << 32 ^ misses as u64;
        let draw = mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15)) % FRACTION;
        price + ((price * self.perturbation / FRACTION) * draw / FRACTION)
    }

    /// A read by `cpu` at `now` that is not [`Self::readable`]: fetches the line, returns when it
    /// has arrived.
    pub(crate) fn fetch(&self, line: &Line, offset: usize, cpu: usize, now: u64) -> u64 {
        let start = now.max(line.busy.get());
        let owner = line.owner.get() as usize;
        let (price, service) = if owner != 0 {
            let price = self.distance(owner - 1, cpu);
            (price, price)
        } else if let Some(near) = self.nearest(line, cpu) {
            (near, self.price.read_service)
        } else {
            (self.price.memory, self.price.read_service)
        };
        if owner == 0 && service == self.price.read_service && line.sharers.get() == 0 {
            // From memory alone: the reader gets it exclusive (MESI), so that its first write is
            // silent.
            line.owner.set(cpu as u16 + 1);
        } else {
            if owner != 0 {
                self.add_sharer(line, owner - 1);
            }
            line.owner.set(0);
            self.add_sharer(line, cpu);
        }
        line.busy.set(start + service);
        start + self.perturb(line, offset, price)
    }

    /// A write by `cpu` at `now` to a line it does not own: invalidates the others, returns when
    /// the CPU owns it.
    pub(crate) fn own(&self, line: &Line, offset: usize, cpu: usize, now: u64) -> u64 {
        let start = now.max(line.busy.get());
        let owner = line.owner.get() as usize;
        let mut price = if owner != 0 { self.distance(owner - 1, cpu) } else { 0 };
        if let Some((_, far)) = self.sharer_prices(line, cpu) {
            price = price.max(far);
        }
        if price == 0 && !self.readable(line, cpu) {
            price = self.price.memory;
        }
        self.clear_sharers(line);
        line.owner.set(cpu as u16 + 1);
        let done = if price == 0 { start } else { start + self.perturb(line, offset, price) };
        line.busy.set(done);
        done
    }

    /// Takes the line as private memory of `cpu` without a transfer.
    pub(crate) fn adopt(&self, line: &Line, cpu: usize) {
        self.clear_sharers(line);
        line.owner.set(cpu as u16 + 1);
        line.busy.set(0);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: the table is the reservation of `new`, and no reference to a line outlives
        // `self`.
        unsafe { release(self.table.cast(), self.count * size_of::<Line>()) };
    }
}
