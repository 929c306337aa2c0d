//! Distances between CPUs and memory, and the queues at the memory controllers.

use crate::preset::{Preset, ps};
use core::cell::Cell;

/// Transfer prices in picoseconds.
pub(crate) struct Distances {
    cpus_per_package: usize,
    /// For each CPU the numbers of its last-level cache and of its package.
    places: Vec<(u16, u16)>,
    /// By distance: within a last-level cache, within a package, one hop between packages, ...
    pub(crate) prices: Vec<u64>,
    /// The same for a line in the memory of a package other than the requesting CPU's; empty if
    /// there is no difference.
    pub(crate) away: Vec<u64>,
    pub(crate) llc: u64,
    /// By number of hops, from 0. A single price holds for any number of hops.
    memory: Vec<u64>,
    /// Hops from package to package, row by row; empty when all are one hop apart.
    hops: Vec<u8>,
    packages: usize,
    /// Cost of a write beyond the transfer if other groups hold the line.
    pub(crate) invalidate: u64,
    /// A write to a line of which the CPU and others have copies, if not as a transfer.
    pub(crate) upgrade: Option<u64>,
    /// How long a line that other groups wait for stays with the CPU that has got it.
    pub(crate) kept: u64,
}

impl Distances {
    pub(crate) fn new(preset: &Preset) -> Self {
        let (p, topology) = (&preset.price_ns, &preset.topology);
        let place = |cpu| (cpu / topology.cpus_per_llc, cpu / topology.cpus_per_package);
        let mut distances = Self {
            cpus_per_package: topology.cpus_per_package,
            places: (0..topology.cpus)
                .map(place)
                .map(|(llc, package)| (llc as u16, package as u16))
                .collect(),
            prices: vec![ps(p.llc), ps(p.package), ps(p.remote)],
            away: Vec::new(),
            llc: ps(p.llc),
            memory: vec![ps(p.memory)],
            hops: Vec::new(),
            packages: 0,
            invalidate: ps(p.invalidate),
            upgrade: p.upgrade.map(ps),
            kept: ps(p.kept),
        };
        if let Some(numa) = &preset.numa {
            distances.prices.extend(numa.remote_ns.iter().map(|&ns| ps(ns)));
            distances.memory.extend(numa.memory_ns.iter().map(|&ns| ps(ns)));
            distances.hops = numa.hops.concat();
            distances.packages = numa.hops.len();
        }
        if let Some(away) = p.package_away {
            distances.away.clone_from(&distances.prices);
            distances.away[1] = ps(away);
        }
        distances
    }

    pub(crate) fn package_of(&self, cpu: usize) -> usize {
        cpu / self.cpus_per_package
    }

    /// The number of the last-level cache of `cpu`.
    #[inline]
    pub(crate) fn group_of(&self, cpu: usize) -> usize {
        self.places[cpu].0 as usize
    }

    fn hops(&self, a: usize, b: usize) -> usize {
        if self.hops.is_empty() {
            return usize::from(a != b);
        }
        self.hops[a * self.packages + b] as usize
    }

    /// How far two CPUs are apart, as an index of [`Self::prices`].
    pub(crate) fn distance(&self, a: usize, b: usize) -> usize {
        let (a, b) = (self.places[a], self.places[b]);
        if a.0 == b.0 { 0 } else { 1 + self.hops(a.1 as usize, b.1 as usize) }
    }

    /// Price of a line from the memory of package `home`.
    pub(crate) fn memory(&self, cpu: usize, home: usize) -> u64 {
        let hops = self.hops(self.package_of(cpu), home);
        self.memory[hops.min(self.memory.len() - 1)]
    }
}

/// The memory controllers: each serves one request at a time, first come first served.
pub(crate) struct Controllers {
    for_each_package: usize,
    service: u64,
    /// When each is free again.
    free: Vec<Cell<u64>>,
}

impl Controllers {
    pub(crate) fn new(preset: &Preset) -> Self {
        let packages = preset.topology.cpus.div_ceil(preset.topology.cpus_per_package);
        let (each, service) =
            preset.controllers.as_ref().map_or((1, 0), |c| (c.for_each_package, ps(c.service_ns)));
        Self { for_each_package: each, service, free: vec![Cell::new(0); packages * each] }
    }

    /// Queues a request at `at` for line `index` with home package `home`; returns when its service
    /// starts. Consecutive lines are interleaved over the controllers of their home.
    pub(crate) fn take(&self, home: usize, index: usize, at: u64) -> u64 {
        if self.service == 0 {
            return at;
        }
        let free = &self.free[home * self.for_each_package + index % self.for_each_package];
        let start = at.max(free.get());
        free.set(start + self.service);
        start
    }
}
