//! The count of a file system's blocks in use that each CPU keeps a part of: `percpu_counter`,
//! which tmpfs has instead of `stat_lock` since 2.6.36.

use crate::locks::{Field, Line, Spin};
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::Platform;

/// Least part of a CPU that it adds to the sum.
const BATCH_MIN: i64 = 32;

/// A sum that may be off by a batch for each CPU.
pub(super) struct BlockCount {
    shared: Sim<Line<(Spin, Field<i64>)>>,
    parts: Vec<Sim<Line<Field<i64>>>>,
}

impl BlockCount {
    pub(super) fn new(cpus: usize) -> Self {
        let shared = Here::place(Line((Spin::new(), Field::new(0))));
        shared.0.0.name("used_blocks lock");
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
            let (lock, sum) = &self.shared.0;
            lock.hold(|| {
                sum.write(sum.peek() + now);
                part.write(0);
            });
        }
        Smp::preempt_enable();
    }

    /// `percpu_counter_compare`: whether at most `most` are in use; exact only when it is close.
    pub(super) fn at_most(&self, most: i64) -> bool {
        let (lock, sum) = &self.shared.0;
        let rough = sum.read();
        if (rough - most).abs() > self.batch() * self.parts.len() as i64 {
            return rough <= most;
        }
        let exact =
            lock.hold(|| sum.peek() + self.parts.iter().map(|part| part.read()).sum::<i64>());
        exact <= most
    }

    /// The exact number, without a price.
    pub(super) fn peek(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.peek()).sum::<i64>();
        (self.shared.0.1.peek() + parts) as u64
    }
}
