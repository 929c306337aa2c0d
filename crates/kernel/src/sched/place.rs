//! Where a woken task goes.
//!
//! Up to 2.6.26 a wakeup considers the task's last CPU and the waker's CPU and nothing else; an
//! idle CPU gets work only by pulling (`wake_affine` of 2.6.25). Later kernels first choose between
//! the two and then look for an idle CPU that shares a cache with the chosen one
//! (`select_idle_sibling`).

use super::balance::MIGRATION_COST_NS;
use super::entity::WEIGHT;
use super::era::{Placement, Synchronous};
use super::{Sched, Tcb};
use convoy_machine::Here;
use core::ops::Range;

/// Average over eight ticks: at 250 Hz the half-life of the utilization that the bound on the
/// search for an idle CPU is computed from.
const UTILIZATION_INDEX: usize = 4;
/// Tolerance, in percent, of the domain that the bound is computed for.
const SCAN_PCT: u64 = 117;

impl Sched {
    /// The CPU for a task that wakes up.
    pub(crate) fn select_cpu(&self, task: &Tcb, sync: bool) -> usize {
        let prev = task.cpu.get();
        if task.bound.get() {
            return prev;
        }
        let this = Here::cpu();
        if self.ablation.wake_any_idle
            && !self.queues[prev].is_idle()
            && let Some(cpu) = (0..self.queues.len()).find(|&cpu| self.is_idle_cpu(cpu))
        {
            return cpu;
        }
        let pulled = match self.era.placement {
            Placement::BoundedIdleSibling => self.wake_affine_idle(prev, this, task, sync),
            _ => prev != this && self.wake_affine(prev, this, task, sync),
        };
        let target = if pulled { this } else { prev };
        match self.era.placement {
            Placement::TwoCpus => target,
            Placement::IdleSibling => self.idle_sibling(target, prev, usize::MAX),
            Placement::BoundedIdleSibling => {
                let most = self.idle_scan[target / self.llc].get();
                self.idle_sibling(target, prev, most)
            }
        }
    }

    /// Nothing runs on `cpu` and nothing is queued there.
    pub(crate) fn is_idle_cpu(&self, cpu: usize) -> bool {
        self.queues[cpu].is_idle() && self.loads.running(cpu) == 0
    }

    /// Whether a wakeup may choose `cpu` because it idles. From 4.20 on (`available_idle_cpu`) an
    /// idle CPU from which the hypervisor has taken its processor (`vcpu_is_preempted`) does not
    /// count: what is put there does not run soon.
    fn is_available(&self, cpu: usize) -> bool {
        let trusts = self.era.placement != Placement::BoundedIdleSibling;
        self.is_idle_cpu(cpu) && (trusts || !self.is_halted(&self.queues[cpu]))
    }

    /// Whether the loads speak for the waker's CPU.
    fn wake_affine(&self, prev: usize, this: usize, task: &Tcb, sync: bool) -> bool {
        let domain = self.queues[this].domains.iter().find(|domain| domain.span.contains(&prev));
        let Some(domain) = domain else { return false };
        let loads = &self.loads;
        let index = domain.wake_idx;
        let load = loads.source(prev, index);
        let mut mine = loads.target(this, index);
        let waker = self.current();
        if sync {
            let brief = |tcb: &Tcb| tcb.entity.avg_overlap.get() < MIGRATION_COST_NS;
            let gathers = self.era.placement == Placement::TwoCpus
                && self.era.synchronous == Synchronous::Gathers;
            if gathers && brief(&waker) && brief(task) {
                return true;
            }
            mine = mine.saturating_sub(WEIGHT);
        }
        let average = loads.weight(this).checked_div(loads.running(this)).unwrap_or(WEIGHT);
        let fits = mine <= load && mine + loads.target(prev, index) <= average;
        fits || 100 * (mine + task.entity.weight()) <= domain.half_imbalance() * load
    }

    /// As of 4.14: an idle CPU of the two wins (`WA_IDLE`), else the loads of now decide
    /// (`WA_WEIGHT`; the kernel takes decaying averages).
    fn wake_affine_idle(&self, prev: usize, this: usize, task: &Tcb, sync: bool) -> bool {
        if prev == this {
            return true;
        }
        let domain = self.queues[this].domains.iter().find(|domain| domain.span.contains(&prev));
        let Some(domain) = domain else { return false };
        if self.is_available(this) && self.llc_of(this).contains(&prev) {
            return !self.is_available(prev);
        }
        if sync && self.loads.running(this) == 1 {
            return true;
        }
        if self.is_available(prev) {
            return false;
        }
        let mut mine = self.loads.weight(this);
        if sync {
            mine = mine.saturating_sub(self.current().entity.weight());
        }
        let theirs = domain.half_imbalance() * self.loads.weight(prev) + u64::from(sync);
        100 * (mine + task.entity.weight()) < theirs
    }

    /// CPUs that share a last-level cache with `cpu`.
    fn llc_of(&self, cpu: usize) -> Range<usize> {
        let start = cpu / self.llc * self.llc;
        start..(start + self.llc).min(self.queues.len())
    }

    /// `target` if it is idle, else `prev` if that is idle and near, else the first of at most
    /// `most` further CPUs around `target`, else `target`.
    fn idle_sibling(&self, target: usize, prev: usize, most: usize) -> usize {
        let near = self.llc_of(target);
        if self.is_available(target) {
            return target;
        }
        if near.contains(&prev) && self.is_available(prev) {
            return prev;
        }
        let bounded = self.era.placement == Placement::BoundedIdleSibling;
        let first = if bounded { target + 1 - near.start } else { 0 };
        let around = (0..near.len()).map(|step| near.start + (first + step) % near.len());
        for cpu in around.take(most) {
            Here::pass(self.costs.balance_cpu);
            if self.is_available(cpu) {
                return cpu;
            }
        }
        target
    }

    /// How many CPUs a wakeup may look at from now on (`SIS_UTIL`): fewer the busier the CPUs of a
    /// cache are, and none when all are.
    pub(crate) fn bound_idle_scan(&self, cpu: usize) {
        if self.era.placement != Placement::BoundedIdleSibling {
            return;
        }
        let near = self.llc_of(cpu);
        let cpus = near.len() as u64;
        let busy = |cpu| self.loads.target(cpu, UTILIZATION_INDEX).min(WEIGHT);
        let used = near.map(busy).sum::<u64>() / cpus;
        let penalty = used * used * SCAN_PCT * SCAN_PCT / (10_000 * WEIGHT);
        let scan = WEIGHT.saturating_sub(penalty) * cpus / WEIGHT;
        self.idle_scan[cpu / self.llc].set(scan as usize);
    }
}
