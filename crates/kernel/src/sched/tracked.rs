//! Balancing by decaying averages: from which group a CPU pulls, and how much
//! (`find_busiest_group`, `calculate_imbalance` and `find_busiest_queue` of 6.18).
//!
//! A group is *crowded* if it has more tasks than CPUs, and its tasks have run for as long as its
//! CPUs can or have waited for them. How long they ran is its *utilisation*, how long they were
//! runnable its load; at nice 0 that is also `runnable_avg`.

use super::balance::{Balancer, Busiest, Idle, Pull, Unit};
use super::busiest::{Level, NODE_SPARE};
use super::domains::{Domain, Group};
use super::entity::WEIGHT;
use super::idlers::IdleCause;
use convoy_machine::Here;

/// How much room a group has, most first (`enum group_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Room {
    Spare,
    Full,
    /// The threads of a core share it among several tasks, and an idle CPU asks.
    Core,
    Crowded,
}

/// Sums over one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) room: Room,
    pub(super) tasks: u64,
    pub(super) cpus: u64,
    pub(super) idle: u64,
    power: u64,
    /// Averages of the weight of runnable tasks and of the time in which tasks ran.
    load: u64,
    pub(super) used: u64,
}

impl Sums {
    /// Load at a capacity of 1024.
    pub(super) fn scaled(&self) -> u64 {
        self.load * WEIGHT / self.power
    }

    /// The room by the averages, with the tolerance `pct` (`group_classify`).
    fn classify(&mut self, pct: u64) {
        let waits = self.power * pct < self.load * 100;
        let busy = self.power * 100 < self.used * pct;
        let busy_or_even = self.power * 100 <= self.used * pct;
        self.room = match () {
            () if self.tasks > self.cpus && (busy || waits) => Room::Crowded,
            () if self.tasks >= self.cpus && (waits || busy_or_even) => Room::Full,
            () => Room::Spare,
        };
    }

    /// Whether this group is busier than `other` (`update_sd_pick_busiest`).
    fn is_busier(&self, other: &Self) -> bool {
        if self.room != other.room {
            return self.room > other.room;
        }
        match self.room {
            Room::Crowded => self.scaled() > other.scaled(),
            Room::Full => self.scaled() >= other.scaled(),
            Room::Core if self.idle == 0 && other.idle == 0 => self.scaled() >= other.scaled(),
            Room::Core | Room::Spare => {
                (other.idle, self.tasks) > (self.idle, other.tasks) && self.idle <= other.idle
            }
        }
    }
}

impl Balancer {
    /// The sums of `group`; `leaving` tasks of this CPU, which run, do not count.
    pub(super) fn tracked(&self, group: &Group, pct: u64, leaving: u64) -> Sums {
        let (loads, now, here) = (&self.rq.loads, Here::now_ns(), Here::cpu());
        let (mut tasks, mut idle, mut power, mut load, mut used) = (0, 0, 0, 0, 0);
        for cpu in group.cpus.clone() {
            let queue = &self.rq.queues[cpu];
            let normal = queue.normal.borrow();
            let own = if cpu == here { leaving } else { 0 };
            tasks += loads.running(cpu) - own;
            idle += u64::from(self.wakeups.is_idle(cpu) || own > 0 && loads.running(cpu) == own);
            power += loads.power(cpu);
            let mut mine = (normal.load_average(), normal.utilization(now, !queue.is_idle()));
            if own > 0 {
                let share = &self.rq.current().entity.eevdf;
                mine.0 = mine.0.saturating_sub(share.load.get().get());
                mine.1 = mine.1.saturating_sub(share.used.get().get());
            }
            load += mine.0;
            used += mine.1;
        }
        let cpus = group.cpus.len() as u64;
        let mut sums = Sums { room: Room::Spare, tasks, cpus, idle, power, load, used };
        sums.classify(pct);
        sums
    }

