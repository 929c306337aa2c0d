//! Load balancing: newly idle, periodic, pushed by the migration thread, and at fork and exec.
//!
//! `find_busiest_group`, `move_tasks`, `load_balance` and relatives of 2.6.25. In which order tasks
//! are examined is up to their class ([`super::normal::Normal::candidates`]).

use super::domains::{Domain, Group};
use super::entity::WEIGHT;
use super::normal::{Dequeue, Enqueue};
use super::queue::{MIGRATION_COST_NS, RunQueue, RunQueues};
use super::task::Tcb;
use super::wake::Wakeups;
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock, TaskId};
use schemars::JsonSchema;
use serde::Deserialize;
use std::rc::Rc;

/// Tasks examined in one attempt: `sysctl_sched_nr_migrate` and one more.
const EXAMINED: usize = 33;

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

/// What the balancer may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Migration {
    /// Every task that waits (2.6.23).
    Any,
    /// Of the first 33 (`sysctl_sched_nr_migrate`) those that are not cache-hot.
    FewCold,
}

/// Rules of load balancing, `[sched.balance]`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BalanceRules {
    /// A new task starts on the idlest CPU (`SD_BALANCE_FORK`, here from 2.6.24 on) instead of its
    /// parent's.
    pub fork: bool,
    /// When a CPU that has run out of tasks tries to pull one.
    pub newidle: Newidle,
    /// What may be moved.
    pub migration: Migration,
    /// With `config.group_sched` the load of a CPU is the group's share on it (2.6.26-rc1) instead
    /// of the sum of its tasks.
    pub group_shares: bool,
}

/// Why a CPU balances.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    /// It is busy.
    Not,
    /// Its tick found it idle.
    Tick,
    /// It is about to become idle.
    Newly,
}

/// What [`Balancer::busiest_group`] found.
pub(super) enum Busiest<'a> {
    /// Pull `imbalance` of load from this group.
    Group(&'a Group, u64),
    /// Nothing to do.
    Balanced,
    /// Another CPU of the local group balances here and above.
    NotMine,
}

/// Sums over one group.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Load by the domain's index, then scaled to a capacity of 1024.
    load: u64,
    tasks: u64,
    weight: u64,
    spread: bool,
    power: u64,
}

/// Moves tasks between run queues.
pub(crate) struct Balancer {
    pub(super) rq: Rc<RunQueues>,
    pub(super) rules: BalanceRules,
    wakeups: Rc<Wakeups>,
}

impl Balancer {
    /// The balancer of `rq`; it tells `wakeups` how busy the CPUs are.
    pub(crate) fn new(rq: Rc<RunQueues>, rules: BalanceRules, wakeups: Rc<Wakeups>) -> Self {
        Self { rq, rules, wakeups }
    }

    /// Whether a new task starts on the idlest CPU.
    pub(crate) fn balances_fork(&self) -> bool {
        self.rules.fork
    }

    fn sums(&self, group: &Group, index: usize, local: bool) -> Sums {
        let mut sums = Sums { power: group.power, ..Sums::default() };
        let (mut low, mut high) = (u64::MAX, 0);
        let loads = &self.rq.loads;
        for cpu in group.cpus.clone() {
            let load = if local { loads.target(cpu, index) } else { loads.source(cpu, index) };
            low = low.min(load);
            high = high.max(load);
            sums.load += load;
            sums.tasks += loads.running(cpu);
            sums.weight += loads.weight(cpu);
        }
        Here::pass(self.rq.costs.balance_cpu * group.cpus.len() as u64);
        sums.spread = high - low.min(high) > WEIGHT;
        sums
    }

