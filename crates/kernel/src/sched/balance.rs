//! Load balancing: periodic, and pushed by the migration thread; what all of it may move.
//!
//! `move_tasks`, `load_balance` and relatives. In which order tasks are examined is up to their
//! class ([`super::normal::Normal::candidates`]).

pub(crate) mod rules;

use super::domains::{Domain, Group, Power};
use super::entity::WEIGHT;
use super::idlers::IdleCause;
use super::normal::{Dequeue, Enqueue};
use super::queue::{MIGRATION_COST_NS, RunQueue, RunQueues};
use super::rules::SchedRules;
use super::task::Tcb;
use super::wake::Wakeups;
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock, TaskId};
use core::cell::Cell;
use rules::{BalanceRules, HotBuddies, HotClock, Imbalance, Migration, Push};
use std::rc::Rc;

/// Tasks examined in one attempt: `sysctl_sched_nr_migrate` and one more.
const EXAMINED: usize = 33;

/// Why a CPU balances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// It is busy.
    Not,
    /// Its tick found it idle.
    Tick,
    /// It is about to become idle.
    Newly,
}

/// The unit of an amount to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Weight of tasks, in the balancer's units.
    Weight,
    /// Tasks, average load or average utilisation, with [`Imbalance::Tracked`].
    Tasks,
    Load,
    Utilization,
}

/// How much to move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pull {
    pub(super) unit: Unit,
    pub(super) amount: u64,
    /// One task at most, whatever the amount.
    pub(super) one: bool,
}

/// What [`Balancer::busiest_group`] found.
pub(super) enum Busiest<'a> {
    /// Pull from this group.
    Group(&'a Group, Pull),
    /// Nothing to do, and why.
    Balanced(IdleCause),
}

/// Moves tasks between run queues.
pub(crate) struct Balancer {
    pub(super) rq: Rc<RunQueues>,
    pub(super) rules: BalanceRules,
    pub(super) power: Power,
    pub(super) wakeups: Rc<Wakeups>,
    /// A CPU balances at a level where only one at a time may.
    serialized: Cell<bool>,
}

impl Balancer {
    /// Returns the balancer of `rq`; it reports the utilisation of the CPUs to `wakeups`.
    pub(crate) fn new(rq: Rc<RunQueues>, rules: &SchedRules, wakeups: Rc<Wakeups>) -> Self {
        let (rules, power) = (rules.balance.clone(), rules.domains.power);
        Self { rq, rules, power, wakeups, serialized: Cell::new(false) }
    }

    /// Whether a new task starts on the idlest CPU.
    pub(crate) fn balances_fork(&self) -> bool {
        self.rules.fork
    }

    /// The task `id` of the queue `from` if `to` may pull it, or why not.
    fn may_move(
        &self,
        id: TaskId,
        from: &RunQueue,
        to: usize,
        domain: &Domain,
    ) -> Result<Rc<Tcb>, IdleCause> {
        let task = self.rq.tcb(id);
        if from.curr.get() == id || task.on_cpu.get() {
            return Err(IdleCause::OneQueue);
        }
        if task.bound.get() {
            return Err(IdleCause::Bound);
        }
        let favours = match self.rules.hot_buddies {
            HotBuddies::Always => true,
            HotBuddies::WhenBusy => self.rq.loads.running(to) > 0,
        };
        let buddy = favours && from.normal.borrow().is_hot_buddy(id);
        if domain.moves_hot() || !(buddy || self.is_hot(&task, from)) {
            return Ok(task);
        }
        Err(IdleCause::Hot)
    }

    /// Whether `task`, queued on `from`, ran too recently to leave its caches.
    fn is_hot(&self, task: &Tcb, from: &RunQueue) -> bool {
        let now = match self.rules.hot_clock {
            HotClock::Now => Here::now_ns(),
            HotClock::LastEvent => from.clock_ns.get(),
        };
        let ago = now.saturating_sub(task.entity.exec_start.get());
        self.rules.migration == Migration::FewCold && ago < MIGRATION_COST_NS
    }

    /// Tasks of `queue`, in the order in which the balancer examines them.
    fn candidates(&self, queue: &RunQueue) -> Vec<TaskId> {
        let most = match self.rules.migration {
            Migration::Any => usize::MAX,
            Migration::FewCold => EXAMINED,
        };
        queue.normal.borrow().candidates(most)
    }