    pub(super) fn tracked_group<'a>(
        &self,
        cpu: usize,
        domain: &'a Domain,
        idle: Idle,
    ) -> Busiest<'a> {
        let (mut total, mut power) = (0, 0);
        let mut here = None;
        let mut busiest: Option<(&Group, Sums)> = None;
        for group in self.in_order(cpu, domain) {
            let local = group.cpus.contains(&cpu);
            if local && idle != Idle::Newly {
                self.rq.loads.update_power(cpu, Here::now_ns());
                if self.balance_cpu(group) != cpu {
                    return Busiest::Balanced(IdleCause::NotMine);
                }
            }
            Here::pass(self.rq.costs.balance_cpu * group.cpus.len() as u64);
            let mut sums = self.tracked(group, domain.rules.imbalance_pct, 0);
            let core = sums.cpus > 1 && group.cpus == self.wakeups.core_of(group.cpus.start);
            if core && !local && idle != Idle::Not && sums.tasks > 1 && sums.room < Room::Crowded {
                sums.room = Room::Core;
            }
            total += sums.load;
            power += sums.power;
            if local {
                here = Some(sums);
            } else if sums.tasks > 0 && busiest.is_none_or(|(_, most)| sums.is_busier(&most)) {
                busiest = Some((group, sums));
            }
        }
        let (Some(here), Some((group, there))) = (here, busiest) else {
            return Busiest::Balanced(IdleCause::NoBusyGroup);
        };
        let level = self.level(domain, idle, WEIGHT * total / power);
        match imbalance(&here, &there, &level) {
            Ok(pull) => Busiest::Group(group, pull),
            Err(cause) => Busiest::Balanced(cause),
        }
    }

    /// The queue of `group` with the most of what `pull` moves.
    pub(super) fn tracked_queue(&self, group: &Group, pull: Pull) -> Option<usize> {
        let (loads, now) = (&self.rq.loads, Here::now_ns());
        let mut best = None;
        let mut most = 0;
        for cpu in group.cpus.clone() {
            let (tasks, queue) = (loads.running(cpu), &self.rq.queues[cpu]);
            let normal = queue.normal.borrow();
            let amount = match pull.unit {
                Unit::Load => normal.load_average(),
                Unit::Utilization => normal.utilization(now, !queue.is_idle()),
                Unit::Tasks | Unit::Weight => tasks,
            };
            let single = match pull.unit {
                Unit::Load => tasks == 1 && amount > pull.amount,
                Unit::Utilization => tasks <= 1,
                Unit::Tasks | Unit::Weight => false,
            };
            let scaled = match pull.unit {
                Unit::Load => amount * WEIGHT / loads.power(cpu),
                _ => amount,
            };
            if tasks > 0 && !single && scaled > most {
                (best, most) = (Some(cpu), scaled);
            }
        }
        best
    }
}

/// What to move from `there` to `here`, or why nothing.
fn imbalance(here: &Sums, there: &Sums, level: &Level) -> Result<Pull, IdleCause> {
    let busy = level.idle == Idle::Not;
    if here.room > there.room {
        return Err(IdleCause::BelowAverage);
    }
    // Only an idle CPU spreads tasks over siblings (`sibling_imbalance`).
    let more = if busy { 0 } else { there.tasks.saturating_sub(here.tasks) };
    let sibling = level.spreads && here.room == Room::Spare && more > 1;
    if there.room != Room::Crowded && !sibling {
        if busy {
            return Err(IdleCause::Tolerated);
        }
        if there.cpus > 1 && here.idle <= there.idle + 1 {
            return Err(IdleCause::FewerIdle);
        }
        if there.tasks == 1 {
            return Err(IdleCause::TooSmall);
        }
    }
    if there.room == Room::Core {
        return pull(Unit::Tasks, 1);
    }
    if here.room == Room::Spare {
        return fill(here, there, level, more);
    }
    let (mine, theirs) = (here.scaled(), there.scaled());
    if mine >= theirs || mine >= level.average {
        return Err(IdleCause::BelowAverage);
    }
    if here.room == Room::Crowded && 100 * theirs <= level.pct * mine {
        return Err(IdleCause::Tolerated);
    }
    let above = theirs.saturating_sub(level.average) * there.power;
    let below = (level.average - mine) * here.power;
    pull(Unit::Load, above.min(below) / WEIGHT)
}

