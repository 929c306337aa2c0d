//! From which group, and from which queue of it, a CPU pulls: `find_busiest_group`,
//! `find_busiest_queue` and relatives of 2.6.25, 2.6.32, 3.0, 3.7 and 6.18. Which of their rules a
//! kernel has, its preset says.

use super::balance::rules::{BalanceRules, GroupOrder, Imbalance, Siblings, Spread};
use super::balance::{Balancer, Busiest, Idle, Pull, Unit};
use super::domains::{Domain, Group, Power};
use super::entity::WEIGHT;
use super::idlers::IdleCause;
use convoy_machine::Here;

/// Sums over one group.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Load by the domain's index, then scaled to a capacity of 1024.
    load: u64,
    tasks: u64,
    weight: u64,
    /// The spread of its CPUs' loads is large enough to pull from it in any case.
    spread: bool,
    power: u64,
    /// Tasks that it runs at full speed, and whether there is room for one more.
    capacity: u64,
    room: bool,
    cpus: u64,
    /// CPUs that idle.
    idle: u64,
}

impl Sums {
    /// Load of one of its tasks.
    fn per_task(&self) -> u64 {
        self.weight.checked_div(self.tasks).unwrap_or(0)
    }
}

/// The CPUs of one group with the least and most of something.
struct Extremes {
    low: u64,
    high: u64,
    fewest: u64,
    most: u64,
    /// Tasks of the CPU with the highest load.
    tasks_of_high: u64,
}

impl Extremes {
    const NONE: Self = Self { low: u64::MAX, high: 0, fewest: u64::MAX, most: 0, tasks_of_high: 0 };

    fn see(&mut self, load: u64, tasks: u64) {
        if load > self.high {
            (self.high, self.tasks_of_high) = (load, tasks);
        }
        self.low = self.low.min(load);
        (self.fewest, self.most) = (self.fewest.min(tasks), self.most.max(tasks));
    }

    /// Returns whether the loads differ enough for the group to count as imbalanced in itself;
    /// `mean` is the load of one of its tasks.
    fn spread(&self, rule: Spread, mean: u64) -> bool {
        let gap = self.high - self.low.min(self.high);
        match rule {
            Spread::OneTask => gap > WEIGHT,
            Spread::TwoMeans => gap > 2 * mean,
            Spread::MeanOnCrowded => gap >= mean && self.tasks_of_high > 1,
            Spread::MeanAndTasks => gap >= mean && self.most - self.fewest.min(self.most) > 1,
            Spread::Never => false,
        }
    }
}

/// Data on which the comparison of two groups of one level depends.
pub(super) struct Level {
    pub(super) idle: Idle,
    /// Load of the domain, scaled to a capacity of 1024.
    pub(super) average: u64,
    pub(super) pct: u64,
    /// The groups share a cache.
    pub(super) shares_cache: bool,
    /// The level below spreads.
    pub(super) spreads: bool,
    /// See [`Domain::node_tasks`].
    pub(super) node_tasks: u64,
}

impl Balancer {
    fn sums(&self, group: &Group, index: usize, local: bool) -> Sums {
        let mut sums = Sums { cpus: group.cpus.len() as u64, ..Sums::default() };
        let mut extremes = Extremes::NONE;
        let loads = &self.rq.loads;
        for cpu in group.cpus.clone() {
            let load = if local { loads.target(cpu, index) } else { loads.source(cpu, index) };
            let tasks = loads.running(cpu);
            extremes.see(load, tasks);
            sums.load += load;
            sums.tasks += tasks;
            sums.weight += loads.weight(cpu);
            sums.power += loads.power(cpu);
            sums.idle += u64::from(self.wakeups.is_idle(cpu));
        }
        if self.power == Power::Cache {
            sums.power = WEIGHT;
        }
        Here::pass(self.rq.costs.balance_cpu * sums.cpus);
        sums.spread = extremes.spread(self.rules.spread, sums.per_task());
        sums.capacity = (sums.power + WEIGHT / 2) / WEIGHT;
        sums.room = sums.capacity > sums.tasks;
        sums
    }