    pub(super) fn busiest_group<'a>(
        &self,
        cpu: usize,
        domain: &'a Domain,
        idle: Idle,
    ) -> Busiest<'a> {
        let index = match idle {
            Idle::Not => domain.rules.busy_idx,
            Idle::Tick => domain.rules.idle_idx,
            Idle::Newly => domain.rules.newidle_idx,
        };
        self.update_shares(domain);
        let (mut total, mut power) = (0, 0);
        let mut here = Sums { power: 1024, ..Sums::default() };
        let mut busiest: Option<(&Group, Sums)> = None;
        for group in &domain.groups {
            let local = group.cpus.contains(&cpu);
            let mut sums = self.sums(group, index, local);
            if local && idle != Idle::Newly && self.balance_cpu(group) != cpu {
                return Busiest::NotMine;
            }
            total += sums.load;
            power += sums.power;
            sums.load = sums.load * 1024 / sums.power;
            let max = busiest.map_or(0, |(_, sums)| sums.load);
            if local {
                here = sums;
            } else if sums.load > max && (sums.tasks > sums.power / 1024 || sums.spread) {
                busiest = Some((group, sums));
            }
        }
        let Some((group, there)) = busiest else { return Busiest::Balanced };
        let average = 1024 * total / power;
        match imbalance(&here, &there, average, domain.rules.imbalance_pct) {
            Some(imbalance) => Busiest::Group(group, imbalance),
            None => Busiest::Balanced,
        }
    }

    /// [`super::loads::Loads::update_shares`] over `domain`, at its price.
    fn update_shares(&self, domain: &Domain) {
        if self.rq.loads.grouped() {
            Here::pass(self.rq.costs.balance_cpu * domain.span.len() as u64);
            self.rq.loads.update_shares(domain.span.clone());
        }
    }

    /// What to move from `from` to `to` for an imbalance in the balancer's units, as weight of
    /// tasks. With group scheduling at least half the difference in tasks (`load_balance_fair`).
    pub(super) fn task_weight(&self, imbalance: u64, to: usize, from: usize) -> u64 {
        let loads = &self.rq.loads;
        if !loads.grouped() {
            return imbalance;
        }
        let (mine, theirs) = (loads.running(to), loads.running(from));
        let half = theirs.checked_sub(mine).map_or(theirs, |more| more / 2);
        (imbalance * loads.all() * WEIGHT / (loads.total_weight() + 1)).max(half * WEIGHT)
    }

    /// The CPU of `group` that balances for it: its first idle one, else its first.
    fn balance_cpu(&self, group: &Group) -> usize {
        let mut cpus = group.cpus.clone();
        cpus.find(|&cpu| self.rq.queues[cpu].is_idle()).unwrap_or(group.cpus.start)
    }

    pub(super) fn busiest_queue(&self, group: &Group, imbalance: u64) -> Option<usize> {
        let mut best = None;
        let mut max = 0;
        for cpu in group.cpus.clone() {
            let weight = self.rq.loads.weight(cpu);
            if (self.rq.loads.running(cpu) == 1 && weight > imbalance) || weight <= max {
                continue;
            }
            max = weight;
            best = Some(cpu);
        }
        best
    }

    fn may_move(&self, id: TaskId, from: &RunQueue, domain: &Domain) -> Option<Rc<Tcb>> {
        let task = self.rq.tcb(id);
        if from.curr.get() == id || task.on_cpu.get() || task.bound.get() {
            return None;
        }
        let buddy = from.normal.borrow().hot_buddy() == Some(id);
        (domain.moves_hot() || !(buddy || self.is_hot(&task))).then_some(task)
    }

    /// Whether `task` ran too recently to leave its caches.
    fn is_hot(&self, task: &Tcb) -> bool {
        let ago = Here::now_ns().saturating_sub(task.entity.exec_start.get());
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

    /// Moves tasks worth `amount` from the queue of `from` to that of `to`; both are locked.
    /// Returns how many.
    pub(super) fn move_tasks(&self, to: usize, from: usize, amount: u64, domain: &Domain) -> u64 {
        let source = &self.rq.queues[from];
        let candidates = self.candidates(source);
        let mut left = amount as i64;
        let mut moved = 0;
        for id in candidates {
            if left <= 0 {
                break;
            }
            Here::pass(self.rq.costs.balance_cpu);
            let Some(task) = self.may_move(id, source, domain) else { continue };
            let weight = task.entity.weight() as i64;
            // Nobody who weighs much more than what is left to move (`balance_tasks`).
            if weight / 2 > left + WEIGHT as i64 {
                continue;
            }
            self.pull(&task, to);
            left -= weight;
            moved += 1;
        }
        if moved > 0 {
            self.update_shares(domain);
        }
        moved
    }

    /// Moves one queued task to `to`; both queues are locked.
    fn pull(&self, task: &Rc<Tcb>, to: usize) {
        Here::pass(self.rq.costs.pull);
        self.rq.dequeue(task, Dequeue::Leaves);
        self.rq.change_cpu(task, &self.rq.queues[task.cpu.get()], to);
        self.rq.enqueue(&self.rq.queues[to], task, Enqueue::Moved);
        self.rq.check_preempt(to, task);
    }

    /// Periodic balancing of `cpu`, which is this CPU or an idle one without ticks.
    pub(crate) fn rebalance(&self, cpu: usize, idle: bool) {
        let mut idle = if idle { Idle::Tick } else { Idle::Not };
        let jiffies = self.rq.jiffies();
        let mut next = jiffies + u64::from(self.rq.hz) * 60;
        for domain in &self.rq.queues[cpu].domains {
            let busy = if idle == Idle::Tick { 1 } else { domain.rules.busy_factor };
            let longest = u64::from(self.rq.hz) * self.rq.queues.len() as u64 / 10;
            let interval =
                self.rq.ticks_of_ms(domain.interval.get() * busy).clamp(1, longest.max(1));
            let mut mine = true;
            if jiffies >= domain.last_balance.get() + interval {
                let (moved, was_mine) = self.load_balance(cpu, domain, idle);
                mine = was_mine;
                if moved {
                    idle = Idle::Not;
                }
                domain.last_balance.set(jiffies);
            }
            next = next.min(domain.last_balance.get() + interval);
            if !mine {
                break;
            }
        }
        self.rq.queues[cpu].next_balance.set(next);
    }

    /// One attempt at one level. Returns whether tasks moved, and whether `cpu` is the one to
    /// balance above, too.
    fn load_balance(&self, cpu: usize, domain: &Domain, idle: Idle) -> (bool, bool) {
        self.wakeups.bound_idle_scan(cpu);
        let found = self.busiest_group(cpu, domain, idle);
        let mine = !matches!(found, Busiest::NotMine);
        let busiest = match found {
            Busiest::Group(group, imbalance) => {
                self.busiest_queue(group, imbalance).map(|busiest| (busiest, imbalance))
            }
            _ => None,
        };
        let Some((busiest, imbalance)) = busiest.filter(|&(busiest, _)| busiest != cpu) else {
            domain.failed.set(0);
            domain.lengthen();
            return (false, mine);
        };
        let mut moved = 0;
        if self.rq.loads.running(busiest) > 1 {
            Smp::irq_save();
            let (low, high) = (cpu.min(busiest), cpu.max(busiest));
            self.rq.queues[low].lock.lock();
            self.rq.queues[high].lock.lock();
            let amount = self.task_weight(imbalance, cpu, busiest);
            moved = self.move_tasks(cpu, busiest, amount, domain);
            self.rq.queues[high].lock.unlock();
            self.rq.queues[low].lock.unlock();
            Smp::irq_restore(());
        }
        if moved > 0 {
            self.rq.count(|stats| stats.pulled_periodic += moved);
            domain.failed.set(0);
            domain.shorten();
            return (true, mine);
        }
        self.balance_failed(cpu, busiest, domain);
        (false, mine)
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
        if self.rq.loads.running(cpu) < 2 || to == cpu {
            return;
        }
        let span = self.rq.queues[to].domains.iter().find(|domain| domain.span.contains(&cpu));
        let Some(domain) = span else { return };
        self.rq.lock_second(cpu, to);
        let candidates = self.candidates(queue);
        let task = candidates.into_iter().find_map(|id| {
            let task = self.rq.tcb(id);
            let hot = !domain.moves_hot() && self.is_hot(&task);
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

    /// Fork and exec balancing: from the widest domain down, the idlest CPU of the idlest group.
    pub(crate) fn idlest_cpu(&self) -> usize {
        let mut cpu = Here::cpu();
        let levels = self.rq.queues[cpu].domains.len();
        for level in (0..levels).rev() {
            let Some(domain) = self.rq.queues[cpu].domains.get(level) else { continue };
            if let Some(group) = self.idlest_group(cpu, domain) {
                let weight = |&other: &usize| (self.rq.loads.weight(other), other != cpu, other);
                cpu = group.cpus.clone().min_by_key(weight).unwrap_or(cpu);
            }
        }
        cpu
    }

    fn idlest_group<'a>(&self, cpu: usize, domain: &'a Domain) -> Option<&'a Group> {
        let mut mine = 0;
        let mut best: Option<(u64, &Group)> = None;
        Here::pass(self.rq.costs.balance_cpu * domain.span.len() as u64);
        for group in &domain.groups {
            let local = group.cpus.contains(&cpu);
            let (loads, index) = (&self.rq.loads, domain.rules.forkexec_idx);
            let load =
                |cpu| if local { loads.source(cpu, index) } else { loads.target(cpu, index) };
            let load = group.cpus.clone().map(load).sum::<u64>() * 1024 / group.power;
            if local {
                mine = load;
            } else if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, group));
            }
        }
        let (least, group) = best?;
        (100 * mine >= domain.rules.half_imbalance() * least && mine > least).then_some(group)
    }
}

