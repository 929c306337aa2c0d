//! Memory: the page allocator's front (per-CPU lists over the zone lock), page faults, the heap,
//! `fork` and `exit` of address spaces.
//!
//! Pages are counted, not named: the lists hold numbers of pages, and what moves between them takes
//! the locks and lines that the lists of the period took.

use crate::api::Sys;
use crate::costs::{Costs, spend};
use crate::errno::Errno;
use crate::locks::{Field, Line, RwSem, Spin};
use crate::pages::{PAGE, Pages};
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::Platform;
use core::cell::{Cell, RefCell};

/// Pages that move between a per-CPU list and the zone at once (zones above 352 MiB).
const BATCH: u32 = 31;
/// A per-CPU list longer than this gives a batch back: six batches.
const HIGH: u32 = 6 * BATCH;
/// Pages that are collected for the active list before `lru_lock` is taken.
const PAGEVEC: u32 = 14;
/// Pages whose page-table entries one page-table page holds.
const TABLE_SPAN: u32 = 512;

/// One CPU's free pages and its pages on the way to the active list.
struct PerCpu {
    free: Field<u32>,
    lru: Field<u32>,
}

/// The memory zone.
pub(crate) struct Zone {
    hot: Sim<ZoneHot>,
    cpus: Vec<Sim<PerCpu>>,
}

struct ZoneHot {
    /// `zone->lock` and, in the same line as in the kernel, the lists it guards.
    lock: Line<(Spin, Field<u32>)>,
    lru_lock: Line<(Spin, Field<u32>)>,
}

impl Zone {
    pub(crate) fn new(pages: u32, cpus: usize) -> Self {
        let hot = ZoneHot {
            lock: Line((Spin::new(), Field::new(pages))),
            lru_lock: Line((Spin::new(), Field::new(0))),
        };
        let per_cpu = || Here::place(PerCpu { free: Field::new(0), lru: Field::new(0) });
        let hot = Here::place(hot);
        Here::name(&hot.lock.0.0, "zone->lock");
        Here::name(&hot.lru_lock.0.0, "zone->lru_lock");
        Self { hot, cpus: (0..cpus).map(|_| per_cpu()).collect() }
    }

    /// Free pages, those on per-CPU lists included.
    pub(crate) fn free_pages(&self) -> u32 {
        self.hot.lock.0.1.peek() + self.cpus.iter().map(|cpu| cpu.free.peek()).sum::<u32>()
    }

    /// Whether a lock of the zone is held.
    pub(crate) fn is_locked(&self) -> bool {
        self.hot.lock.0.0.is_held() || self.hot.lru_lock.0.0.is_held()
    }

    /// Takes up to a batch of pages off the zone, with interrupts disabled. When the zone has none,
    /// the lists of the other CPUs go back to it first.
    fn refill(&self, cpu: &PerCpu, costs: &Costs) {
        let (lock, free) = &self.hot.lock.0;
        lock.hold(|| {
            free.read();
            if free.peek() == 0 {
                for other in &self.cpus {
                    free.poke(free.peek() + other.free.peek());
                    other.free.poke(0);
                }
            }
            let batch = BATCH.min(free.peek());
            free.poke(free.peek() - batch);
            cpu.free.poke(cpu.free.peek() + batch);
            Here::pass(costs.bulk_page * u64::from(batch));
        });
    }

    /// Allocates `pages` single pages, or none of them.
    pub(crate) fn allocate(&self, pages: u32, costs: &Costs) -> Sys<()> {
        let mut got = 0;
        while got < pages {
            Smp::irq_save();
            let cpu = &self.cpus[Here::cpu()];
            if cpu.free.read() == 0 {
                self.refill(cpu, costs);
            }
            let mut take = 0;
            cpu.free.update(|held| {
                take = held.min(pages - got);
                held - take
            });
            Smp::irq_restore(());
            spend(costs.page_alloc * u64::from(take));
            got += take;
            if take == 0 {
                self.free(got, costs);
                return Err(Errno::ENOMEM);
            }
        }
        Ok(())
    }

