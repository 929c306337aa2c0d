//! The page allocator of the kernel's paths: the zones of `convoy-mm` on the virtual machine, and
//! the active list in front of `lru_lock`.

use crate::costs::Costs;
use crate::lock_rules::LockRules;
use crate::locks::{Field, Guarded, Line, Spin};
use convoy_machine::{Here, Sim, Smp};
use convoy_mm::{
    Bulk, HoldAll, LockPlace, ORDER_MAX, ReleaseContendedEvery, ReleaseEach, Setup, Stats,
    Temperature, Zone,
};
use convoy_sync::{Platform, RawLock};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::fmt::Write as _;
use core::num::NonZeroU32;
use schemars::JsonSchema;
use serde::Deserialize;

/// Pages that are collected for the active list before `lru_lock` is taken.
const PAGEVEC: u32 = 14;
/// A kernel stack is a block of this order: two pages.
const STACK_ORDER: u32 = 1;
/// Pages between `DMA` and `HighMem` of a 32-bit kernel: 880 MiB.
const LOW_PAGES: u32 = 880 << 8;
/// Pages of `DMA`: 16 MiB.
const DMA_PAGES: u32 = 16 << 8;

/// What the zone lock does while a batch of pages moves between a CPU's list and the zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ZonePolicy {
    /// It is held for the whole batch, as every kernel does.
    #[default]
    HoldAll,
    /// It is released after each page: the patch of 2007 without its hole.
    ReleaseEach,
    /// It is released between two pages when somebody waits: the patch as integrated with ticket
    /// locks in January 2008.
    ReleaseContended,
}

/// The page-frame allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZoneRules {
    /// Policy of the zone lock.
    pub lock: ZonePolicy,
    /// The zone lock has a cache line of its own, instead of one with the lists of small orders.
    pub own_line: bool,
    /// A 32-bit kernel: memory above 880 MiB is a zone of its own (`HighMem`), from which pages of
    /// programs and files are taken first. What lies below the first 16 MiB (`DMA`) is left alone.
    pub highmem: bool,
}

/// Pages that stay free in a zone while the next one has some, `pages_min` of `HighMem` at 128 MiB
/// (`setup_per_zone_pages_min` of `mm/page_alloc.c`, 2.6.16).
const WATERMARK: u32 = 32;

/// Whom a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Programs and files: any zone, `HighMem` first.
    Programs,
    /// The kernel itself, which has no address for `HighMem`.
    Kernel,
}

/// A policy of the zone lock, with the instructions that each page costs under it.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// What the lock does.
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

/// One zone, and the number of its first frame.
struct Part {
    name: &'static str,
    first: u32,
    zone: Zone<Smp, Spin, Moves>,
}

/// A zone of memory, and what moved between it and the lists of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStats {
    /// `HighMem` or `Normal`.
    pub zone: &'static str,
    /// What moved.
    pub moved: Stats,
}

/// All memory of the machine.
pub(crate) struct Zones {
    /// `HighMem` first, where there is one.
    parts: Vec<Part>,
    lru: Sim<Line<Guarded<Field<u32>>>>,
    /// By CPU: pages on the way to the active list.
    pagevecs: Vec<Sim<Line<Field<u32>>>>,
}