    /// The groups of `domain` as `cpu` goes through them.
    pub(super) fn in_order<'a>(
        &self,
        cpu: usize,
        domain: &'a Domain,
    ) -> impl Iterator<Item = &'a Group> {
        let own = domain.groups.iter().position(|group| group.cpus.contains(&cpu)).unwrap_or(0);
        let first = if self.rules.group_order == GroupOrder::OwnFirst { own } else { 0 };
        domain.groups[first..].iter().chain(&domain.groups[..first])
    }

    pub(super) fn busiest_group<'a>(
        &self,
        cpu: usize,
        domain: &'a Domain,
        idle: Idle,
    ) -> Busiest<'a> {
        if self.rules.imbalance == Imbalance::Tracked {
            return self.tracked_group(cpu, domain, idle);
        }
        let index = match idle {
            Idle::Not => domain.rules.busy_idx,
            Idle::Tick => domain.rules.idle_idx,
            Idle::Newly => domain.rules.newidle_idx,
        };
        let (mut total, mut power) = (0, 0);
        let mut here = Sums { power: WEIGHT, ..Sums::default() };
        let mut busiest: Option<(&Group, Sums)> = None;
        for group in self.in_order(cpu, domain) {
            let local = group.cpus.contains(&cpu);
            if local && idle != Idle::Newly {
                self.rq.loads.update_power(cpu, Here::now_ns());
            }
            let mut sums = self.sums(group, index, local);
            if local && idle != Idle::Newly && self.balance_cpu(group) != cpu {
                return Busiest::Balanced(IdleCause::NotMine);
            }
            total += sums.load;
            power += sums.power;
            sums.load = sums.load * WEIGHT / sums.power;
            if local {
                here = sums;
                continue;
            }
            let clamps = match self.rules.siblings {
                Siblings::Ignored => false,
                Siblings::Always => domain.spreads,
                Siblings::WithRoom => domain.spreads && here.room,
            };
            if clamps {
                sums.capacity = sums.capacity.min(1);
            }
            if self.is_busier(&sums, busiest.as_ref().map(|(_, sums)| sums)) {
                busiest = Some((group, sums));
            }
        }
        let Some((group, there)) = busiest else {
            return Busiest::Balanced(IdleCause::NoBusyGroup);
        };
        let level = self.level(domain, idle, WEIGHT * total / power);
        let found = match self.rules.imbalance {
            Imbalance::LoadPerTask => load_per_task(&here, &there, &level),
            Imbalance::Tasks if here.room => tasks(&here, &there, &level),
            Imbalance::AboveCapacity | Imbalance::Tasks | Imbalance::Tracked => {
                above_capacity(&here, &there, &level, &self.rules)
            }
        };
        match found {
            Ok(amount) => Busiest::Group(group, Pull { unit: Unit::Weight, amount, one: false }),
            Err(cause) => Busiest::Balanced(cause),
        }
    }

    pub(super) fn level(&self, domain: &Domain, idle: Idle, average: u64) -> Level {
        Level {
            idle,
            average,
            pct: domain.rules.imbalance_pct,
            shares_cache: domain.span.len() <= self.wakeups.cache_cpus(),
            spreads: domain.spreads,
            node_tasks: domain.node_tasks as u64,
        }
    }

    /// Whether a remote group is busier than the busiest `so_far`.
    fn is_busier(&self, sums: &Sums, so_far: Option<&Sums>) -> bool {
        let crowded = sums.tasks > sums.capacity || sums.spread;
        if self.rules.imbalance != Imbalance::Tasks {
            return crowded && sums.load > so_far.map_or(0, |sums| sums.load);
        }
        // First those with more tasks than capacity, by load; then by how few CPUs idle.
        let rank = |sums: &Sums| {
            let crowded = sums.tasks > sums.capacity || sums.spread;
            (crowded, if crowded { sums.load } else { sums.cpus - sums.idle }, sums.tasks)
        };
        sums.tasks > 0 && so_far.is_none_or(|so_far| rank(sums) > rank(so_far))
    }

    /// The CPU of `group` that balances for it: its first idle one, else its first. From 6.6 on
    /// one whose core idles as a whole comes before (`should_we_balance`).
    pub(super) fn balance_cpu(&self, group: &Group) -> usize {
        let idle = |&cpu: &usize| self.wakeups.is_idle(cpu);
        let whole = |&cpu: &usize| self.wakeups.core_of(cpu).all(|cpu| idle(&cpu));
        let cores = matches!(self.rules.imbalance, Imbalance::Tasks | Imbalance::Tracked);
        let core = cores.then(|| group.cpus.clone().find(whole)).flatten();
        core.or_else(|| group.cpus.clone().find(idle)).unwrap_or(group.cpus.start)
    }

    pub(super) fn busiest_queue(&self, group: &Group, pull: Pull) -> Option<usize> {
        if pull.unit != Unit::Weight {
            return self.tracked_queue(group, pull);
        }
        let imbalance = pull.amount;
        let mut best = None;
        let mut max = 0;
        let loads = &self.rq.loads;
        for cpu in group.cpus.clone() {
            let weight = loads.weight(cpu);
            let scaled = match self.power {
                Power::Cache => weight,
                Power::Cpus | Power::Threads => weight * WEIGHT / loads.power(cpu),
            };
            if (loads.running(cpu) == 1 && weight > imbalance) || scaled <= max {
                continue;
            }
            max = scaled;
            best = Some(cpu);
        }
        best
    }
}

