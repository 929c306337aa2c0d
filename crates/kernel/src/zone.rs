//! The page allocator of the kernel's paths: the zones of `convoy-mm` on the virtual machine, one
//! for each memory node, and the active list of each node in front of its `lru_lock`.
//!
//! A CPU takes pages from its own node's zone first, from the others in the order of [`nodes`]. It
//! has a list of free pages for each zone, so a freed page goes to the list of its zone. Source:
//! `mm/page_alloc.c` and `mm/swap.c` of 3.7.

mod nodes;
mod stacks;

use stacks::StackCache;
pub use stacks::StackSource;

use crate::costs::Costs;
use crate::lock_rules::LockRules;
use crate::locks::{Field, Guarded, Line, Spin};
use convoy_machine::{Here, Preset, Sim, Smp};
use convoy_mm::{
    Bulk, HoldAll, LockPlace, ORDER_MAX, ReleaseContendedEvery, ReleaseEach, Setup, Stats,
    Temperature, Zone,
};
use convoy_sync::{Platform, RawLock};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::cell::RefCell;
use core::fmt::Write as _;
use core::num::NonZeroU32;
use schemars::JsonSchema;
use serde::Deserialize;

/// Pages that are collected for the active list before `lru_lock` is taken.
const PAGEVEC: u32 = 14;
/// The only order of blocks that paths ask for: a kernel stack of two pages.
const STACK_ORDER: u32 = 1;
/// Pages between `DMA` and `HighMem` of a 32-bit kernel: 880 MiB.
const LOW_PAGES: u32 = 880 << 8;
/// Pages of `DMA`: 16 MiB.
const DMA_PAGES: u32 = 16 << 8;

/// Policy of the zone lock while a batch of pages moves between a CPU's list and the zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ZonePolicy {
    /// It is held for the whole batch, as every kernel does.
    #[default]
    HoldAll,
    /// It is released after each page: the patch of 2007 without its hole.
    ReleaseEach,
    /// It is released between two pages if there are waiters: the patch as integrated with ticket
    /// locks in January 2008.
    ReleaseContended,
}

/// The page-frame allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "independent options of the build")]
pub struct ZoneRules {
    /// Policy of the zone lock.
    pub lock: ZonePolicy,
    /// The zone lock has a separate cache line, instead of one with the lists of small orders.
    pub own_line: bool,
    /// A 32-bit kernel: memory above 880 MiB is a separate zone (`HighMem`), from which pages of
    /// programs and files are taken first. What lies below the first 16 MiB (`DMA`) is left alone.
    /// Such a kernel is built without `CONFIG_NUMA`: all memory is one node.
    pub highmem: bool,
    /// `CONFIG_HIGHPTE`: page tables except the first of each process are allocated from `HighMem`,
    /// too.
    pub highpte: bool,
    /// Allocator of kernel stacks: `pages`, as on x86-64, or `slab`, as on i386.
    pub stacks: StackSource,
    /// `CONFIG_4KSTACKS`: a kernel stack is one page instead of two.
    pub small_stacks: bool,
}

impl ZoneRules {
    /// Pages of a kernel stack.
    fn stack_pages(self) -> u32 {
        if self.small_stacks { 1 } else { 1 << STACK_ORDER }
    }
}

/// Pages that stay free in a zone while the next one has some, `pages_min` of `HighMem` at 128 MiB
/// (`setup_per_zone_pages_min` of `mm/page_alloc.c`, 2.6.16).
const WATERMARK: u32 = 32;

/// The user of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Programs and files: any zone, `HighMem` first.
    Programs,
    /// Page tables but the first: as programs with `CONFIG_HIGHPTE`, or else as the kernel itself.
    Tables,
    /// The kernel itself, which cannot address `HighMem`.
    Kernel,
}

/// A policy of the zone lock, with the instructions that each page costs under it.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// Policy of the lock.
    pub policy: ZonePolicy,
    /// Pages between two looks for waiters, if it is released to them.
    pub every: NonZeroU32,
    /// Picoseconds of each page.
    pub page_ps: u64,
}

impl<L: RawLock<Smp>> Bulk<Smp, L> for Moves {
    fn run(&self, lock: &L, count: u32, mut step: impl FnMut() -> bool) -> u32 {
        let step = || {
            Here::pass(self.page_ps);
            step()
        };
        match self.policy {
            ZonePolicy::HoldAll => HoldAll.run(lock, count, step),
            ZonePolicy::ReleaseEach => ReleaseEach.run(lock, count, step),
            ZonePolicy::ReleaseContended => {
                ReleaseContendedEvery(self.every).run(lock, count, step)
            }
        }
    }

