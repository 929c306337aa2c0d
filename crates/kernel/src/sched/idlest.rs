//! Fork and exec balancing: the CPU with the least load.

use super::balance::Balancer;
use super::balance::rules::{Idlest, Imbalance};
use super::busiest::NODE_SPARE;
use super::domains::{Domain, Group, Power};
use super::entity::WEIGHT;
use super::tracked::Room;
use convoy_machine::Here;

/// What fork and exec compare of a group (`update_sg_wakeup_stats`).
#[derive(Clone, Copy, Debug)]
struct Sums {
    room: Room,
    tasks: u64,
    idle: u64,
    /// Utilisation, and load at a capacity of 1024.
    used: u64,
    load: u64,
}

impl Sums {
    /// The idler of two groups has the lesser rank.
    fn rank(&self) -> (Room, u64, u64) {
        match self.room {
            Room::Spare => (self.room, u64::MAX - self.idle, self.used),
            Room::Full | Room::Core | Room::Crowded => (self.room, self.load, 0),
        }
    }

    /// Whether a new task leaves this group for `other` at the level of `domain`.
    fn yields_to(&self, other: &Self, domain: &Domain) -> bool {
        if self.room != other.room {
            return self.room > other.room;
        }
        let nodes = domain.node_tasks > 0;
        if self.room == Room::Spare {
            let few = nodes && self.tasks < domain.node_tasks as u64;
            let stays = few && self.idle.abs_diff(other.idle) <= NODE_SPARE;
            return !stays && self.idle < other.idle;
        }
        let pct = domain.rules.imbalance_pct;
        let slack = WEIGHT * (pct - 100) / 100;
        let near = nodes && other.load + slack >= self.load;
        !near && other.load < self.load + slack && 100 * self.load > pct * other.load
    }
}

impl Balancer {
    /// Fork and exec balancing: from the widest domain down, the idlest CPU of the idlest group.
    /// `leaving` tasks of this CPU do not count where idle CPUs do: 1 for an exec.
    pub(crate) fn idlest_cpu(&self, leaving: u64) -> usize {
        let mut cpu = Here::cpu();
        let levels = self.rq.queues[cpu].domains.len();
        for level in (0..levels).rev() {
            let Some(domain) = self.rq.queues[cpu].domains.get(level) else { continue };
            if !domain.near {
                continue;
            }
            Here::pass(self.rq.costs.balance_cpu * domain.span.len() as u64);
            let (group, chosen) = match self.rules.idlest {
                Idlest::Load => {
                    (self.least_group(cpu, domain), Self::least_cpu as fn(_, _, _) -> _)
                }
                Idlest::IdleCpus => (self.idle_group(cpu, domain, leaving), Self::idle_cpu as _),
            };
            if let Some(group) = group {
                cpu = chosen(self, group, cpu);
            }
        }
        cpu
    }

    fn least_cpu(&self, group: &Group, cpu: usize) -> usize {
        let weight = |&other: &usize| (self.rq.loads.weight(other), other != cpu, other);
        group.cpus.clone().min_by_key(weight).unwrap_or(cpu)
    }

    /// Of the idle CPUs of `group` the one that went idle last, else the one with the least load.
    fn idle_cpu(&self, group: &Group, cpu: usize) -> usize {
        let idle = group.cpus.clone().filter(|&cpu| self.wakeups.is_idle(cpu));
        let since = |&cpu: &usize| (self.rq.queues[cpu].idle_since.get(), usize::MAX - cpu);
        idle.max_by_key(since).unwrap_or_else(|| match self.rules.imbalance {
            Imbalance::Tracked => self.least_average(group, cpu),
            _ => self.least_cpu(group, cpu),
        })
    }

    fn least_average(&self, group: &Group, cpu: usize) -> usize {
        let load = |&cpu: &usize| (self.rq.queues[cpu].normal.borrow().load_average(), cpu);
        group.cpus.clone().min_by_key(load).unwrap_or(cpu)
    }