/// Load to move from `there` to `here`, or `None` when the two are balanced. `average` is that of
/// the domain.
fn imbalance(here: &Sums, there: &Sums, average: u64, pct: u64) -> Option<u64> {
    let max = there.load;
    if there.tasks == 0 || here.load >= max || here.load >= average || 100 * max <= pct * here.load
    {
        return None;
    }
    let mut per_task = there.weight / there.tasks;
    if there.spread {
        per_task = per_task.min(average);
    }
    if max <= per_task {
        return None;
    }
    let mut imbalance = 0;
    if max >= average {
        let pull = (max - average).min(max - per_task);
        imbalance = (pull * there.power).min((average - here.load) * here.power) / 1024;
    }
    if imbalance >= per_task {
        return Some(imbalance);
    }
    let mine = here.weight.checked_div(here.tasks);
    let factor = if mine.is_some_and(|mine| per_task > mine) { 1 } else { 2 };
    let mine = mine.unwrap_or(WEIGHT);
    if max - here.load + WEIGHT >= per_task * factor {
        return Some(per_task);
    }
    gains(here, there, per_task, mine).then_some(per_task)
}

/// Whether moving one task would raise the capacity in use.
fn gains(here: &Sums, there: &Sums, per_task: u64, mine: u64) -> bool {
    let now = there.power * per_task.min(there.load) + here.power * mine.min(here.load);
    let leaving = per_task * 1024 / there.power;
    let mut moved = 0;
    if there.load > leaving {
        moved += there.power * per_task.min(there.load - leaving);
    }
    let arriving = if there.load * there.power < per_task * 1024 {
        there.load * there.power / here.power
    } else {
        per_task * 1024 / here.power
    };
    moved += here.power * mine.min(here.load + arriving);
    moved / 1024 > now / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(tasks: u64) -> Sums {
        let load = tasks * WEIGHT;
        Sums { load, tasks, weight: load, spread: false, power: 1024 }
    }

    #[test]
    fn an_idle_cpu_takes_one_of_two() {
        // Loads (0, 2, 1, 1): average 1024, one task moves.
        assert_eq!(imbalance(&sums(0), &sums(2), 1024, 125), Some(1024));
    }

    #[test]
    fn a_queue_whose_average_shows_one_task_is_balanced() {
        // Two fresh tasks, but the index still reads one task's worth of load.
        let there = Sums { load: 1024, ..sums(2) };
        assert_eq!(imbalance(&sums(0), &there, 512, 125), None);
    }

    #[test]
    fn equal_groups_are_balanced() {
        assert_eq!(imbalance(&sums(2), &sums(2), 2048, 125), None);
    }
}