    #[track_caller]
    fn once<R>(&self, lock: &L, step: impl FnOnce() -> R) -> R {
        lock.lock();
        Here::pass(self.page_ps << STACK_ORDER);
        let result = step();
        lock.unlock();
        result
    }
}

/// One zone, its node, and the number of its first frame.
struct Part {
    name: &'static str,
    node: usize,
    first: u32,
    zone: Zone<Smp, Spin, Moves>,
}

impl Part {
    fn has(&self, frame: u32) -> bool {
        frame >= self.first && frame - self.first < self.zone.frames()
    }
}

/// What moved between the zones of one name and the lists of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStats {
    /// `HighMem` or `Normal`.
    pub zone: &'static str,
    /// What moved, in all nodes.
    pub moved: Stats,
}

/// Pages of one CPU on the way to the active list.
struct Pagevec {
    /// How many, as the kernel counts them.
    count: Sim<Line<Field<u32>>>,
    frames: RefCell<Vec<u32>>,
}

/// All memory of the machine.
pub(crate) struct Zones {
    /// Node by node; `HighMem` first, where there is one.
    parts: Vec<Part>,
    /// By node: the parts in the order in which its CPUs ask them for pages of programs.
    orders: Vec<Vec<usize>>,
    /// By CPU.
    node_of: Vec<usize>,
    /// By node: the active list. `HighMem` and `Normal` share it.
    lru: Vec<Sim<Line<Guarded<Field<u32>>>>>,
    /// By CPU.
    pagevecs: Vec<Pagevec>,
    rules: ZoneRules,
    /// Free kernel stacks, if they are kept in a slab cache.
    stacks: Option<StackCache>,
}

impl Zones {
    /// The zones of `pages` pages on `machine`, each rounded down to whole blocks of the largest
    /// order.
    pub(crate) fn new(
        rules: ZoneRules,
        locks: LockRules,
        pages: u32,
        machine: &Preset,
        costs: &Costs,
    ) -> Self {
        let cpus = machine.topology.cpus;
        let nodes = if rules.highmem { 1 } else { nodes::count(machine) };
        let spans = spans(rules, pages, nodes);
        let lock = if rules.own_line { LockPlace::OwnLine } else { LockPlace::BesideLists };
        let part = |&Span { name, node, first, pages, lock_name }: &Span| {
            let frames = pages >> ORDER_MAX << ORDER_MAX;
            let (policy, every) = (rules.lock, NonZeroU32::MIN);
            let bulk = Moves { policy, every, page_ps: costs.bulk_page };
            let zone =
                Zone::with_locks(Setup { lock, ..Setup::new(frames, cpus, bulk) }, || locks.spin());
            zone.lock().name(lock_name);
            Part { name, node, first, zone }
        };
        let lru = |_| {
            let lru = Here::place(Line(locks.guarded(Field::new(0))));
            lru.name("zone->lru_lock");
            lru
        };
        let lru: Vec<_> = (0..nodes).map(lru).collect();
        let parts: Vec<Part> = spans.iter().map(part).collect();
        let pagevec = |_| Pagevec {
            count: Here::place(Line(Field::new(0))),
            frames: RefCell::new(Vec::with_capacity(PAGEVEC as usize)),
        };
        let order = |nodes: Vec<usize>| -> Vec<usize> {
            let rank = |at: usize| nodes.iter().position(|&node| node == spans[at].node);
            let mut order: Vec<usize> = (0..parts.len()).collect();
            order.sort_by_key(|&at| rank(at));
            order
        };
        Self {
            orders: nodes::fallbacks(machine, nodes).into_iter().map(order).collect(),
            node_of: (0..cpus).map(|cpu| nodes::of(machine, cpu).min(nodes - 1)).collect(),
            lru,
            pagevecs: (0..cpus).map(pagevec).collect(),
            rules,
            stacks: (rules.stacks == StackSource::Slab)
                .then(|| StackCache::new(rules.stack_pages(), cpus, locks)),
            parts,
        }
    }

    /// Free pages, those on per-CPU lists included.
    pub(crate) fn free_pages(&self) -> u32 {
        self.parts.iter().map(|part| part.zone.free_frames()).sum()
    }

    /// Whether `pages` pages are free; those on per-CPU lists are only counted where they matter.
    pub(crate) fn has_pages(&self, pages: u64) -> bool {
        let plenty =
            |part: &Part| u32::try_from(pages).is_ok_and(|pages| part.zone.has_blocks(pages));
        self.parts.iter().any(plenty) || pages <= u64::from(self.free_pages())
    }

    /// Whether a lock of the zones is held.
    pub(crate) fn is_locked(&self) -> bool {
        self.parts.iter().any(|part| part.zone.lock().is_locked())
            || self.lru.iter().any(|lru| lru.is_locked())
            || self.stacks.as_ref().is_some_and(StackCache::is_locked)
    }

