//! The page allocator of the kernel's paths: the zones of `convoy-mm` on the virtual machine, one
//! for each memory node, and the active list of each node in front of its `lru_lock`.
//!
//! A CPU takes pages from its own node's zone first, from the others in the order of [`nodes`]. It
//! has a list of free pages for each zone, so a freed page goes to the list of its zone. Source:
//! `mm/page_alloc.c` and `mm/swap.c` of 3.7.

mod nodes;
mod part;
mod rules;
mod stacks;

use part::{AnyZone, Lru, Part};
pub use rules::{Moves, ZonePolicy, ZoneRules};
use rules::{PAGEVEC, STACK_ORDER};
use stacks::StackCache;
pub use stacks::StackSource;

use crate::costs::Costs;
use crate::lock_rules::LockRules;
use crate::locks::{Field, Line};
use convoy_machine::{Here, Preset, Sim, Smp};
use convoy_mm::{ORDER_MAX, Stats, Temperature};
use convoy_sync::Platform;
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::cell::RefCell;
use core::num::NonZeroU32;

/// Pages between `DMA` and `HighMem` of a 32-bit kernel: 880 MiB.
const LOW_PAGES: u32 = 880 << 8;
/// Pages of `DMA`: 16 MiB.
const DMA_PAGES: u32 = 16 << 8;

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
    lru: Vec<Lru>,
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
        let part = |&Span { name, node, first, pages, lock_name }: &Span| {
            let frames = pages >> ORDER_MAX << ORDER_MAX;
            let (policy, every) = (rules.lock, NonZeroU32::MIN);
            let bulk = Moves { policy, every, page_ps: costs.bulk_page };
            let zone = AnyZone::new(rules, locks, frames, cpus, bulk, lock_name);
            Part { name, node, first, zone }
        };
        let lru: Vec<Lru> = (0..nodes).map(|_| Lru::new(rules, locks)).collect();
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
        self.parts.iter().any(|part| part.zone.is_locked())
            || self.lru.iter().any(Lru::is_locked)
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

    /// Frees single pages, a group at a time.
    pub(crate) fn free(&self, frames: &[u32], costs: &Costs) {
        let first_of = |frame: u32| self.part(frame).first;
        for frames in frames.chunk_by(|&one, &next| first_of(one) == first_of(next)) {
            let part = self.part(frames[0]);
            for group in frames.chunks(self.rules.release_group()) {
                part.zone.free_all(group.iter().map(|frame| frame - part.first));
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
                part.zone.free(first - part.first);
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

    /// Moves pages onto or off the active lists, in groups of a pagevec (`pagevec_lru_move_fn`).
    pub(crate) fn lru_move(&self, frames: &[u32], costs: &Costs) {
        frames.chunks(PAGEVEC as usize).for_each(|group| self.lru_move_group(group, costs));
    }

    /// Takes the pages of an address space off the active lists (`release_pages`).
    pub(crate) fn lru_remove(&self, frames: &[u32], costs: &Costs) {
        let groups = frames.chunks(self.rules.release_group());
        groups.for_each(|group| self.lru_move_group(group, costs));
    }

    /// Within a group a lock is kept until a page of another node comes.
    fn lru_move_group(&self, group: &[u32], costs: &Costs) {
        let node_of = |frame: u32| self.part(frame).node;
        for run in group.chunk_by(|&one, &next| node_of(one) == node_of(next)) {
            let moved = run.len() as u32;
            self.lru[node_of(run[0])]
                .change(moved, || Here::pass(costs.lru_page * u64::from(moved)));
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