    /// Frees `pages` single pages.
    pub(crate) fn free(&self, pages: u32, costs: &Costs) {
        let mut left = pages;
        while left > 0 {
            Smp::irq_save();
            let cpu = &self.cpus[Here::cpu()];
            let put = left.min(BATCH);
            cpu.free.update(|held| held + put);
            if cpu.free.peek() >= HIGH {
                let (lock, free) = &self.hot.lock.0;
                lock.hold(|| {
                    free.read();
                    let batch = BATCH.min(cpu.free.peek());
                    cpu.free.poke(cpu.free.peek() - batch);
                    free.poke(free.peek() + batch);
                    Here::pass(costs.bulk_page * u64::from(batch));
                });
            }
            Smp::irq_restore(());
            spend(costs.page_free * u64::from(put));
            left -= put;
        }
    }

    /// Takes or returns a block of two pages (a kernel stack): always under the zone lock.
    pub(crate) fn move_stack(&self, take: bool, costs: &Costs) -> Sys<()> {
        let (lock, free) = &self.hot.lock.0;
        lock.hold_irq(|| {
            Here::pass(costs.bulk_page * 2);
            let held = free.read();
            if take && held < 2 {
                return Err(Errno::ENOMEM);
            }
            free.poke(if take { held - 2 } else { held + 2 });
            Ok(())
        })
    }

    /// Puts a new page on the active list, in groups.
    pub(crate) fn lru_add(&self, costs: &Costs) {
        Smp::preempt_disable();
        let cpu = &self.cpus[Here::cpu()];
        let waiting = cpu.lru.peek() + 1;
        cpu.lru.write(waiting % PAGEVEC);
        if waiting == PAGEVEC {
            self.lru_move(PAGEVEC, costs);
        }
        Smp::preempt_enable();
    }

    /// Moves `pages` pages onto or off the active list, a group at a time.
    pub(crate) fn lru_move(&self, pages: u32, costs: &Costs) {
        let (lock, moved) = &self.hot.lru_lock.0;
        let mut left = pages;
        while left > 0 {
            let group = left.min(PAGEVEC);
            lock.hold_irq(|| {
                moved.write(moved.peek().wrapping_add(group));
                Here::pass(costs.lru_page * u64::from(group));
            });
            left -= group;
        }
    }
}

/// Why a page is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Anonymous memory: a zeroed page.
    Zero,
    /// Written after `fork`: a copy.
    Copy,
}

/// An address space.
pub(crate) struct Mm {
    hot: Sim<MmHot>,
    /// Pages that this address space alone owns, page tables included.
    owned: Cell<u32>,
    /// Pages that are mapped.
    mapped: Cell<u32>,
    /// Length of the heap, bytes.
    heap: Cell<u64>,
    heap_pages: RefCell<Pages>,
}

struct MmHot {
    mmap_sem: Line<RwSem>,
    /// `page_table_lock` with the entries it guards.
    table: Line<(Spin, Field<u32>)>,
}

impl Mm {
    /// An address space with nothing in it.
    pub(crate) fn new() -> Self {
        let hot = MmHot { mmap_sem: Line(RwSem::new()), table: Line((Spin::new(), Field::new(0))) };
        let hot = Here::place(hot);
        Here::name(&hot.mmap_sem, "mmap_sem");
        Here::name(&hot.table.0.0, "page_table_lock");
        Self {
            hot,
            owned: Cell::new(0),
            mapped: Cell::new(0),
            heap: Cell::new(0),
            heap_pages: RefCell::default(),
        }
    }

    /// Pages that only this address space has, page tables included.
    pub(crate) fn owned(&self) -> u32 {
        self.owned.get()
    }

    fn set_entry(&self) {
        let (lock, entries) = &self.hot.table.0;
        lock.hold(|| entries.write(entries.peek().wrapping_add(1)));
    }

    /// Handles a page fault that needs a page.
    pub(crate) fn fault(&self, fault: Fault, zone: &Zone, costs: &Costs) -> Sys<()> {
        Here::pass(costs.fault);
        self.hot.mmap_sem.read(|| {
            zone.allocate(1, costs)?;
            Here::pass(match fault {
                Fault::Zero => costs.page_zero,
                Fault::Copy => costs.page_copy,
            });
            self.set_entry();
            Ok::<(), Errno>(())
        })?;
        zone.lru_add(costs);
        self.owned.set(self.owned.get() + 1);
        self.mapped.set(self.mapped.get() + u32::from(fault == Fault::Zero));
        Ok(())
    }

