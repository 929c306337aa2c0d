//! Grace periods that do not end.

use super::{Rcu, Steps};
use crate::{Atomic, Platform, TaskId};

/// Ticks for which a CPU that does not delay the grace period lets the CPUs that do report first
/// (`RCU_STALL_RAT_DELAY`).
const OTHERS_DELAY: u64 = 2;

/// A grace period has waited too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The CPUs that it waits for.
    pub cpus: Vec<usize>,
    /// The readers that it waits for, which left their CPU in a section.
    pub tasks: Vec<TaskId>,
    /// The CPU that detected it.
    pub by: usize,
    /// Ticks since it began.
    pub ticks: u64,
}

impl<P: Platform, C, S: Steps> Rcu<P, C, S> {
    /// Called at each tick of this CPU. Returns a stall once the current grace period has waited
    /// for `limit` ticks, and again after each further `again` ticks (`check_cpu_stall`). A CPU
    /// that delays the grace period reports first, and only itself.
    pub fn stall(&self, jiffies: u64, limit: u64, again: u64) -> Option<Stall> {
        let tree = &self.tree;
        let due = tree.began.get() + limit + tree.stalled.get() * again;
        let numbers = &tree.numbers.0;
        // A tick only peeks at the numbers; a CPU that finds a stall takes its time.
        if jiffies < due || numbers.gpnum.peek() == numbers.completed.peek() {
            return None;
        }
        let by = P::cpu() as usize;
        let (cpus, tasks) = match (self.owing(), self.readers()) {
            (cpus, _) if cpus.contains(&by) => (vec![by], Vec::new()),
            _ if jiffies < due + OTHERS_DELAY => return None,
            (cpus, tasks) if cpus.is_empty() && tasks.is_empty() => return None,
            both => both,
        };
        tree.stalled.set(tree.stalled.get() + 1);
        Some(Stall { cpus, tasks, by, ticks: jiffies - tree.began.get() })
    }

    /// Returns the readers without a CPU that the current grace period waits for.
    fn readers(&self) -> Vec<TaskId> {
        let leaves = self.tree.leaves().map(|number| &self.tree.nodes[number]);
        leaves.flat_map(|leaf| leaf.blocked.borrow().owing().collect::<Vec<_>>()).collect()
    }

    /// Returns the CPUs that the current grace period waits for.
    fn owing(&self) -> Vec<usize> {
        let tree = &self.tree;
        let leaves = tree.leaves().map(|number| &tree.nodes[number]);
        leaves
            .flat_map(|leaf| {
                // A hint: a CPU that reports in the meantime is named once too often.
                let mask = leaf.hot().qsmask.peek();
                let cpus = leaf.cpus.clone().enumerate();
                cpus.filter(move |(place, _)| mask & 1 << place != 0).map(|(_, cpu)| cpu)
            })
            .collect()
    }
}
