//! Fork and exec balancing: the CPU with the least load.

use super::balance::Balancer;
use super::domains::{Domain, Group, Power};
use super::entity::WEIGHT;
use convoy_machine::Here;

impl Balancer {
    /// Fork and exec balancing: from the widest domain down, the idlest CPU of the idlest group.
    pub(crate) fn idlest_cpu(&self) -> usize {
        let mut cpu = Here::cpu();
        let levels = self.rq.queues[cpu].domains.len();
        for level in (0..levels).rev() {
            let Some(domain) = self.rq.queues[cpu].domains.get(level) else { continue };
            if !domain.near {
                continue;
            }
            if let Some(group) = self.idlest_group(cpu, domain) {
                let weight = |&other: &usize| (self.rq.loads.weight(other), other != cpu, other);
                cpu = group.cpus.clone().min_by_key(weight).unwrap_or(cpu);
            }
        }
        cpu
    }

    /// Returns the group of `domain` with the least load, unless the group of `cpu` has only
    /// slightly more.
    fn idlest_group<'a>(&self, cpu: usize, domain: &'a Domain) -> Option<&'a Group> {
        let mut mine = 0;
        let mut best: Option<(u64, &Group)> = None;
        Here::pass(self.rq.costs.balance_cpu * domain.span.len() as u64);
        for group in &domain.groups {
            let local = group.cpus.contains(&cpu);
            let (loads, index) = (&self.rq.loads, domain.rules.forkexec_idx);
            let load =
                |cpu| if local { loads.source(cpu, index) } else { loads.target(cpu, index) };
            let power = match self.power {
                Power::Cache => WEIGHT,
                Power::Cpus => group.cpus.clone().map(|cpu| loads.power(cpu)).sum(),
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