    fn room_of(&self, group: &Group, pct: u64, leaving: u64) -> Sums {
        if self.rules.imbalance == Imbalance::Tracked {
            let sums = self.tracked(group, pct, leaving);
            let load = sums.scaled();
            return Sums {
                room: sums.room,
                tasks: sums.tasks,
                idle: sums.idle,
                used: sums.used,
                load,
            };
        }
        let (loads, cpus) = (&self.rq.loads, group.cpus.len() as u64);
        let here = Here::cpu();
        let own = if group.cpus.contains(&here) { leaving } else { 0 };
        let tasks = group.cpus.clone().map(|cpu| loads.running(cpu)).sum::<u64>() - own;
        let free = |cpu| {
            self.wakeups.is_idle(cpu) || (own > 0 && cpu == here && loads.running(cpu) == own)
        };
        let used = |cpu: usize| {
            let queue = &self.rq.queues[cpu];
            queue.normal.borrow().utilization(Here::now_ns(), !queue.is_idle())
        };
        let power: u64 = group.cpus.clone().map(|cpu| loads.power(cpu)).sum();
        let weight: u64 = group.cpus.clone().map(|cpu| loads.weight(cpu)).sum();
        Sums {
            room: match tasks {
                tasks if tasks < cpus => Room::Spare,
                tasks if tasks == cpus => Room::Full,
                _ => Room::Crowded,
            },
            tasks,
            idle: group.cpus.clone().filter(|&cpu| free(cpu)).count() as u64,
            used: group.cpus.clone().map(used).sum(),
            load: weight.saturating_sub(own * WEIGHT) * WEIGHT / power,
        }
    }

    /// [`Idlest::IdleCpus`]: the group with the most idle CPUs, unless the group of `cpu` has as
    /// many (`sched_balance_find_dst_group`).
    fn idle_group<'a>(&self, cpu: usize, domain: &'a Domain, leaving: u64) -> Option<&'a Group> {
        let mut mine = None;
        let mut best: Option<(Sums, &Group)> = None;
        for group in self.in_order(cpu, domain) {
            let sums = self.room_of(group, domain.rules.imbalance_pct, leaving);
            if group.cpus.contains(&cpu) {
                mine = Some(sums);
            } else if best.is_none_or(|(least, _)| sums.rank() < least.rank()) {
                best = Some((sums, group));
            }
        }
        let (least, group) = best?;
        mine?.yields_to(&least, domain).then_some(group)
    }

    /// Returns the group of `domain` with the least load, unless the group of `cpu` has only
    /// slightly more.
    fn least_group<'a>(&self, cpu: usize, domain: &'a Domain) -> Option<&'a Group> {
        let mut mine = 0;
        let mut best: Option<(u64, &Group)> = None;
        for group in self.in_order(cpu, domain) {
            let local = group.cpus.contains(&cpu);
            let (loads, index) = (&self.rq.loads, domain.rules.forkexec_idx);
            let load =
                |cpu| if local { loads.source(cpu, index) } else { loads.target(cpu, index) };
            let power = match self.power {
                Power::Cache => WEIGHT,
                Power::Cpus | Power::Threads => {
                    group.cpus.clone().map(|cpu| loads.power(cpu)).sum()
                }
            };
            let load = group.cpus.clone().map(load).sum::<u64>() * WEIGHT / power;
            if local {
                mine = load;
            } else if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, group));
            }
        }
        let (least, group) = best?;
        let leaves = mine > least || self.rules.fork_leaves;
        (leaves && 100 * mine >= domain.rules.half_imbalance() * least).then_some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::KernelPreset;
    use crate::sched::domains;
    use convoy_machine::Preset;

    fn node(tasks: u64, idle: u64) -> Sums {
        let room = [Room::Crowded, Room::Full, Room::Spare]
            [usize::from(tasks <= 16) + usize::from(tasks < 16)];
        Sums { room, tasks, idle, used: 0, load: tasks * WEIGHT / 16 }
    }

    #[test]
    fn a_few_tasks_stay_on_their_node_and_then_idle_cpus_decide() {
        let machine = Preset::named("xeon-64-2011").expect("a shipped preset");
        let kernel = KernelPreset::named("6.18").expect("a shipped preset");
        let domains = domains::build(&machine, &kernel.sched.domains, 0);
        let nodes = domains.last().expect("nodes");
        assert!(!node(1, 15).yields_to(&node(0, 16), nodes), "the first child stays");
        assert!(node(2, 14).yields_to(&node(0, 16), nodes));
        assert!(!node(5, 11).yields_to(&node(5, 11), nodes));
        assert!(node(16, 0).yields_to(&node(15, 1), nodes), "a full node has no room");
        assert!(!node(16, 0).yields_to(&node(16, 0), nodes));
        // Crowded ones by load, with a tolerance.
        assert!(!node(18, 0).yields_to(&node(17, 0), nodes));
        assert!(node(40, 0).yields_to(&node(17, 0), nodes));
        assert!(node(3, 4).rank() < node(3, 3).rank());
    }
}
