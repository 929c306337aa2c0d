//! Address spaces: page faults, the heap, `fork` and `exit`.

use crate::costs::{Costs, spend};
use crate::lock_rules::{FaultLock, LockRules};
use crate::locks::{Count, Field, Guarded, Line, RwSem};
use crate::mappings::Mappings;
use crate::pages::{PAGE, Pages};
use crate::zone::{Use, Zones};
use convoy_machine::{Here, Sim};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::cell::{Cell, RefCell};

/// Pages that are mapped by one page-table page.
const TABLE_SPAN: u32 = 512;

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
    /// The locks of an address space that `fork` creates.
    locks: LockRules,
    hot: Sim<MmHot>,
    /// `vm_refcnt` of its mappings, if page faults lock these.
    mapping: Option<Sim<Line<Count>>>,
    /// Frames that this address space alone owns, page tables included.
    frames: RefCell<Vec<u32>>,
    /// Pages that are mapped.
    mapped: Cell<u32>,
    /// Length of the heap, bytes.
    heap: Cell<u64>,
    heap_pages: RefCell<Pages>,
    mappings: Mappings,
}

#[repr(C)]
struct MmHot {
    /// `page_table_lock` with the entries it guards.
    table: Line<Guarded<Field<u32>>>,
    mmap_sem: Line<RwSem>,
}

impl Mm {
    /// An address space with nothing in it.
    pub(crate) fn new(locks: LockRules, mappings: Mappings) -> Self {
        let table = locks.guarded(Field::new(0));
        let hot = MmHot { mmap_sem: Line(locks.rwsem()), table: Line(table) };
        let hot = Here::place(hot);
        hot.mmap_sem.name("mmap_sem");
        hot.table.name("page_table_lock");
        Self {
            locks,
            hot,
            mapping: (locks.fault == FaultLock::Mapping).then(|| Here::place(Line(Count::new(1)))),
            frames: RefCell::default(),
            mapped: Cell::new(0),
            heap: Cell::new(0),
            heap_pages: RefCell::default(),
            mappings,
        }
    }

    /// The lists it shares with others.
    pub(crate) fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// Pages that only this address space has, page tables included.
    pub(crate) fn owned(&self) -> u32 {
        self.frames.borrow().len() as u32
    }

    /// Their frames.
    pub(crate) fn frames(&self) -> Vec<u32> {
        self.frames.borrow().clone()
    }

    fn set_entry(&self) {
        self.hot.table.hold(|entries| entries.write(entries.peek().wrapping_add(1)));
    }

    /// Runs `body`, a page fault, under the lock that keeps its mapping.
    fn faulting<R>(&self, body: impl FnOnce() -> R) -> R {
        let Some(mapping) = &self.mapping else { return self.hot.mmap_sem.read(body) };
        mapping.get();
        let result = body();
        mapping.put();
        result
    }

    /// Handles a page fault that needs a page.
    pub(crate) fn fault(&self, fault: Fault, zones: &Zones, costs: &Costs) -> Sys<()> {
        Here::pass(costs.fault);
        let frame = self.faulting(|| {
            let frame = zones.page(Use::Programs, costs)?;
            Here::pass(match fault {
                Fault::Zero => costs.page_zero,
                Fault::Copy => costs.page_copy,
            });
            self.set_entry();
            Ok::<u32, Errno>(frame)
        })?;
        zones.lru_add(frame, costs);
        self.frames.borrow_mut().push(frame);
        self.mapped.set(self.mapped.get() + u32::from(fault == Fault::Zero));
        Ok(())
    }

    /// Handles a page fault on a page that `find` gets from a file.
    pub(crate) fn fault_file(&self, find: impl FnOnce() -> Sys<()>, costs: &Costs) -> Sys<()> {
        Here::pass(costs.fault);
        self.faulting(|| {
            find()?;
            self.set_entry();
            Ok::<(), Errno>(())
        })?;
        self.mapped.set(self.mapped.get() + 1);
        Ok(())
    }