    /// Moves tasks worth `pull` from the queue of `from` to the queue of `to`; both are locked.
    /// Returns how many, or why none.
    pub(super) fn move_tasks(
        &self,
        to: usize,
        from: usize,
        pull: Pull,
        domain: &Domain,
    ) -> Result<u64, IdleCause> {
        let source = &self.rq.queues[from];
        let candidates = self.candidates(source);
        let slack = match self.rules.imbalance {
            Imbalance::LoadPerTask => WEIGHT as i64,
            Imbalance::AboveCapacity | Imbalance::Tasks | Imbalance::Tracked => 0,
        };
        let weighs = pull.unit == Unit::Weight;
        let mut left = pull.amount as i64;
        let mut moved = 0;
        let mut cause = IdleCause::OneQueue;
        for id in candidates {
            let last = !weighs && self.rq.loads.running(from) <= 1;
            if left <= 0 || last || (pull.one && moved > 0) {
                break;
            }
            Here::pass(self.rq.costs.balance_cpu);
            let task = match self.may_move(id, source, to, domain) {
                Ok(task) => task,
                Err(why) => {
                    cause = cause.max(why);
                    continue;
                }
            };
            let share = &task.entity.eevdf;
            let weight = match pull.unit {
                Unit::Weight => task.entity.weight(),
                Unit::Tasks => 1,
                Unit::Load => share.load.get().get().max(1),
                Unit::Utilization => share.used.get().get(),
            } as i64;
            // A task that weighs much more than the rest of the amount stays (`balance_tasks`);
            // failures raise the limit (`shr_bound`).
            let least = if weighs { weight / 2 } else { weight >> domain.failed.get().min(31) };
            if least > left + slack {
                cause = cause.max(IdleCause::TooSmall);
                continue;
            }
            self.pull(&task, to);
            left -= weight;
            moved += 1;
        }
        if moved == 0 {
            return Err(cause);
        }
        self.rq.loads.move_shares(domain.span.start, [from, to]);
        Ok(moved)
    }

    /// Moves one queued task to `to`; both queues are locked.
    fn pull(&self, task: &Rc<Tcb>, to: usize) {
        Here::pass(self.rq.costs.pull);
        self.rq.dequeue(task, Dequeue::Leaves);
        self.rq.change_cpu(task, &self.rq.queues[task.cpu.get()], to);
        self.rq.loads.idlers.queues(IdleCause::Moved);
        self.rq.enqueue(&self.rq.queues[to], task, Enqueue::Moved);
        self.rq.check_preempt(to, task);
    }

    /// Periodic balancing of `cpu`, which is this CPU or an idle one without ticks.
    pub(crate) fn rebalance(&self, cpu: usize, idle: bool) {
        let mut idle = if idle { Idle::Tick } else { Idle::Not };
        self.rq.queues[cpu].normal.borrow_mut().update_clock(Here::now_ns());
        let jiffies = self.rq.jiffies();
        let mut next = jiffies + u64::from(self.rq.hz) * 60;
        let mut cause = IdleCause::NoBusyGroup;
        for domain in &self.rq.queues[cpu].domains {
            domain.note_newidle(0, jiffies, self.rq.hz);
            let busy = if idle == Idle::Tick { 1 } else { domain.rules.busy_factor };
            let longest = u64::from(self.rq.hz) * self.rq.queues.len() as u64 / 10;
            let interval =
                self.rq.ticks_of_ms(domain.interval.get() * busy).clamp(1, longest.max(1));
            let mut mine = true;
            if jiffies < domain.last_balance.get() + interval {
                cause = cause.max(IdleCause::NotDue);
            } else if domain.rules.serialize && self.serialized.replace(true) {
                cause = cause.max(IdleCause::Serialized);
            } else {
                let found = self.load_balance(cpu, domain, idle);
                if domain.rules.serialize {
                    self.serialized.set(false);
                }
                match found {
                    Ok(_) => idle = Idle::Not,
                    Err(why) => {
                        mine = why != IdleCause::NotMine;
                        cause = cause.max(why);
                    }
                }
                domain.last_balance.set(jiffies);
            }
            next = next.min(domain.last_balance.get() + interval);
            if !mine {
                break;
            }
        }
        let queue = &self.rq.queues[cpu];
        self.rq.set_next_balance(cpu, next);
        if queue.is_idle() && self.rq.loads.running(cpu) == 0 {
            self.rq.loads.idlers.looked(cpu, cause, Here::now_ps());
        }
    }