    /// What moved between the lists and the zones, in the order in which programs ask them.
    pub(crate) fn stats(&self) -> Vec<ZoneStats> {
        let mut all: Vec<ZoneStats> = Vec::new();
        for part in &self.parts {
            let moved = part.zone.stats();
            match all.iter_mut().find(|stats| stats.zone == part.name) {
                Some(stats) => stats.moved = stats.moved.and(moved),
                None => all.push(ZoneStats { zone: part.name, moved }),
            }
        }
        all
    }

    /// The zones as the kernel lists them: node by node, upwards.
    fn listed(&self) -> impl Iterator<Item = &Part> {
        self.parts.chunk_by(|one, next| one.node == next.node).flat_map(|node| node.iter().rev())
    }

    /// The text of `/proc/buddyinfo`: free blocks of each order.
    pub(crate) fn buddyinfo(&self) -> String {
        let mut text = String::new();
        for part in self.listed() {
            let _ = write!(text, "Node {}, zone {:>8} ", part.node, part.name);
            for blocks in part.zone.blocks() {
                let _ = write!(text, "{blocks:>6} ");
            }
            text.push('\n');
        }
        text
    }

    /// The text of `/proc/zoneinfo` as of 2.6.24, where each CPU has a list of hot pages and one of
    /// cold ones. Fields that the zones do not have (watermarks, reclaim) are 0.
    pub(crate) fn zoneinfo(&self) -> String {
        let mut text = String::new();
        for part in self.listed() {
            let zone = &part.zone;
            let free: u32 = (0..).zip(zone.blocks()).map(|(order, blocks)| blocks << order).sum();
            let frames = zone.frames();
            let _ = write!(
                text,
                "Node {}, zone {:>8}\n  pages free     {free}\n        min      0\n        \
                 low      0\n        high     0\n        scanned  0 (a: 0 i: 0)\n        spanned  \
                 {frames}\n        present  {frames}\n    nr_free_pages {free}\n        \
                 protection: (0)\n  pagesets\n",
                part.node, part.name
            );
            for cpu in 0..self.pagevecs.len() {
                for (number, at) in [Temperature::Hot, Temperature::Cold].into_iter().enumerate() {
                    let (high, batch) = (zone.size().high(at), zone.size().batch(at));
                    let _ = write!(
                        text,
                        "    cpu: {cpu} pcp: {number}\n              count: {}\n              \
                         high:  {high}\n              batch: {batch}\n",
                        zone.listed(cpu)[number]
                    );
                }
            }
            let _ = writeln!(
                text,
                "  all_unreclaimable: 0\n  prev_priority:    12\n  start_pfn:        {}",
                part.first
            );
        }
        text
    }

    /// The zones that may serve `whom` on this CPU, in the order in which they are asked.
    #[inline]
    fn for_use(&self, whom: Use) -> impl Iterator<Item = &Part> {
        let order = &self.orders[self.node_of[Here::cpu()]];
        let low = match whom {
            Use::Programs => false,
            Use::Tables => !self.rules.highpte,
            Use::Kernel => true,
        };
        // `HighMem` comes first in its only node.
        let skipped = if low && self.lru.len() == 1 { order.len() - 1 } else { 0 };
        order[skipped..].iter().map(|&at| &self.parts[at])
    }

    /// What `take` gets from the first zone for `whom` that has some. An almost empty zone is
    /// skipped without accessing its lock, unless all are.
    #[inline]
    fn first_of(&self, whom: Use, take: impl Fn(&Part) -> Option<u32>) -> Option<u32> {
        let from = |part: &Part| Some(part.first + take(part)?);
        let open = |part: &&Part| part.zone.has_blocks(WATERMARK);
        let frame = self.for_use(whom).filter(open).find_map(from);
        frame.or_else(|| self.for_use(whom).find_map(from))
    }

    /// Allocates one page.
    #[inline]
    pub(crate) fn page(&self, whom: Use, costs: &Costs) -> Sys<u32> {
        self.take_page(whom, Temperature::Hot, costs)
    }

    /// Allocates a page that no CPU has in its cache, for the disk to write.
    pub(crate) fn cold_page(&self, whom: Use, costs: &Costs) -> Sys<u32> {
        self.take_page(whom, Temperature::Cold, costs)
    }

    #[inline]
    fn take_page(&self, whom: Use, temperature: Temperature, costs: &Costs) -> Sys<u32> {
        let frame = self.first_of(whom, |part| part.zone.allocate(temperature));
        Here::pass(costs.page_alloc);
        frame.ok_or(Errno::ENOMEM)
    }