    /// Handles a page fault on a page that `find` gets from a file.
    pub(crate) fn fault_file(&self, find: impl FnOnce(), costs: &Costs) {
        Here::pass(costs.fault);
        self.hot.mmap_sem.read(|| {
            find();
            self.set_entry();
        });
        self.mapped.set(self.mapped.get() + 1);
    }

    /// Changes the map of the address space: `mmap`, `shmat` and the like.
    pub(crate) fn change_map(&self, cost: u64) {
        self.hot.mmap_sem.write(|| spend(cost));
    }

    /// `pages` pages of a segment are no longer mapped.
    pub(crate) fn forget(&self, pages: u32) {
        self.mapped.set(self.mapped.get().saturating_sub(pages));
    }

    /// `brk`: moves the end of the heap by `delta` bytes.
    pub(crate) fn brk(&self, delta: i64, zone: &Zone, costs: &Costs) -> Sys<()> {
        let end = self.heap.get().checked_add_signed(delta).ok_or(Errno::ENOMEM)?;
        if end.div_ceil(PAGE) > u64::from(zone.free_pages()) + u64::from(self.mapped.get()) {
            return Err(Errno::ENOMEM);
        }
        self.hot.mmap_sem.write(|| {
            Here::pass(costs.brk);
            self.heap.set(end);
            if delta < 0 {
                let gone = self.heap_pages.borrow_mut().remove_from(end.div_ceil(PAGE));
                self.unmap(gone, zone, costs);
            }
        });
        Ok(())
    }

    /// Removes `pages` mapped pages and frees those that are owned.
    fn unmap(&self, pages: u32, zone: &Zone, costs: &Costs) {
        if pages == 0 {
            return;
        }
        let (lock, entries) = &self.hot.table.0;
        lock.hold(|| {
            entries.write(entries.peek().wrapping_sub(pages));
            Here::pass(costs.unmap_page);
        });
        spend(costs.unmap_page * u64::from(pages));
        let owned = pages.min(self.owned.get());
        self.owned.set(self.owned.get() - owned);
        self.mapped.set(self.mapped.get().saturating_sub(pages));
        zone.lru_move(owned, costs);
        zone.free(owned, costs);
    }

    /// The user program writes one byte every `stride` bytes over the last `bytes` of the heap.
    pub(crate) fn touch_heap(
        &self,
        bytes: u64,
        stride: u64,
        zone: &Zone,
        costs: &Costs,
    ) -> Sys<()> {
        let end = self.heap.get();
        let start = end.checked_sub(bytes).ok_or(Errno::EINVAL)?;
        let step = stride.max(1);
        let mut at = start;
        while at < end {
            let page = at / PAGE;
            let present = self.heap_pages.borrow().contains(page);
            if !present {
                self.fault(Fault::Zero, zone, costs)?;
                self.heap_pages.borrow_mut().insert(page);
            }
            // The first byte of the stride that lies beyond this page.
            at += ((page + 1) * PAGE - at).div_ceil(step) * step;
        }
        Ok(())
    }

    /// `fork`: a copy whose pages are shared until they are written.
    pub(crate) fn duplicate(&self, zone: &Zone, costs: &Costs) -> Sys<Self> {
        let child = Self::new();
        let tables = 1 + self.mapped.get().div_ceil(TABLE_SPAN);
        self.hot.mmap_sem.write(|| {
            zone.allocate(tables, costs)?;
            child.owned.set(tables);
            self.set_entry();
            child.set_entry();
            spend(costs.fork_page * u64::from(self.mapped.get()));
            Ok::<(), Errno>(())
        })?;
        child.mapped.set(self.mapped.get());
        child.heap.set(self.heap.get());
        child.heap_pages.replace(self.heap_pages.borrow().clone());
        Ok(child)
    }

    /// Frees everything: `exit` and `exec`.
    pub(crate) fn release(&self, zone: &Zone, costs: &Costs) {
        let mapped = self.mapped.replace(0);
        let owned = self.owned.replace(0);
        self.heap.set(0);
        self.heap_pages.borrow_mut().remove_from(0);
        let (lock, entries) = &self.hot.table.0;
        lock.hold(|| entries.write(0));
        spend(costs.unmap_page * u64::from(mapped));
        zone.lru_move(owned, costs);
        zone.free(owned, costs);
    }
}
