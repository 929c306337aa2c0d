//! Allocation of kernel stacks: blocks of pages, or a slab cache of them.
//!
//! On i386 a stack is `kmalloc(THREAD_SIZE)` (`include/asm-i386/thread_info.h` of 2.6.16 to
//! 2.6.23), one object of the cache `size-8192`, or `size-4096` with `CONFIG_4KSTACKS`. A slab of
//! these holds one object. Each CPU has a few free ones, so they rarely reach the page allocator.
//! Source: `mm/slab.c` of 2.6.16 (`enable_cpucache`, `cache_alloc_refill`, `cache_flusharray`,
//! `free_block`). Not modelled: `cache_reap`, which every 2 s frees a fifth of the unused objects.

use crate::lock_rules::LockRules;
use crate::locks::{Field, Guarded, Line, Unqueued};
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::Platform;
use core::cell::RefCell;
use schemars::JsonSchema;
use serde::Deserialize;

/// Allocator of kernel stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StackSource {
    /// The page allocator itself, as on x86-64.
    #[default]
    Pages,
    /// A slab cache (`kmalloc`), as on i386.
    Slab,
}

/// Sizes of the slab cache of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// Free stacks of a CPU.
    cpu: usize,
    /// Stacks per transfer.
    batch: usize,
    /// Free stacks that all CPUs share, used before slabs.
    shared: usize,
    /// Free stacks in slabs; one more is given back to the page allocator.
    slabs: usize,
}

impl Limits {
    /// Returns the sizes for objects of `pages` pages on one node of `cpus` CPUs.
    fn of(pages: u32, cpus: usize) -> Self {
        let cpu = if pages > 1 { 8 } else { 24 };
        let batch = usize::midpoint(cpu, 1);
        let shared = if pages > 1 { 0 } else { 8 * batch };
        Self { cpu, batch, shared, slabs: (1 + cpus) * batch + 1 }
    }
}

/// Free stacks of one CPU, the most recently freed last.
struct OfCpu {
    /// How many, as the kernel counts them.
    count: Sim<Line<Field<u32>>>,
    stacks: RefCell<Vec<u32>>,
}

/// Free stacks of all CPUs, by first frame.
#[derive(Default)]
struct Depot {
    /// How many, as the kernel counts them.
    count: Field<u32>,
    shared: RefCell<Vec<u32>>,
    slabs: RefCell<Vec<u32>>,
}

/// The slab cache of stacks.
pub(super) struct StackCache {
    limits: Limits,
    cpus: Vec<OfCpu>,
    depot: Sim<Line<Guarded<Depot, Unqueued>>>,
}

impl StackCache {
    /// An empty cache of stacks of `pages` pages.
    pub(super) fn new(pages: u32, cpus: usize, locks: LockRules) -> Self {
        let depot = Here::place(Line(locks.guarded_unqueued(Depot::default())));
        depot.name("size-8192->list_lock");
        let of_cpu =
            |_| OfCpu { count: Here::place(Line(Field::new(0))), stacks: RefCell::new(Vec::new()) };
        Self { limits: Limits::of(pages, cpus), cpus: (0..cpus).map(of_cpu).collect(), depot }
    }

    /// Whether its lock is held.
    pub(super) fn is_locked(&self) -> bool {
        self.depot.is_locked()
    }

    /// Takes a stack; from `grow` when neither this CPU nor the depot has one.
    pub(super) fn take(&self, grow: impl FnOnce() -> Option<u32>) -> Option<u32> {
        Smp::irq_save();
        let list = &self.cpus[Here::cpu()];
        if list.count.peek() == 0 {
            self.refill(list);
        }
        let stack = list.stacks.borrow_mut().pop();
        list.count.write(list.stacks.borrow().len() as u32);
        Smp::irq_restore(());
        stack.or_else(grow)
    }

    /// Frees a stack; stacks that do not fit into the depot are passed to `shrink`.
    pub(super) fn give(&self, stack: u32, shrink: impl FnMut(u32)) {
        Smp::irq_save();
        let list = &self.cpus[Here::cpu()];
        if list.count.peek() as usize == self.limits.cpu {
            self.flush(list, shrink);
        }
        list.stacks.borrow_mut().push(stack);
        list.count.write(list.stacks.borrow().len() as u32);
        Smp::irq_restore(());
    }

    /// Fills the list of a CPU: from what all share, or else from slabs.
    fn refill(&self, list: &OfCpu) {
        self.depot.hold(|depot| {
            let shared = depot.shared.borrow().is_empty();
            let mut from = if shared { &depot.slabs } else { &depot.shared }.borrow_mut();
            let left = from.len().saturating_sub(self.limits.batch);
            list.stacks.borrow_mut().extend(from.drain(left..));
            drop(from);
            depot.recount();
        });
    }

    /// Moves the stacks that a CPU has had for longest to the depot.
    fn flush(&self, list: &OfCpu, mut shrink: impl FnMut(u32)) {
        self.depot.hold(|depot| {
            let mut shared = depot.shared.borrow_mut();
            let room = self.limits.shared - shared.len();
            let batch = if room > 0 { room.min(self.limits.batch) } else { self.limits.batch };
            for stack in list.stacks.borrow_mut().drain(..batch) {
                let mut slabs = depot.slabs.borrow_mut();
                if room > 0 {
                    shared.push(stack);
                } else if slabs.len() < self.limits.slabs {
                    slabs.push(stack);
                } else {
                    shrink(stack);
                }
            }
            drop(shared);
            depot.recount();
        });
    }
}

impl Depot {
    fn recount(&self) {
        self.count.write((self.shared.borrow().len() + self.slabs.borrow().len()) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_kernel() {
        let of = |pages, cpus| {
            let Limits { cpu, batch, shared, slabs } = Limits::of(pages, cpus);
            (cpu, batch, shared, slabs)
        };
        assert_eq!(of(2, 8), (8, 4, 0, 37));
        assert_eq!(of(2, 32), (8, 4, 0, 133));
        assert_eq!(of(1, 8), (24, 12, 96, 109));
    }
}
