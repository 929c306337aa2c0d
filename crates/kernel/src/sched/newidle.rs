//! Balancing of a CPU that has just run out of tasks.

use super::balance::{Balancer, Busiest, Idle, Newidle};
use super::domains::Domain;
use super::queue::{MIGRATION_COST_NS, RunQueue};
use convoy_machine::Here;
use convoy_sync::RawLock;

impl Balancer {
    /// This CPU has nothing to run and its queue is locked: tries to pull.
    pub(crate) fn idle_balance(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        if !self.newidle_pays(queue) {
            return;
        }
        let measured = self.rules.newidle == Newidle::Measured;
        let start = Here::now_ns();
        let mut next = self.rq.jiffies() + u64::from(self.rq.hz) * 60;
        let mut pulled = 0;
        for domain in &queue.domains {
            let since = Here::now_ns();
            if measured && queue.avg_idle.get() < since - start + domain.newidle_cost.get() {
                break;
            }
            pulled = self.newidle(cpu, domain);
            let took = Here::now_ns() - since;
            domain.newidle_cost.set(domain.newidle_cost.get().max(took));
            let due = domain.last_balance.get() + self.rq.ticks_of_ms(domain.interval.get());
            next = next.min(due);
            if pulled > 0 {
                break;
            }
        }
        if pulled > 0 || self.rq.jiffies() > queue.next_balance.get() {
            queue.next_balance.set(next);
        }
    }

    /// Whether `queue`, about to be empty, should look for work at all. Its idle time starts now.
    fn newidle_pays(&self, queue: &RunQueue) -> bool {
        queue.idle_since.set(Some(Here::now_ns()));
        match self.rules.newidle {
            Newidle::Never => false,
            Newidle::Always => true,
            Newidle::LongIdle => queue.avg_idle.get() >= MIGRATION_COST_NS,
            Newidle::Measured => self.rq.loads.overloaded(),
        }
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
            self.rq.count(|stats| stats.newidle_balanced += 1);
            return 0;
        };
        let mut moved = 0;
        if self.rq.loads.running(busiest) > 1 {
            self.rq.lock_second(cpu, busiest);
            let amount = self.task_weight(imbalance, cpu, busiest);
            let one = self.rules.newidle == Newidle::Measured;
            let amount = if one { amount.min(1) } else { amount };
            moved = self.move_tasks(cpu, busiest, amount, domain);
            self.rq.queues[busiest].lock.unlock();
        }
        if moved > 0 {
            self.rq.this().idle_since.set(None);
            // A failure is not counted here: only periodic balancing raises the count.
            domain.failed.set(0);
            self.rq.count(|stats| stats.pulled_newidle += moved);
        } else {
            self.rq.count(|stats| stats.newidle_failed += 1);
        }
        moved
    }
}