/// What to move to `here`, which has room; `more` tasks are on a sibling of the same size.
fn fill(here: &Sums, there: &Sums, level: &Level, more: u64) -> Result<Pull, IdleCause> {
    if there.room > Room::Full && !level.shares_cache {
        let left = here.power.saturating_sub(here.used);
        if left == 0 && level.idle != Idle::Not {
            return pull(Unit::Tasks, 1);
        }
        return pull(Unit::Utilization, left);
    }
    let by_tasks = there.cpus == 1 || level.spreads;
    let mut gap = if by_tasks { more } else { here.idle.saturating_sub(there.idle) };
    // A few tasks that belong together may stay on one node (`adjust_numa_imbalance`).
    if here.tasks < level.node_tasks && gap <= NODE_SPARE {
        gap = 0;
    }
    pull(Unit::Tasks, gap / 2)
}

fn pull(unit: Unit, amount: u64) -> Result<Pull, IdleCause> {
    if amount == 0 { Err(IdleCause::TooSmall) } else { Ok(Pull { unit, amount, one: false }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group of 8 CPUs, each with the averages `load` and `used`.
    fn group(tasks: u64, idle: u64, load: u64, used: u64) -> Sums {
        let (cpus, power) = (8, 8 * WEIGHT);
        let (load, used) = (8 * load, 8 * used);
        let mut sums = Sums { room: Room::Spare, tasks, cpus, idle, power, load, used };
        sums.classify(117);
        sums
    }

    fn level(idle: Idle, shares_cache: bool) -> Level {
        Level { idle, average: 1000, pct: 117, shares_cache, spreads: false, node_tasks: 0 }
    }

    #[test]
    fn a_group_is_crowded_when_its_tasks_have_run_or_waited_for_long() {
        assert_eq!(group(7, 1, 4000, 1024).room, Room::Spare, "fewer tasks than CPUs");
        assert_eq!(group(9, 0, 100, 100).room, Room::Spare, "they have only just come");
        assert_eq!(group(9, 0, 1300, 500).room, Room::Crowded, "they wait");
        assert_eq!(group(9, 0, 900, 900).room, Room::Crowded, "they run");
        assert_eq!(group(8, 0, 900, 900).room, Room::Full);
    }

    #[test]
    fn between_caches_a_group_with_room_takes_utilisation_and_within_one_tasks() {
        let (here, there) = (group(2, 6, 200, 200), group(20, 0, 2400, 1024));
        let far = imbalance(&here, &there, &level(Idle::Tick, false)).unwrap();
        assert_eq!((far.unit, far.amount), (Unit::Utilization, 8 * (1024 - 200)));
        let near = imbalance(&here, &there, &level(Idle::Tick, true)).unwrap();
        assert_eq!((near.unit, near.amount), (Unit::Tasks, 3));
    }

    #[test]
    fn crowded_groups_level_their_loads_with_a_tolerance() {
        let there = group(20, 0, 2000, 1024);
        let busy = level(Idle::Not, false);
        let much = imbalance(&group(9, 0, 900, 1000), &there, &busy).unwrap();
        assert_eq!((much.unit, much.amount), (Unit::Load, 8 * 100));
        let even = Level { average: 2500, ..busy };
        let near = imbalance(&group(16, 0, 1900, 1024), &there, &even);
        assert_eq!(near.err(), Some(IdleCause::Tolerated));
        let more = imbalance(&group(16, 0, 2100, 1024), &there, &level(Idle::Not, false));
        assert_eq!(more.err(), Some(IdleCause::BelowAverage));
    }
}
