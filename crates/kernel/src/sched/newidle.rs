//! Balancing of a CPU that has just run out of tasks.

use super::balance::rules::Newidle;
use super::balance::{Balancer, Busiest, Idle, Pull, Unit};
use super::domains::Domain;
use super::entity::WEIGHT;
use super::idlers::IdleCause;
use super::queue::{MIGRATION_COST_NS, RunQueue};
use convoy_machine::Here;
use convoy_sync::RawLock;

impl Balancer {
    /// This CPU has nothing to run and its queue is locked: tries to pull. Returns why it has not.
    pub(crate) fn idle_balance(&self) -> IdleCause {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        if !self.newidle_pays(queue) {
            return IdleCause::ShortIdle;
        }
        let measured = self.rules.newidle == Newidle::Measured;
        let start = Here::now_ns();
        let mut next = self.rq.jiffies() + u64::from(self.rq.hz) * 60;
        let (mut pulled, mut cause) = (false, IdleCause::NoBusyGroup);
        for domain in &queue.domains {
            let since = Here::now_ns();
            if measured && queue.avg_idle.get() < since - start + domain.newidle_cost.get() {
                cause = cause.max(IdleCause::ShortIdle);
                break;
            }
            let found = self.newidle(cpu, domain);
            pulled = found.is_ok();
            // A failure makes the next search less likely.
            let dearer = domain.newidle_cost.get() * 3 / 2;
            let cost = if pulled { Here::now_ns() - since } else { dearer };
            let cost = cost.min(MIGRATION_COST_NS + 200);
            domain.note_newidle(cost, self.rq.jiffies(), self.rq.hz);
            let due = domain.last_balance.get() + self.rq.ticks_of_ms(domain.interval.get());
            next = next.min(due);
            cause = found.err().map_or(IdleCause::Moved, |why| cause.max(why));
            let failed = [IdleCause::OneQueue, IdleCause::Hot, IdleCause::Bound].contains(&cause);
            if pulled || (self.rules.newidle_stops && failed) {
                break;
            }
        }
        if pulled || self.rq.jiffies() > queue.next_balance.get() {
            self.rq.set_next_balance(cpu, next);
        }
        cause
    }

    /// Whether `queue`, about to be empty, should look for work at all. Its idle time starts now.
    fn newidle_pays(&self, queue: &RunQueue) -> bool {
        queue.idle_since.set(Some(Here::now_ns()));
        queue.normal.borrow_mut().update_clock(Here::now_ns());
        match self.rules.newidle {
            Newidle::Never => false,
            Newidle::Always => true,
            Newidle::LongIdle => queue.avg_idle.get() >= MIGRATION_COST_NS,
            Newidle::Measured => self.rq.loads.overloaded(),
        }
    }

    /// One level. Returns how many tasks moved, or why none.
    fn newidle(&self, cpu: usize, domain: &Domain) -> Result<u64, IdleCause> {
        let busiest = match self.busiest_group(cpu, domain, Idle::Newly) {
            Busiest::Group(group, pull) => self
                .busiest_queue(group, pull)
                .map(|busiest| (busiest, pull))
                .ok_or(IdleCause::OneQueue),
            Busiest::Balanced(cause) => Err(cause),
        };
        let (busiest, pull) = busiest.inspect_err(|_| {
            domain.failed.set(0);
            self.rq.count(|stats| stats.newidle_balanced += 1);
        })?;
        let mut moved = Err(IdleCause::OneQueue);
        if self.rq.loads.running(busiest) > 1 {
            self.rq.lock_second(cpu, busiest);
            let first = domain.span.start;
            let amount = self.rq.loads.task_weight(pull.amount, first, [busiest, cpu]);
            let pull = match (self.rules.newidle, pull.unit) {
                (Newidle::Measured, Unit::Weight) => Pull { amount: amount.min(WEIGHT), ..pull },
                (rule, _) => Pull { amount, one: rule == Newidle::Measured, ..pull },
            };
            moved = self.move_tasks(cpu, busiest, pull, domain);
            self.rq.queues[busiest].lock.unlock();
        }
        match moved {
            Ok(moved) => {
                self.rq.this().idle_since.set(None);
                // A failure is not counted here: only periodic balancing raises the count.
                domain.failed.set(0);
                self.rq.count(|stats| stats.pulled_newidle += moved);
            }
            Err(_) => self.rq.count(|stats| stats.newidle_failed += 1),
        }
        moved
    }
}
