//! What balancing reads of every CPU's queue, side by side in arrays.
//!
//! A balancing attempt on a large machine reads all CPUs; with the numbers inside each run queue
//! that was one cache miss of the host for each. Code that adds a task to a queue or removes one
//! holds that queue's lock and records it here.

use super::entity::WEIGHT;
use super::idlers::Idlers;
use super::shares::Shares;
use convoy_machine::Here;
use core::cell::Cell;
use core::ops::Range;

/// Load averages over 1, 2, 4, 8 and 16 ticks.
const AVERAGES: usize = 5;
/// Capacity of a core with several hardware threads, for all of them together (`smt_gain`).
const SMT_GAIN: u64 = 1178;
/// The averages are zero after this many ticks without load.
const GONE_AFTER: [u64; AVERAGES] = [1, 8, 32, 64, 128];
/// Half-life of the time that a CPU ran real-time tasks, in nanoseconds (`sched_avg_period`).
const RT_PERIOD_NS: u64 = 500_000_000;

/// Capacity of a CPU for ordinary tasks.
#[derive(Default)]
struct Capacity {
    /// 1024 is a whole core.
    power: Cell<u64>,
    /// Decayed time of real-time tasks, and when it was halved last, nanoseconds.
    rt_ns: Cell<u64>,
    halved_ns: Cell<u64>,
}

/// Numbers of tasks and weights of all queues.
pub(crate) struct Loads {
    running: Vec<Cell<u64>>,
    /// Sum of the weights of the ordinary tasks of each queue.
    tasks: Vec<Cell<u64>>,
    /// Weight of each queue now, as the balancer sees it.
    weight: Vec<Cell<u64>>,
    /// Weight of the user's group on each CPU, if the balancer uses it.
    shares: Option<Shares>,
    averages: [Vec<Cell<u64>>; AVERAGES],
    /// Tick of the last update of the averages, if missed updates are made up for.
    looked: Option<Vec<Cell<u64>>>,
    capacity: Vec<Capacity>,
    /// Capacity of a CPU without real-time tasks.
    whole: u64,
    /// Runnable tasks of all CPUs.
    all: Cell<u64>,
    /// CPUs with more than one task.
    crowded: Cell<usize>,
    /// Why CPUs idle while tasks wait.
    pub(crate) idlers: Idlers,
}

fn zeros(cpus: usize) -> Vec<Cell<u64>> {
    vec![Cell::new(0); cpus]
}

impl Loads {
    /// Empty queues of `cpus` CPUs; `grouped`: with group scheduling; `threads` of them are one
    /// core; averages that a stopped tick did not bring up to date `decay` later.
    pub(crate) fn new(cpus: usize, grouped: bool, threads: usize, decay: bool) -> Self {
        let whole = if threads == 1 { WEIGHT } else { SMT_GAIN / threads as u64 };
        let capacity = || Capacity { power: Cell::new(whole), ..Capacity::default() };
        Self {
            running: zeros(cpus),
            tasks: zeros(cpus),
            weight: zeros(cpus),
            shares: grouped.then(|| Shares::new(cpus)),
            averages: core::array::from_fn(|_| zeros(cpus)),
            looked: decay.then(|| zeros(cpus)),
            capacity: (0..cpus).map(|_| capacity()).collect(),
            whole,
            all: Cell::new(0),
            crowded: Cell::new(0),
            idlers: Idlers::new(cpus),
        }
    }