    /// One attempt at one level. Returns how many tasks moved, or why none.
    fn load_balance(&self, cpu: usize, domain: &Domain, idle: Idle) -> Result<u64, IdleCause> {
        let loads = &self.rq.loads;
        if !loads.grouped() {
            return self.level_loads(cpu, domain, idle);
        }
        Here::pass(self.rq.costs.balance_cpu * domain.span.len() as u64);
        let taken = loads.get_shares(&domain.span);
        let moved = self.level_loads(cpu, domain, idle);
        if taken {
            loads.put_shares(domain.span.start);
        }
        moved
    }

    fn level_loads(&self, cpu: usize, domain: &Domain, idle: Idle) -> Result<u64, IdleCause> {
        self.wakeups.bound_idle_scan(cpu);
        let busiest = match self.busiest_group(cpu, domain, idle) {
            Busiest::Group(group, pull) => self
                .busiest_queue(group, pull)
                .filter(|&busiest| busiest != cpu)
                .map(|busiest| (busiest, pull))
                .ok_or(IdleCause::OneQueue),
            Busiest::Balanced(cause) => Err(cause),
        };
        let (busiest, pull) = busiest.inspect_err(|_| {
            domain.failed.set(0);
            domain.lengthen();
        })?;
        let mut moved = Err(IdleCause::OneQueue);
        if self.rq.loads.running(busiest) > 1 {
            Smp::irq_save();
            let (low, high) = (cpu.min(busiest), cpu.max(busiest));
            self.rq.queues[low].lock.lock();
            self.rq.queues[high].lock.lock();
            let first = domain.span.start;
            let amount = self.rq.loads.task_weight(pull.amount, first, [busiest, cpu]);
            moved = self.move_tasks(cpu, busiest, Pull { amount, ..pull }, domain);
            self.rq.queues[high].lock.unlock();
            self.rq.queues[low].lock.unlock();
            Smp::irq_restore(());
        }
        match moved {
            Ok(moved) => {
                self.rq.count(|stats| stats.pulled_periodic += moved);
                domain.failed.set(0);
                domain.shorten();
            }
            Err(_) => self.balance_failed(cpu, busiest, domain),
        }
        moved
    }

    /// After repeated failures the migration thread of the busiest CPU pushes.
    fn balance_failed(&self, cpu: usize, busiest: usize, domain: &Domain) {
        domain.failed.set(domain.failed.get() + 1);
        let queue = &self.rq.queues[busiest];
        let tries = domain.rules.cache_nice_tries;
        if domain.failed.get() > tries + 2 && queue.push_to.get().is_none() {
            queue.push_to.set(Some(cpu));
            domain.failed.set(tries + 1);
            self.rq.resched(busiest);
            domain.lengthen();
        } else {
            domain.shorten();
        }
    }

    /// The migration thread of this CPU, a real-time task: pushes one task if it was asked to. The
    /// queue is locked and the task that was running is back in the timeline.
    pub(crate) fn migration_thread(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        let Some(to) = queue.push_to.take() else { return };
        // Two switches, to the thread and back.
        Here::pass(2 * self.rq.costs.switch);
        let spare = self.rules.push == Push::Any || self.rq.loads.running(cpu) > 1;
        if !spare || to == cpu {
            return;
        }
        let span = self.rq.queues[to].domains.iter().find(|domain| domain.span.contains(&cpu));
        let Some(domain) = span else { return };
        self.rq.lock_second(cpu, to);
        let candidates = self.candidates(queue);
        let task = candidates.into_iter().find_map(|id| {
            let task = self.rq.tcb(id);
            let hot = !domain.moves_hot() && self.is_hot(&task, queue);
            (!hot && !task.bound.get() && task.entity.on_queue.get()).then_some(task)
        });
        if let Some(task) = task {
            self.rq.count(|stats| stats.pushed += 1);
            if task.on_cpu.get() {
                // It is on this CPU until the switch; whoever is switched to queues it there.
                self.rq.dequeue(&task, Dequeue::Leaves);
                task.migrate_to.set(Some(to));
            } else {
                self.pull(&task, to);
            }
        }
        self.rq.queues[to].lock.unlock();
    }
}
