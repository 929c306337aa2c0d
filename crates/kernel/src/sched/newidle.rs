//! Balancing of a CPU that has just run out of tasks.

use super::balance::{Busiest, Idle, MIGRATION_COST_NS};
use super::domains::Domain;
use super::{RunQueue, Sched};
use convoy_machine::Here;
use convoy_sync::RawLock;
use schemars::JsonSchema;
use serde::Deserialize;

/// When a CPU that has run out of tasks tries to pull one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Newidle {
    /// Never.
    Never,
    /// Always (up to 2.6.26).
    Always,
    /// When its idle times last at least 0.5 ms on average (from 2.6.33 on).
    LongIdle,
    /// When some CPU has two tasks and its idle times are longer than the search was (6.6 and
    /// later); it then pulls one task.
    Measured,
}

impl Sched {
    /// This CPU has nothing to run and its queue is locked: tries to pull.
    pub(crate) fn idle_balance(&self) {
        let cpu = Here::cpu();
        let queue = self.this();
        if !self.newidle_pays(queue) {
            return;
        }
        let measured = self.rules.balance.newidle == Newidle::Measured;
        let start = Here::now_ns();
        let mut next = self.jiffies() + u64::from(self.config.hz) * 60;
        let mut pulled = 0;
        for domain in &queue.domains {
            let since = Here::now_ns();
            if measured && queue.avg_idle.get() < since - start + domain.newidle_cost.get() {
                break;
            }
            pulled = self.newidle(cpu, domain);
            let took = Here::now_ns() - since;
            domain.newidle_cost.set(domain.newidle_cost.get().max(took));
            let due = domain.last_balance.get() + self.ticks_of_ms(domain.interval.get());
            next = next.min(due);
            if pulled > 0 {
                break;
            }
        }
        if pulled > 0 || self.jiffies() > queue.next_balance.get() {
            queue.next_balance.set(next);
        }
    }

    /// Whether `queue`, about to be empty, should look for work at all. Its idle time starts now.
    fn newidle_pays(&self, queue: &RunQueue) -> bool {
        queue.idle_since.set(Some(Here::now_ns()));
        match self.rules.balance.newidle {
            Newidle::Never => false,
            Newidle::Always => true,
            Newidle::LongIdle => queue.avg_idle.get() >= MIGRATION_COST_NS,
            Newidle::Measured => self.loads.overloaded(),
        }
    }

    /// A wakeup ends the idle time of `queue`: its average follows, by an eighth of the difference,
    /// up to twice the migration cost.
    pub(crate) fn end_idle(queue: &RunQueue) {
        let Some(since) = queue.idle_since.take() else { return };
        let (old, idle) = (queue.avg_idle.get() as i64, (Here::now_ns() - since) as i64);
        let most = 2 * MIGRATION_COST_NS;
        let moved = (old + (idle - old) / 8).max(0) as u64;
        queue.avg_idle.set(if idle as u64 > most { most } else { moved });
    }

    fn newidle(&self, cpu: usize, domain: &Domain) -> u64 {
        let busiest = match self.busiest_group(cpu, domain, Idle::Newly) {
            Busiest::Group(group, imbalance) => {
                self.busiest_queue(group, imbalance).map(|busiest| (busiest, imbalance))
            }
            _ => None,
        };
        let Some((busiest, imbalance)) = busiest else {
            domain.failed.set(0);
            self.count(|stats| stats.newidle_balanced += 1);
            return 0;
        };
        let mut moved = 0;
        if self.loads.running(busiest) > 1 {
            self.lock_second(cpu, busiest);
            let amount = self.task_weight(imbalance, cpu, busiest);
            let one = self.rules.balance.newidle == Newidle::Measured;
            let amount = if one { amount.min(1) } else { amount };
            moved = self.move_tasks(cpu, busiest, amount, domain);
            self.queues[busiest].lock.unlock();
        }
        if moved > 0 {
            self.this().idle_since.set(None);
            // A failure is not counted here: only periodic balancing raises the count.
            domain.failed.set(0);
            self.count(|stats| stats.pulled_newidle += moved);
        } else {
            self.count(|stats| stats.newidle_failed += 1);
        }
        moved
    }
}