    /// Whether the balancer sees groups.
    pub(crate) fn grouped(&self) -> bool {
        self.shares.is_some()
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

    /// Counts a task of `weight` in; a real-time task has none.
    pub(crate) fn add(&self, cpu: usize, weight: u64) {
        self.all.set(self.all.get() + 1);
        self.running[cpu].set(self.running[cpu].get() + 1);
        if self.idlers.idles(cpu) {
            self.idlers.given(cpu, Here::now_ps());
        }
        if self.running[cpu].get() > 1 {
            self.idlers.waits(Here::now_ps());
            Here::tasks_wait(1);
        }
        if self.running[cpu].get() == 2 && self.crowded.replace(self.crowded.get() + 1) == 0 {
            self.idlers.crowd_begins(Here::now_ps());
        }
        self.tasks[cpu].set(self.tasks[cpu].get() + weight);
        self.weigh(cpu);
    }

    /// Counts it out.
    pub(crate) fn remove(&self, cpu: usize, weight: u64) {
        self.all.set(self.all.get() - 1);
        self.running[cpu].set(self.running[cpu].get() - 1);
        if self.running[cpu].get() > 0 {
            self.idlers.waits_no_more(Here::now_ps());
            Here::tasks_wait(-1);
        }
        if self.running[cpu].get() == 1 {
            self.crowded.set(self.crowded.get() - 1);
            if self.crowded.get() == 0 {
                self.idlers.crowd_ends(Here::now_ps());
            }
        }
        self.tasks[cpu].set(self.tasks[cpu].get() - weight);
        self.weigh(cpu);
    }

    fn weigh(&self, cpu: usize) {
        let tasks = self.tasks[cpu].get();
        self.weight[cpu].set(match &self.shares {
            Some(shares) if tasks > 0 => shares.weight(cpu),
            Some(_) => 0,
            None => tasks,
        });
    }

    /// With group scheduling: sums up the level `span` and redistributes its shares. Returns
    /// whether it did; [`Self::put_shares`] must follow.
    pub(crate) fn get_shares(&self, span: &Range<usize>) -> bool {
        let taken = self.shares.as_ref().is_some_and(|shares| shares.get(span, &self.tasks));
        if taken {
            for cpu in span.clone() {
                self.weigh(cpu);
            }
        }
        taken
    }

    /// The level that begins at `first` is balanced.
    pub(crate) fn put_shares(&self, first: usize) {
        if let Some(shares) = &self.shares {
            shares.put(first);
        }
    }

    /// With group scheduling: tasks have moved between two CPUs at the level that begins at
    /// `first`.
    pub(crate) fn move_shares(&self, first: usize, cpus: [usize; 2]) {
        if let Some(shares) = &self.shares {
            shares.moved(first, cpus, &self.tasks);
            for cpu in cpus {
                self.weigh(cpu);
            }
        }
    }

    /// What to move from the first to the second of `cpus`, in weight of tasks, for an imbalance
    /// in the balancer's units at the level that begins at `first`.
    pub(crate) fn task_weight(&self, imbalance: u64, first: usize, cpus: [usize; 2]) -> u64 {
        match &self.shares {
            Some(shares) => shares.task_weight(imbalance, first, cpus, &self.tasks),
            None => imbalance,
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

    /// At `tick` of `cpu`, for i in 0..5: the average over 2^i ticks, rounded up when it rises.
    /// Ticks missed since the last look had no load.
    pub(crate) fn tick(&self, cpu: usize, tick: u64) {
        let missed = match &self.looked {
            Some(looked) => match tick.checked_sub(looked[cpu].replace(tick)) {
                Some(0) => return,
                since => since.unwrap_or(1) - 1,
            },
            None => 0,
        };
        let now = self.weight(cpu);
        for (i, average) in self.averages.iter().enumerate() {
            let old = decayed(average[cpu].get(), i, missed);
            let scale = 1_u64 << i;
            let new = if now > old { now + scale - 1 } else { now };
            average[cpu].set((old * (scale - 1) + new) >> i);
        }
    }

    /// What `cpu` can do for ordinary tasks, 1024 for a whole core.
    pub(crate) fn power(&self, cpu: usize) -> u64 {
        self.capacity[cpu].power.get()
    }

    /// `cpu` has run a real-time task for `ns`.
    pub(crate) fn ran_rt(&self, cpu: usize, ns: u64) {
        let rt = &self.capacity[cpu].rt_ns;
        rt.set(rt.get() + ns);
    }

    /// Updates the capacity of `cpu` that real-time tasks leave (`update_cpu_power`).
    pub(crate) fn update_power(&self, cpu: usize, now_ns: u64) {
        let capacity = &self.capacity[cpu];
        while now_ns.saturating_sub(capacity.halved_ns.get()) > RT_PERIOD_NS {
            capacity.halved_ns.set(capacity.halved_ns.get() + RT_PERIOD_NS);
            capacity.rt_ns.set(capacity.rt_ns.get() / 2);
        }
        let all = RT_PERIOD_NS + (now_ns - capacity.halved_ns.get());
        let left = all.saturating_sub(capacity.rt_ns.get());
        capacity.power.set((self.whole * left / all).max(1));
    }
}

/// The average with `index` after `missed` ticks without load, by steps of powers of two and in
/// 128ths, as `decay_load_missed` has it.
fn decayed(load: u64, index: usize, missed: u64) -> u64 {
    if missed == 0 || load == 0 {
        return load;
    }
    if missed >= GONE_AFTER[index] {
        return 0;
    }
    let tick = 1.0 - 0.5_f64.powi(index as i32);
    let step = |j: u32| (128.0 * tick.powi(1 << j)) as u64;
    (0..7).filter(|j| (missed >> j) & 1 == 1).fold(load, |load, j| (load * step(j)) >> 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks_decay_the_averages_from_2_6_36_on() {
        // Table of the kernel: 96, 72, 40, 12 and 1 of 128 after 1, 2, 4, 8 and 16 ticks.
        let after = [1, 2, 4, 8, 16].map(|missed| decayed(128, 2, missed));
        assert_eq!(after, [96, 72, 40, 12, 1]);
        assert_eq!((decayed(128, 1, 3), decayed(128, 4, 16)), (16, 45));
        assert_eq!((decayed(128, 1, 8), decayed(128, 4, 127), decayed(128, 4, 128)), (0, 0, 0));
        for (decays, expected) in [(false, 768), (true, 240)] {
            let loads = Loads::new(1, false, 1, decays);
            loads.add(0, 1024);
            (1..30).for_each(|tick| loads.tick(0, tick));
            loads.remove(0, 1024);
            loads.tick(0, 34);
            // Index 2 of the array is the average over four ticks.
            let average = loads.target(0, 3);
            assert!(average.abs_diff(expected) < 8, "{average}");
        }
    }

    #[test]
    fn real_time_tasks_and_hardware_threads_lessen_the_power() {
        let loads = Loads::new(2, false, 2, false);
        assert_eq!(loads.power(0) + loads.power(1), SMT_GAIN);
        let loads = Loads::new(1, false, 1, false);
        loads.ran_rt(0, 125_000_000);
        loads.update_power(0, 500_000_000);
        assert_eq!(loads.power(0), 896);
    }
}