    /// Changes the map of the address space: `mmap`, `shmat` and the like.
    pub(crate) fn change_map(&self, cost: u64) {
        self.hot.mmap_sem.write(|| spend(cost));
    }

    /// Unmaps `pages` pages of a segment.
    pub(crate) fn forget(&self, pages: u32) {
        self.mapped.set(self.mapped.get().saturating_sub(pages));
    }

    /// `brk`: moves the end of the heap by `delta` bytes.
    pub(crate) fn brk(&self, delta: i64, zones: &Zones, costs: &Costs) -> Sys<()> {
        let end = self.heap.get().checked_add_signed(delta).ok_or(Errno::ENOMEM)?;
        let more = end.div_ceil(PAGE).saturating_sub(u64::from(self.mapped.get()));
        if !zones.has_pages(more) {
            return Err(Errno::ENOMEM);
        }
        self.hot.mmap_sem.write(|| {
            Here::pass(costs.brk);
            self.heap.set(end);
            if delta < 0 {
                let gone = self.heap_pages.borrow_mut().remove_from(end.div_ceil(PAGE));
                self.unmap(gone, zones, costs);
            }
        });
        Ok(())
    }

    /// Removes `pages` mapped pages and frees those that are owned.
    fn unmap(&self, pages: u32, zones: &Zones, costs: &Costs) {
        if pages == 0 {
            return;
        }
        self.hot.table.hold(|entries| {
            entries.write(entries.peek().wrapping_sub(pages));
            Here::pass(costs.unmap_page);
        });
        spend(costs.unmap_page * u64::from(pages));
        let frames = {
            let mut frames = self.frames.borrow_mut();
            let kept = frames.len().saturating_sub(pages as usize);
            frames.split_off(kept)
        };
        self.mapped.set(self.mapped.get().saturating_sub(pages));
        zones.lru_remove(&frames, costs);
        zones.free(&frames, costs);
    }

    /// The user program writes one byte every `stride` bytes over the last `bytes` of the heap.
    pub(crate) fn touch_heap(
        &self,
        bytes: u64,
        stride: u64,
        zones: &Zones,
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
                self.fault(Fault::Zero, zones, costs)?;
                self.heap_pages.borrow_mut().insert(page);
            }
            // The first byte of the stride that lies beyond this page.
            at += ((page + 1) * PAGE - at).div_ceil(step) * step;
        }
        Ok(())
    }

    /// `fork`: returns a copy with pages that are shared until they are written.
    pub(crate) fn duplicate(&self, zones: &Zones, costs: &Costs) -> Sys<Self> {
        let mut child = Self::new(self.locks, Mappings::default());
        let tables = self.mapped.get().div_ceil(TABLE_SPAN);
        child.mappings = self.hot.mmap_sem.write(|| {
            let first = zones.page(Use::Kernel, costs)?;
            let rest = zones.pages(tables, Use::Tables, costs);
            let mut frames = rest.inspect_err(|_| zones.free(&[first], costs))?;
            frames.insert(0, first);
            child.frames.replace(frames);
            self.set_entry();
            child.set_entry();
            spend(costs.fork_page * u64::from(self.mapped.get()));
            Ok::<Mappings, Errno>(self.mappings.duplicate())
        })?;
        child.mapped.set(self.mapped.get());
        child.heap.set(self.heap.get());
        child.heap_pages.replace(self.heap_pages.borrow().clone());
        Ok(child)
    }

    /// Frees everything: `exit` and `exec`.
    pub(crate) fn release(&self, zones: &Zones, costs: &Costs) {
        self.mappings.release();
        let mapped = self.mapped.replace(0);
        let frames = self.frames.take();
        self.heap.set(0);
        self.heap_pages.borrow_mut().remove_from(0);
        self.hot.table.hold(|entries| entries.write(0));
        spend(costs.unmap_page * u64::from(mapped));
        zones.lru_remove(&frames, costs);
        zones.free(&frames, costs);
    }
}