    /// Allocates `count` single pages, or none of them.
    pub(crate) fn pages(&self, count: u32, whom: Use, costs: &Costs) -> Sys<Vec<u32>> {
        let mut frames = Vec::with_capacity(count as usize);
        for _ in 0..count {
            match self.page(whom, costs) {
                Ok(frame) => frames.push(frame),
                Err(errno) => {
                    self.free(&frames, costs);
                    return Err(errno);
                }
            }
        }
        Ok(frames)
    }

    /// The zone of `frame`.
    #[inline]
    fn part(&self, frame: u32) -> &Part {
        self.parts.iter().find(|part| part.has(frame)).expect("every frame is in a zone")
    }

    /// Frees single pages, in batches of a pagevec.
    pub(crate) fn free(&self, frames: &[u32], costs: &Costs) {
        let first_of = |frame: u32| self.part(frame).first;
        for frames in frames.chunk_by(|&one, &next| first_of(one) == first_of(next)) {
            let part = self.part(frames[0]);
            for group in frames.chunks(PAGEVEC as usize) {
                let numbers = group.iter().map(|frame| frame - part.first);
                part.zone.free_all(numbers, Temperature::Hot);
                Here::pass(costs.page_free * group.len() as u64);
            }
        }
    }

    /// Takes a kernel stack: its first frame.
    pub(crate) fn take_stack(&self) -> Sys<u32> {
        let block = || {
            self.first_of(Use::Kernel, |part| {
                if self.rules.small_stacks {
                    part.zone.allocate(Temperature::Hot)
                } else {
                    part.zone.allocate_block(STACK_ORDER)
                }
            })
        };
        let stack = match &self.stacks {
            Some(cache) => cache.take(block),
            None => block(),
        };
        stack.ok_or(Errno::ENOMEM)
    }

    /// Returns it.
    pub(crate) fn free_stack(&self, first: u32) {
        let give = |first: u32| {
            let part = self.part(first);
            if self.rules.small_stacks {
                part.zone.free(first - part.first, Temperature::Hot);
            } else {
                part.zone.free_block(first - part.first, STACK_ORDER);
            }
        };
        match &self.stacks {
            Some(cache) => cache.give(first, give),
            None => give(first),
        }
    }

    /// Puts the new page `frame` on its node's active list, in groups.
    pub(crate) fn lru_add(&self, frame: u32, costs: &Costs) {
        Smp::preempt_disable();
        let Pagevec { count, frames } = &self.pagevecs[Here::cpu()];
        frames.borrow_mut().push(frame);
        let waiting = count.peek() + 1;
        count.write(waiting % PAGEVEC);
        if waiting == PAGEVEC {
            self.lru_move(&frames.take(), costs);
        }
        Smp::preempt_enable();
    }

    /// Moves pages onto or off the active lists, a group at a time; within a group a lock is kept
    /// until a page of another node comes (`pagevec_lru_move_fn`, `release_pages`).
    pub(crate) fn lru_move(&self, frames: &[u32], costs: &Costs) {
        let node_of = |frame: u32| self.part(frame).node;
        for group in frames.chunks(PAGEVEC as usize) {
            for run in group.chunk_by(|&one, &next| node_of(one) == node_of(next)) {
                let moved = run.len() as u32;
                self.lru[node_of(run[0])].hold_irq(|pages| {
                    pages.write(pages.peek().wrapping_add(moved));
                    Here::pass(costs.lru_page * u64::from(moved));
                });
            }
        }
    }
}

/// Where a zone lies.
struct Span {
    name: &'static str,
    node: usize,
    first: u32,
    pages: u32,
    lock_name: &'static str,
}

/// The zones of `pages` pages in `nodes` nodes, each with the same share, in whole blocks of the
/// largest order.
fn spans(rules: ZoneRules, pages: u32, nodes: usize) -> Vec<Span> {
    let low = LOW_PAGES + DMA_PAGES;
    let (normal, high) = ("zone->lock", "zone->lock (HighMem)");
    let span = |name, first, pages, lock_name| Span { name, node: 0, first, pages, lock_name };
    if rules.highmem && pages > low {
        return vec![
            span("HighMem", low, pages - low, high),
            span("Normal", DMA_PAGES, LOW_PAGES, normal),
        ];
    }
    // What is too little for a block in each node is that of the first nodes.
    let blocks = pages >> ORDER_MAX;
    let nodes = (nodes as u32).min(blocks).max(1);
    let share = (blocks / nodes) << ORDER_MAX;
    let of_node = |node: u32| {
        let first = node * share;
        let pages = if node + 1 == nodes { pages - first } else { share };
        Span { node: node as usize, ..span("Normal", first, pages, normal) }
    };
    (0..nodes).map(of_node).collect()
}

#[cfg(test)]
mod tests;
