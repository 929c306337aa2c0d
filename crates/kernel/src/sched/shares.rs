//! Weight of the user's group on each CPU, as 2.6.26-rc1 keeps it: `aggregate_group_weight` and
//! relatives of `kernel/sched.c`, `load_balance_fair` of `kernel/sched_fair.c`.
//!
//! Only balancing changes the shares, so in between they are stale. A level redistributes the
//! shares that its own CPUs have; there is no sum over the machine.

use super::entity::WEIGHT;
use core::cell::Cell;
use core::ops::Range;

/// Weight of the super user's group over all CPUs (`INIT_TASK_GROUP_LOAD`, two tasks' worth).
const GROUP_SHARES: u64 = 2 * WEIGHT;
/// The group has at least this weight on a CPU (`MIN_SHARES`).
const SHARE_MIN: u64 = 2;

/// Sums over the CPUs of a level. A level keeps them at its first CPU, where a larger level that
/// begins there overwrites them.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregate {
    /// Weight of the group's tasks, its shares, and the load that these shares are.
    tasks: u64,
    shares: u64,
    load: u64,
}

/// Shares of the one group that all tasks belong to.
pub(super) struct Shares {
    /// Recorded share of each CPU: nothing without a task.
    recorded: Vec<Cell<u64>>,
    /// Weight of the group on each CPU while it has tasks there.
    weight: Vec<Cell<u64>>,
    aggregates: Vec<Cell<Aggregate>>,
    /// A CPU balances a level that begins here; other CPUs use its sums until it ends.
    busy: Vec<Cell<bool>>,
}

fn cells<T: Copy>(cpus: usize, value: T) -> Vec<Cell<T>> {
    vec![Cell::new(value); cpus]
}

impl Shares {
    /// Every CPU begins with an even part, as on a machine that has run for a while; at boot each
    /// would have the whole weight.
    pub(super) fn new(cpus: usize) -> Self {
        let even = GROUP_SHARES / cpus as u64;
        Self {
            recorded: cells(cpus, even),
            weight: cells(cpus, even.max(SHARE_MIN)),
            aggregates: cells(cpus, Aggregate::default()),
            busy: cells(cpus, false),
        }
    }

    /// Weight of the group on `cpu` while it has tasks there.
    pub(super) fn weight(&self, cpu: usize) -> u64 {
        self.weight[cpu].get()
    }

    /// Sums up the level `span` and redistributes its shares (`get_aggregate`). `tasks` has the
    /// weight of each CPU's tasks. Returns whether it did, which [`Self::put`] must follow.
    pub(super) fn get(&self, span: &Range<usize>, tasks: &[Cell<u64>]) -> bool {
        if self.busy[span.start].replace(true) {
            return false;
        }
        let weight = tasks[span.clone()].iter().map(Cell::get).sum();
        let queued = span.clone().filter(|&cpu| tasks[cpu].get() > 0);
        let load: u64 = queued.map(|cpu| self.weight(cpu)).sum();
        let shares = self.recorded_in(span, weight);
        let load = load * shares / (load + 1);
        let aggregate = Aggregate { tasks: weight, shares, load };
        for cpu in span.clone() {
            self.update(cpu, aggregate, tasks);
        }
        let rest = shares.wrapping_sub(self.recorded_in(span, weight));
        self.add(span.start, rest);
        self.aggregates[span.start].set(aggregate);
        true
    }

    /// The level that begins at `first` is balanced (`put_aggregate`).
    pub(super) fn put(&self, first: usize) {
        self.busy[first].set(false);
    }

    /// Shares of the CPUs of `span`, with tasks of `weight` (`aggregate_group_shares`).
    fn recorded_in(&self, span: &Range<usize>, weight: u64) -> u64 {
        let shares = self.recorded[span.clone()].iter().map(Cell::get).fold(0, u64::wrapping_add);
        if (shares == 0 && weight > 0) || shares > GROUP_SHARES { GROUP_SHARES } else { shares }
    }

