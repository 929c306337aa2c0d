//! What balancing reads of every CPU's queue, side by side in arrays.
//!
//! A balancing attempt on a large machine reads all CPUs; with the numbers inside each run queue
//! that was one cache miss of the host for each. Whoever counts a task into or out of a queue holds
//! that queue's lock and says so here.

use super::entity::WEIGHT;
use core::cell::Cell;
use core::ops::Range;

/// Weight of the super user's group over all CPUs (`ROOT_TASK_GROUP_LOAD`, two tasks' worth).
const GROUP_SHARES: u64 = 2 * WEIGHT;
/// A group has at least this weight on a CPU (`MIN_SHARES`).
const SHARE_MIN: u64 = 2;

/// Load averages over 1, 2, 4, 8 and 16 ticks.
const AVERAGES: usize = 5;

/// Numbers of tasks and weights of all queues.
pub(crate) struct Loads {
    running: Vec<Cell<u64>>,
    /// Sum of the weights of the ordinary tasks of each queue.
    tasks: Vec<Cell<u64>>,
    /// Weight of each queue now, as the balancer sees it.
    weight: Vec<Cell<u64>>,
    /// Weight of the user's group on each CPU, when that is what the balancer sees.
    share: Option<Vec<Cell<u64>>>,
    averages: [Vec<Cell<u64>>; AVERAGES],
    /// Runnable tasks of all CPUs, and their weight.
    all: Cell<u64>,
    all_weight: Cell<u64>,
    /// CPUs with more than one task.
    crowded: Cell<usize>,
}

fn zeros(cpus: usize) -> Vec<Cell<u64>> {
    vec![Cell::new(0); cpus]
}

impl Loads {
    /// Empty queues of `cpus` CPUs; `grouped`: with group scheduling.
    pub(crate) fn new(cpus: usize, grouped: bool) -> Self {
        let even = GROUP_SHARES / cpus as u64;
        Self {
            running: zeros(cpus),
            tasks: zeros(cpus),
            weight: zeros(cpus),
            share: grouped.then(|| vec![Cell::new(even); cpus]),
            averages: core::array::from_fn(|_| zeros(cpus)),
            all: Cell::new(0),
            all_weight: Cell::new(0),
            crowded: Cell::new(0),
        }
    }

    /// Whether the balancer sees groups.
    pub(crate) fn grouped(&self) -> bool {
        self.share.is_some()
    }

    /// Runnable tasks of `cpu`.
    pub(crate) fn running(&self, cpu: usize) -> u64 {
        self.running[cpu].get()
    }

    /// Runnable tasks of all CPUs.
    pub(crate) fn all(&self) -> u64 {
        self.all.get()
    }

    /// Whether some CPU has more than one task.
    pub(crate) fn overloaded(&self) -> bool {
        self.crowded.get() > 0
    }

    /// Weight of the queue of `cpu` now.
    pub(crate) fn weight(&self, cpu: usize) -> u64 {
        self.weight[cpu].get()
    }

    /// Weight of all queues now.
    pub(crate) fn total_weight(&self) -> u64 {
        self.weight.iter().map(Cell::get).sum()
    }

    /// Counts a task of `weight` in; a real-time task has none.
    pub(crate) fn add(&self, cpu: usize, weight: u64) {
        self.all.set(self.all.get() + 1);
        self.all_weight.set(self.all_weight.get() + weight);
        self.running[cpu].set(self.running[cpu].get() + 1);
        if self.running[cpu].get() == 2 {
            self.crowded.set(self.crowded.get() + 1);
        }
        self.tasks[cpu].set(self.tasks[cpu].get() + weight);
        self.weigh(cpu);
    }

    /// Counts it out.
    pub(crate) fn remove(&self, cpu: usize, weight: u64) {
        self.all.set(self.all.get() - 1);
        self.all_weight.set(self.all_weight.get() - weight);
        self.running[cpu].set(self.running[cpu].get() - 1);
        if self.running[cpu].get() == 1 {
            self.crowded.set(self.crowded.get() - 1);
        }
        self.tasks[cpu].set(self.tasks[cpu].get() - weight);
        self.weigh(cpu);
    }

    fn weigh(&self, cpu: usize) {
        let tasks = self.tasks[cpu].get();
        self.weight[cpu].set(match &self.share {
            Some(share) if tasks > 0 => share[cpu].get(),
            Some(_) => 0,
            None => tasks,
        });
    }

    /// With group scheduling: gives each CPU of `span` its part of the group's weight, in
    /// proportion to its tasks. Only balancing does this, so in between the shares are stale. A CPU
    /// without tasks is treated as if it had one.
    pub(crate) fn update_shares(&self, span: Range<usize>) {
        let Some(share) = &self.share else { return };
        let all = self.all_weight.get().max(WEIGHT);
        let queues = share[span.clone()].iter().zip(&self.tasks[span.clone()]);
        // Most queues hold the same few tasks, so the division is done once for each number.
        let (mut last, mut part) = (u64::MAX, 0);
        for ((share, tasks), weight) in queues.zip(&self.weight[span]) {
            let tasks = tasks.get();
            if tasks != last {
                last = tasks;
                part = (GROUP_SHARES * tasks.max(WEIGHT) / all).max(SHARE_MIN);
            }
            share.set(part);
            weight.set(if tasks > 0 { part } else { 0 });
        }
    }

    /// Low guess of the load at `index`: 0 is now, above that the smaller of now and the average.
    pub(crate) fn source(&self, cpu: usize, index: usize) -> u64 {
        let now = self.weight(cpu);
        if index == 0 { now } else { now.min(self.averages[index - 1][cpu].get()) }
    }

    /// High guess of the load at `index`.
    pub(crate) fn target(&self, cpu: usize, index: usize) -> u64 {
        let now = self.weight(cpu);
        if index == 0 { now } else { now.max(self.averages[index - 1][cpu].get()) }
    }

    /// Every tick, for i in 0..5: the average over 2^i ticks, rounded up when it rises.
    pub(crate) fn tick(&self, cpu: usize) {
        let now = self.weight(cpu);
        for (i, average) in self.averages.iter().enumerate() {
            let old = average[cpu].get();
            let scale = 1_u64 << i;
            let new = if now > old { now + scale - 1 } else { now };
            average[cpu].set((old * (scale - 1) + new) >> i);
        }
    }
}
