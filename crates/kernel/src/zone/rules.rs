//! Rules of the page allocator, `[zone]` of a preset, and policies of its lock.

use super::stacks::StackSource;
use convoy_machine::{Here, Smp};
use convoy_mm::{Bulk, HoldAll, ReleaseContendedEvery, ReleaseEach};
use convoy_sync::RawLock;
use core::num::NonZeroU32;
use schemars::JsonSchema;
use serde::Deserialize;

/// Pages that are collected for the active list before `lru_lock` is taken.
pub(super) const PAGEVEC: u32 = 14;
/// Pages that `release_pages` handles at a time, `SWAP_CLUSTER_MAX`.
const SWAP_CLUSTER: usize = 32;
/// The only order of blocks that paths ask for: a kernel stack of two pages.
pub(super) const STACK_ORDER: u32 = 1;

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
    /// Frames take 64 bytes, a line each, as in 64-bit kernels, instead of 32.
    pub line_frames: bool,
    /// The zone lock and `lru_lock` queue their waiters, whatever `locks.spinlock` is: from 4.2 on.
    pub queued: bool,
    /// `munmap` and `exit` take up to 32 pages off the active list under one hold of `lru_lock`,
    /// from 3.18 on (commit aabfb57296e3), instead of 14.
    pub long_release: bool,
    /// Pages that a list returns leave it, and their buddies are fetched, before the zone lock is
    /// acquired: from 4.17 on (commits 0a5f4e5b4562, 97334162e4d7).
    pub picked: bool,
    /// Twice the batch, 63 pages of a large zone instead of 31: from 4.19 on (commit d8a759b57035).
    pub double_batch: bool,
}

impl ZoneRules {
    /// Pages that are taken off the active list and freed together.
    pub(super) fn release_group(self) -> usize {
        if self.long_release { SWAP_CLUSTER } else { PAGEVEC as usize }
    }

    /// Pages of a kernel stack.
    pub(super) fn stack_pages(self) -> u32 {
        if self.small_stacks { 1 } else { 1 << STACK_ORDER }
    }
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