/// Load to move from `there` to `here`, or why nothing ([`Imbalance::AboveCapacity`]).
fn above_capacity(
    here: &Sums,
    there: &Sums,
    level: &Level,
    rules: &BalanceRules,
) -> Result<u64, IdleCause> {
    let (max, average) = (there.load, level.average);
    let forced = rules.newidle_force && level.idle == Idle::Newly;
    let forced = forced && here.room && !there.room;
    if !there.spread && !forced {
        if here.load >= max || here.load >= average {
            return Err(IdleCause::BelowAverage);
        }
        if rules.idle_counts && level.idle == Idle::Tick {
            if here.idle <= there.idle + 1 && there.tasks <= there.cpus {
                return Err(IdleCause::FewerIdle);
            }
        } else if 100 * max <= level.pct * here.load {
            return Err(IdleCause::Tolerated);
        }
    }
    let mut per_task = there.per_task();
    if there.spread {
        per_task = per_task.min(average);
    }
    if max >= average {
        let above = match there.tasks.checked_sub(there.capacity) {
            Some(above) if !there.spread => above * WEIGHT * WEIGHT / there.power,
            _ => u64::MAX,
        };
        let pull = (max - average).min(above) * there.power;
        // Forced, a group above the mean takes all that the busiest has to give.
        let room = average.checked_sub(here.load).map_or(u64::MAX, |room| room * here.power);
        let imbalance = pull.min(room) / WEIGHT;
        if imbalance >= per_task {
            return Ok(imbalance);
        }
    }
    one_task(here, there, per_task)
}

/// One task, when moving it would not just turn the imbalance round (`fix_small_imbalance`).
fn one_task(here: &Sums, there: &Sums, per_task: u64) -> Result<u64, IdleCause> {
    let mine = here.per_task();
    let factor = if here.tasks > 0 && per_task > mine { 1 } else { 2 };
    let scaled = per_task * WEIGHT / there.power;
    // Computed without a sign: a local load that is greater passes.
    let passes =
        (there.load + scaled).checked_sub(here.load).is_none_or(|it| it >= scaled * factor);
    if passes || gains(here, there, per_task, mine) {
        return Ok(per_task);
    }
    Err(IdleCause::TooSmall)
}

/// Load to move from `there` to `here`, or why nothing ([`Imbalance::LoadPerTask`]).
fn load_per_task(here: &Sums, there: &Sums, level: &Level) -> Result<u64, IdleCause> {
    let (max, average) = (there.load, level.average);
    if there.tasks == 0 || here.load >= max || here.load >= average {
        return Err(IdleCause::BelowAverage);
    }
    if 100 * max <= level.pct * here.load {
        return Err(IdleCause::Tolerated);
    }
    let mut per_task = there.per_task();
    if there.spread {
        per_task = per_task.min(average);
    }
    if max <= per_task {
        return Err(IdleCause::TooSmall);
    }
    let mut imbalance = 0;
    if max >= average {
        let pull = (max - average).min(max - per_task);
        imbalance = (pull * there.power).min((average - here.load) * here.power) / WEIGHT;
    }
    if imbalance >= per_task {
        return Ok(imbalance);
    }
    let mine = here.weight.checked_div(here.tasks);
    let factor = if mine.is_some_and(|mine| per_task > mine) { 1 } else { 2 };
    let mine = mine.unwrap_or(WEIGHT);
    if max - here.load + WEIGHT >= per_task * factor || gains(here, there, per_task, mine) {
        return Ok(per_task);
    }
    Err(IdleCause::TooSmall)
}

/// Weight of the tasks to move from `there` to `here`, which has room, or why nothing
/// ([`Imbalance::Tasks`]).
fn tasks(here: &Sums, there: &Sums, level: &Level) -> Result<u64, IdleCause> {
    let crowded = there.tasks > there.capacity;
    // Only an idle CPU spreads tasks over siblings (`sibling_imbalance`).
    let busy = level.idle == Idle::Not;
    let more = if busy { 0 } else { there.tasks.saturating_sub(here.tasks) };
    let sibling = level.spreads && more > 1;
    if !crowded && !sibling {
        if busy {
            return Err(IdleCause::Tolerated);
        }
        if there.cpus > 1 && here.idle <= there.idle + 1 {
            return Err(IdleCause::FewerIdle);
        }
        if there.tasks <= 1 {
            return Err(IdleCause::TooSmall);
        }
    }
    if crowded && !level.shares_cache {
        return Ok((here.capacity - here.tasks) * WEIGHT);
    }
    let by_idle = there.cpus > 1 && !level.spreads;
    let mut gap = if by_idle { here.idle.saturating_sub(there.idle) } else { more };
    // A few tasks that belong together may stay on one node (`adjust_numa_imbalance`).
    if here.tasks < level.node_tasks && gap <= NODE_SPARE {
        gap = 0;
    }
    let number = gap / 2;
    if number == 0 { Err(IdleCause::TooSmall) } else { Ok(number * WEIGHT) }
}

/// A node may have this many more tasks than another node while the other is nearly idle
/// (`NUMA_IMBALANCE_MIN`).
pub(super) const NODE_SPARE: u64 = 2;

/// Whether moving one task would raise the capacity in use.
fn gains(here: &Sums, there: &Sums, per_task: u64, mine: u64) -> bool {
    let now = there.power * per_task.min(there.load) + here.power * mine.min(here.load);
    let leaving = per_task * WEIGHT / there.power;
    let mut moved = 0;
    if there.load > leaving {
        moved += there.power * per_task.min(there.load - leaving);
    }
    let arriving = if there.load * there.power < per_task * WEIGHT {
        there.load * there.power / here.power
    } else {
        per_task * WEIGHT / here.power
    };
    moved += here.power * mine.min(here.load + arriving);
    moved / WEIGHT > now / WEIGHT
}

#[cfg(test)]
mod tests;
