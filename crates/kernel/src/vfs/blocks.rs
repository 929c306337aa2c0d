//! Counts that each CPU keeps a part of (`percpu_counter`): of the blocks in use of a tmpfs with
//! `tmpfs_blocks = "per-cpu"`, instead of `stat_lock`, and of the blocks and inodes of ext4.

use crate::lock_rules::LockRules;
use crate::locks::{Field, Guarded, Line};
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::Platform;
use std::rc::Rc;

/// Least part of a CPU that it adds to the sum.
const BATCH_MIN: i64 = 32;
/// Counts of one file system: their parts of a CPU lie in one line of that CPU.
const COUNTS: usize = 3;

/// The parts of each CPU.
type Parts = Rc<[Sim<Line<[Field<i64>; COUNTS]>>]>;

/// A sum that may be off by a batch for each CPU.
pub(super) struct BlockCount {
    shared: Sim<Line<Guarded<Field<i64>>>>,
    parts: Parts,
    /// Which of the parts.
    own: usize,
}

impl BlockCount {
    pub(super) fn new(locks: LockRules, cpus: usize) -> Self {
        let shared = Here::place(Line(locks.guarded(Field::new(0))));
        shared.name("used_blocks lock");
        let part = |_| Here::place(Line(core::array::from_fn(|_| Field::new(0))));
        Self { shared, parts: (0..cpus).map(part).collect(), own: 0 }
    }

    /// Another count of the same file system.
    fn beside(&self, locks: LockRules, own: usize, name: &'static str) -> Self {
        let shared = Here::place(Line(locks.guarded(Field::new(0))));
        shared.name(name);
        Self { shared, parts: Rc::clone(&self.parts), own }
    }

    fn batch(&self) -> i64 {
        BATCH_MIN.max(2 * self.parts.len() as i64)
    }

    /// By how much the shared part can be off.
    fn slack(&self) -> i64 {
        self.batch() * self.parts.len() as i64
    }

    /// `percpu_counter_add`.
    pub(super) fn add(&self, blocks: i64) {
        Smp::preempt_disable();
        let part = &self.parts[Here::cpu()][self.own];
        let now = part.read() + blocks;
        if now.abs() < self.batch() {
            part.write(now);
        } else {
            self.shared.hold(|sum| {
                sum.write(sum.peek() + now);
                part.write(0);
            });
        }
        Smp::preempt_enable();
    }

    /// `percpu_counter_read`: the shared part.
    fn rough(&self) -> i64 {
        self.shared.unlocked().read()
    }

    /// `percpu_counter_sum`: reads what each CPU has, under the lock.
    fn exact(&self) -> i64 {
        let sum = |shared: &Field<i64>| {
            shared.peek() + self.parts.iter().map(|parts| parts[self.own].read()).sum::<i64>()
        };
        self.shared.hold(sum)
    }

    /// `percpu_counter_compare`: whether at most `most` are in use; exact only when it is close.
    pub(super) fn at_most(&self, most: i64) -> bool {
        let rough = self.rough();
        if (rough - most).abs() > self.slack() {
            return rough <= most;
        }
        self.exact() <= most
    }

    /// The exact number, without a price.
    pub(super) fn peek(&self) -> u64 {
        let parts = self.parts.iter().map(|parts| parts[self.own].peek()).sum::<i64>();
        (self.shared.unlocked().peek() + parts) as u64
    }
}

/// The blocks and inodes of a file system of ext4 that are in use.
pub(super) struct Clusters {
    total: i64,
    used: BlockCount,
    /// Reserved and not yet allocated.
    dirty: BlockCount,
    inodes: BlockCount,
}

impl Clusters {
    /// Returns the counters of a file system of `total` blocks.
    pub(super) fn new(locks: LockRules, cpus: usize, total: u64) -> Self {
        let used = BlockCount::new(locks, cpus);
        used.shared.name("s_freeclusters_counter");
        let dirty = used.beside(locks, 1, "s_dirtyclusters_counter");
        let inodes = used.beside(locks, 2, "s_freeinodes_counter");
        Self { total: total as i64, used, dirty, inodes }
    }

    /// `EXT4_FREECLUSTERS_WATERMARK`: with fewer free blocks than this the shared parts of the
    /// counts are too rough to decide by. On 80 CPUs these are 51,200, 200 MiB.
    fn watermark(&self) -> i64 {
        4 * self.used.slack()
    }

    /// `ext4_nonda_switch`: whether pages that are written get their blocks later.
    pub(super) fn delays(&self) -> bool {
        let (free, dirty) = (self.total - self.used.rough(), self.dirty.rough());
        2 * free >= 3 * dirty && free >= dirty + self.watermark()
    }

    /// `ext4_claim_free_clusters`, and allocates the blocks immediately: returns whether there were
    /// enough.
    pub(super) fn claim(&self, blocks: i64) -> bool {
        let (mut free, mut dirty) = (self.total - self.used.rough(), self.dirty.rough());
        if free - (blocks + dirty) < self.watermark() {
            (free, dirty) = (self.total - self.used.exact(), self.dirty.exact());
        }
        let room = free >= blocks + dirty;
        if room {
            self.dirty.add(blocks);
            self.used.add(blocks);
            self.dirty.add(-blocks);
        }
        room
    }

    /// Gives blocks back.
    pub(super) fn release(&self, blocks: i64) {
        self.used.add(-blocks);
    }

    /// Counts inodes in or out.
    pub(super) fn count_inodes(&self, inodes: i64) {
        self.inodes.add(inodes);
    }

    /// Blocks in use, without a price.
    pub(super) fn peek(&self) -> u64 {
        self.used.peek()
    }
}