impl Zones {
    /// The zones of `pages` pages, rounded down to whole blocks of the largest order.
    pub(crate) fn new(
        rules: ZoneRules,
        locks: LockRules,
        pages: u32,
        cpus: usize,
        costs: &Costs,
    ) -> Self {
        let low = LOW_PAGES + DMA_PAGES;
        let spans = if rules.highmem && pages > low {
            vec![
                ("HighMem", low, pages - low, "zone->lock (HighMem)"),
                ("Normal", DMA_PAGES, LOW_PAGES, "zone->lock"),
            ]
        } else {
            vec![("Normal", 0, pages, "zone->lock")]
        };
        let lock = if rules.own_line { LockPlace::OwnLine } else { LockPlace::BesideLists };
        let part = |&(name, first, pages, lock_name): &(_, u32, u32, _)| {
            let frames = pages >> ORDER_MAX << ORDER_MAX;
            let (policy, every) = (rules.lock, NonZeroU32::MIN);
            let bulk = Moves { policy, every, page_ps: costs.bulk_page };
            let zone =
                Zone::with_locks(Setup { lock, ..Setup::new(frames, cpus, bulk) }, || locks.spin());
            zone.lock().name(lock_name);
            Part { name, first, zone }
        };
        let lru = Here::place(Line(locks.guarded(Field::new(0))));
        lru.name("zone->lru_lock");
        Self {
            parts: spans.iter().map(part).collect(),
            lru,
            pagevecs: (0..cpus).map(|_| Here::place(Line(Field::new(0)))).collect(),
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
        self.parts.iter().any(|part| part.zone.lock().is_locked()) || self.lru.is_locked()
    }

    /// What moved between the lists and each zone, in the order in which programs ask them.
    pub(crate) fn stats(&self) -> Vec<ZoneStats> {
        let stats = |part: &Part| ZoneStats { zone: part.name, moved: part.zone.stats() };
        self.parts.iter().map(stats).collect()
    }

    /// The text of `/proc/buddyinfo`: free blocks of each order.
    pub(crate) fn buddyinfo(&self) -> String {
        let mut text = String::new();
        // The kernel lists its zones upwards.
        for part in self.parts.iter().rev() {
            let _ = write!(text, "Node 0, zone {:>8} ", part.name);
            for blocks in part.zone.blocks() {
                let _ = write!(text, "{blocks:>6} ");
            }
            text.push('\n');
        }
        text
    }

    /// The text of `/proc/zoneinfo` as of 2.6.24, where each CPU has a list of hot pages and one of
    /// cold ones. What the zones do not have (watermarks, reclaim) is 0.
    pub(crate) fn zoneinfo(&self) -> String {
        let mut text = String::new();
        for part in self.parts.iter().rev() {
            let zone = &part.zone;
            let free: u32 = (0..).zip(zone.blocks()).map(|(order, blocks)| blocks << order).sum();
            let frames = zone.frames();
            let _ = write!(
                text,
                "Node 0, zone {:>8}\n  pages free     {free}\n        min      0\n        low      \
                 0\n        high     0\n        scanned  0 (a: 0 i: 0)\n        spanned  \
                 {frames}\n        present  {frames}\n    nr_free_pages {free}\n        \
                 protection: (0)\n  pagesets\n",
                part.name
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

    /// The zones that may serve `whom`, in the order in which they are asked.
    fn for_use(&self, whom: Use) -> &[Part] {
        match whom {
            Use::Programs => &self.parts,
            Use::Kernel => &self.parts[self.parts.len() - 1..],
        }
    }

    /// Allocates one page.
    #[inline]
    pub(crate) fn page(&self, whom: Use, costs: &Costs) -> Sys<u32> {
        let parts = self.for_use(whom);
        let last = parts.len() - 1;
        // A zone that is nearly used up is passed over without a look at its lock.
        let open = |(at, part): &(usize, &Part)| *at == last || part.zone.has_blocks(WATERMARK);
        let mut parts = parts.iter().enumerate().filter(open);
        let frame =
            parts.find_map(|(_, part)| Some(part.first + part.zone.allocate(Temperature::Hot)?));
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
        let mut parts = self.parts.iter();
        parts.find(|part| frame >= part.first).expect("every frame is in a zone")
    }

    /// Frees single pages, as many at once as a pagevec holds.
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

    /// Takes the block of a kernel stack.
    pub(crate) fn take_stack(&self) -> Sys<u32> {
        let [part] = self.for_use(Use::Kernel) else { unreachable!("the kernel has one zone") };
        let block = part.zone.allocate_block(STACK_ORDER);
        Ok(part.first + block.ok_or(Errno::ENOMEM)?)
    }

    /// Returns it.
    pub(crate) fn free_stack(&self, first: u32) {
        let part = self.part(first);
        part.zone.free_block(first - part.first, STACK_ORDER);
    }

    /// Puts a new page on the active list, in groups.
    pub(crate) fn lru_add(&self, costs: &Costs) {
        Smp::preempt_disable();
        let pagevec = &self.pagevecs[Here::cpu()];
        let waiting = pagevec.peek() + 1;
        pagevec.write(waiting % PAGEVEC);
        if waiting == PAGEVEC {
            self.lru_move(PAGEVEC, costs);
        }
        Smp::preempt_enable();
    }

    /// Moves `pages` pages onto or off the active list, a group at a time.
    pub(crate) fn lru_move(&self, pages: u32, costs: &Costs) {
        let mut left = pages;
        while left > 0 {
            let group = left.min(PAGEVEC);
            self.lru.hold_irq(|moved| {
                moved.write(moved.peek().wrapping_add(group));
                Here::pass(costs.lru_page * u64::from(group));
            });
            left -= group;
        }
    }
}
