//! The count of a file system's blocks in use that each CPU keeps a part of: `percpu_counter`,
//! which tmpfs has instead of `stat_lock` with `tmpfs_blocks = "per-cpu"`.

use crate::lock_rules::LockRules;
use crate::locks::{Field, Guarded, Line};
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::Platform;

/// Least part of a CPU that it adds to the sum.
const BATCH_MIN: i64 = 32;

/// A sum that may be off by a batch for each CPU.
pub(super) struct BlockCount {
    shared: Sim<Line<Guarded<Field<i64>>>>,
    parts: Vec<Sim<Line<Field<i64>>>>,
}

impl BlockCount {
    pub(super) fn new(locks: LockRules, cpus: usize) -> Self {
        let shared = Here::place(Line(locks.guarded(Field::new(0))));
        shared.name("used_blocks lock");
        let parts = (0..cpus).map(|_| Here::place(Line(Field::new(0)))).collect();
        Self { shared, parts }
    }

    fn batch(&self) -> i64 {
        BATCH_MIN.max(2 * self.parts.len() as i64)
    }

    /// `percpu_counter_add`.
    pub(super) fn add(&self, blocks: i64) {
        Smp::preempt_disable();
        let part = &self.parts[Here::cpu()];
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

    /// `percpu_counter_compare`: whether at most `most` are in use; exact only when it is close.
    pub(super) fn at_most(&self, most: i64) -> bool {
        let rough = self.shared.unlocked().read();
        if (rough - most).abs() > self.batch() * self.parts.len() as i64 {
            return rough <= most;
        }
        let exact =
            |sum: &Field<i64>| sum.peek() + self.parts.iter().map(|part| part.read()).sum::<i64>();
        self.shared.hold(exact) <= most
    }

    /// The exact number, without a price.
    pub(super) fn peek(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.peek()).sum::<i64>();
        (self.shared.unlocked().peek() + parts) as u64
    }
}