    /// Gives `cpu` its part of the shares of a level. Without tasks it weighs as much as one
    /// task, so that a first task is not starved, but it has no share
    /// (`__update_group_shares_cpu`).
    fn update(&self, cpu: usize, level: Aggregate, tasks: &[Cell<u64>]) {
        let mine = tasks[cpu].get();
        let part = level.shares * if mine == 0 { WEIGHT } else { mine } / (level.tasks + 1);
        self.recorded[cpu].set(if mine == 0 { 0 } else { part });
        self.weight[cpu].set(part.max(SHARE_MIN));
    }

    /// Rounding loses no shares. The numbers have no sign: a debt of a CPU wraps, and so do sums.
    fn add(&self, cpu: usize, rest: u64) {
        self.recorded[cpu].set(self.recorded[cpu].get().wrapping_add(rest));
    }

    /// Weight of tasks to move from `from` to `to` for an `imbalance` of loads at the level that
    /// begins at `first`: at least half the difference of the two queues, computed without a sign.
    pub(super) fn task_weight(
        &self,
        imbalance: u64,
        first: usize,
        [from, to]: [usize; 2],
        tasks: &[Cell<u64>],
    ) -> u64 {
        let level = self.aggregates[first].get();
        if level.tasks == 0 {
            return 0;
        }
        let half = tasks[from].get().wrapping_sub(tasks[to].get()) / 2;
        (imbalance * level.tasks / (level.load + 1)).max(half)
    }

    /// Tasks have moved between two CPUs at the level that begins at `first`
    /// (`move_group_shares`).
    pub(super) fn moved(&self, first: usize, [from, to]: [usize; 2], tasks: &[Cell<u64>]) {
        let level = self.aggregates[first].get();
        let both = || self.recorded[from].get().wrapping_add(self.recorded[to].get());
        let before = both();
        self.update(from, level, tasks);
        self.update(to, level, tasks);
        self.add(to, before.wrapping_sub(both()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(numbers: &[u64]) -> Vec<Cell<u64>> {
        numbers.iter().map(|number| Cell::new(number * WEIGHT)).collect()
    }

    fn weights(shares: &Shares) -> Vec<u64> {
        shares.weight.iter().map(Cell::get).collect()
    }

    #[test]
    fn a_level_redistributes_its_own_shares_in_proportion_to_tasks() {
        let shares = Shares::new(4);
        let tasks = tasks(&[3, 1, 2, 2]);
        assert!(shares.get(&(0..2), &tasks));
        shares.put(0);
        assert_eq!(weights(&shares), [767, 255, 512, 512]);
        // 1024 less 1022 are lost to rounding; the first CPU records them.
        assert_eq!(shares.recorded[0].get(), 769);
        tasks[0].set(WEIGHT);
        assert!(shares.get(&(0..4), &tasks));
        assert_eq!(weights(&shares), [341, 341, 682, 682]);
        assert!(!shares.get(&(0..2), &tasks), "the same first CPU");
        assert!(shares.get(&(2..4), &tasks));
        assert_eq!(weights(&shares)[2..], [681, 681]);
    }

    #[test]
    fn an_idle_pair_weighs_nothing_or_far_too_much() {
        let shares = Shares::new(4);
        let tasks = tasks(&[2, 2, 0, 0]);
        // It still has its shares, and a sum of no tasks divides them by one.
        assert!(shares.get(&(2..4), &tasks));
        shares.put(2);
        assert_eq!(weights(&shares), [512, 512, 1024 * WEIGHT, 1024 * WEIGHT]);
        assert!(shares.get(&(0..4), &tasks));
        shares.put(0);
        assert_eq!(weights(&shares), [1023, 1023, 511, 511]);
        // The level above has taken them away.
        assert!(shares.get(&(2..4), &tasks));
        assert_eq!(weights(&shares), [1023, 1023, 2, 2]);
    }

    #[test]
    fn half_the_difference_is_moved_and_a_longer_queue_takes_all() {
        let shares = Shares::new(2);
        let tasks = tasks(&[6, 2]);
        assert!(shares.get(&(0..2), &tasks));
        assert_eq!(shares.task_weight(1, 0, [0, 1], &tasks), 2 * WEIGHT);
        assert!(shares.task_weight(1, 0, [1, 0], &tasks) > 1 << 62);
        tasks[0].set(4 * WEIGHT);
        tasks[1].set(4 * WEIGHT);
        shares.moved(0, [0, 1], &tasks);
        assert_eq!(weights(&shares), [1023, 1023]);
    }
}
