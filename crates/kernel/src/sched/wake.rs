//! Wakeups: where a woken task goes, its place in the queue, and whether the running task is
//! preempted.
//!
//! A wakeup first chooses between the task's last CPU and the waker's ([`Affine`]). Up to 2.6.26
//! that is all, and an idle CPU gets work only by pulling. Later kernels then look for an idle CPU
//! that shares a cache with the chosen one ([`Placement`]).

use super::entity::WEIGHT;
use super::normal::Enqueue;
use super::queue::{MIGRATION_COST_NS, RunQueues};
use super::task::{State, Tcb};
use super::{record, rt_move};
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock};
use core::cell::Cell;
use core::ops::Range;
use schemars::JsonSchema;
use serde::Deserialize;
use std::rc::Rc;

/// Which CPUs a wakeup considers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The task's last CPU and the waker's (2.6.16 to 2.6.31).
    TwoCpus,
    /// The same, and then an idle CPU that shares a cache with the chosen one
    /// (`select_idle_sibling`, from 2.6.32 on).
    IdleSibling,
    /// The same, but the search is bounded by how busy the CPUs that share the cache are
    /// (`SIS_UTIL`, from 5.19 on).
    BoundedIdleSibling,
    /// Any idle CPU, unless the task's last one idles; without one, as `two-cpus`. No kernel does
    /// this.
    AnyIdle,
}

/// How a wakeup chooses between the task's last CPU and the waker's (`wake_affine`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Affine {
    /// By their loads (2.6.25).
    Load,
    /// An idle one of the two wins (`WA_IDLE`), else the loads of now decide (`WA_WEIGHT`, from
    /// 4.14 on).
    Idle,
}

/// What a wakeup does when the waker says that it is about to sleep. In each the load of the
/// waker's CPU counts without the waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncWakeup {
    /// On the waker's own CPU it does not preempt the waker (2.6.23).
    NoPreempt,
    /// It preempts as any other, and a task that only ever runs briefly, woken by another such one,
    /// comes to the waker's CPU (2.6.25; here from 2.6.24 on, and in 2.6.16).
    Affine,
    /// It preempts as any other (from 2.6.32 on).
    Load,
}

/// Rules of wakeups, `[sched.wake]`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WakeRules {
    /// Which CPUs it considers.
    pub placement: Placement,
    /// How it chooses between the task's last CPU and the waker's.
    pub affine: Affine,
    /// What it does when the waker says that it is about to sleep.
    pub sync: SyncWakeup,
    /// An idle CPU from which the hypervisor has taken its processor does not count as idle:
    /// what is put there does not run soon (`vcpu_is_preempted`, from 4.20 on).
    pub avoid_halted: bool,
}

/// Average over eight ticks: at 250 Hz the half-life of the utilization that the bound on the
/// search for an idle CPU is computed from.
const UTILIZATION_INDEX: usize = 4;
/// Tolerance, in percent, of the domain that the bound is computed for.
const SCAN_PCT: u64 = 117;

/// Wakes tasks.
pub(crate) struct Wakeups {
    rq: Rc<RunQueues>,
    rules: WakeRules,
    /// CPUs of one last-level cache, and how many of them a wakeup may look at, for each cache.
    llc: usize,
    idle_scan: Vec<Cell<usize>>,
}

impl Wakeups {
    /// The wakeups of a machine whose caches have `llc` CPUs each.
    pub(crate) fn new(rq: Rc<RunQueues>, rules: WakeRules, llc: usize) -> Self {
        let caches = rq.queues.len().div_ceil(llc);
        Self { rq, rules, llc, idle_scan: vec![Cell::new(llc); caches] }
    }

    /// Makes `task` runnable; whether it was asleep.
    pub(crate) fn try_to_wake_up(&self, task: &Rc<Tcb>, sync: bool) -> bool {
        Smp::irq_save();
        let mut queue = self.rq.lock_queue_of(task);
        Here::pass(self.rq.costs.wake);
        let sleeps = || matches!(task.state.get(), State::Asleep(_));
        if sleeps() && !task.entity.on_queue.get() {
            // A task that is still leaving its CPU, whose queue was unlocked to balance, stays
            // there (`task_running` in `try_to_wake_up`): elsewhere two CPUs could run it.
            let leaving = task.on_cpu.get();
            let target = if leaving { task.cpu.get() } else { self.place(task, sync) };
            if target != task.cpu.get() {
                let old = queue;
                self.rq.change_cpu(task, old, target);
                old.lock.unlock();
                queue = self.rq.lock_queue_of(task);
                self.rq.count(|stats| stats.wakeups_moved += 1);
            }
        }
        // Another waker may have come first while no queue was locked.
        let asleep = sleeps();
        let delayed = task.entity.eevdf.delayed();
        if asleep && (delayed || !task.entity.on_queue.get()) {
            self.rq.count(|stats| stats.wakeups += 1);
            self.rq.load_average.note_wakeup(task);
            let me = self.rq.current();
            me.entity.last_wakeup.set(me.entity.sum_exec.get());
            if delayed {
                self.rq.requeue(queue, task);
            } else {
                self.rq.enqueue(queue, task, Enqueue::Woken);
                queue.end_idle();
            }
        }
        if asleep {
            record::wake(task);
            task.state.set(State::Running);
            let waits = sync && self.rules.sync == SyncWakeup::NoPreempt;
            if !waits || task.cpu.get() != Here::cpu() {
                self.rq.check_preempt(task.cpu.get(), task);
            }
            rt_move::woken(&self.rq, queue, task);
        }
        queue.lock.unlock();
        Smp::irq_restore(());
        asleep
    }

    fn place(&self, task: &Tcb, sync: bool) -> usize {
        match task.rt_priority() {
            Some(_) => rt_move::select_cpu(&self.rq, task),
            None => self.select_cpu(task, sync),
        }
    }

    /// The CPU for a task that wakes up.
    fn select_cpu(&self, task: &Tcb, sync: bool) -> usize {
        let prev = task.cpu.get();
        if task.bound.get() {
            return prev;
        }
        let this = Here::cpu();
        let placement = self.rules.placement;
        if placement == Placement::AnyIdle
            && !self.rq.queues[prev].is_idle()
            && let Some(cpu) = (0..self.rq.queues.len()).find(|&cpu| self.rq.is_idle_cpu(cpu))
        {
            return cpu;
        }
        let pulled = prev == this
            || match self.rules.affine {
                Affine::Load => self.wake_affine(prev, this, task, sync),
                Affine::Idle => self.wake_affine_idle(prev, this, task, sync),
            };
        let target = if pulled { this } else { prev };
        match placement {
            Placement::TwoCpus | Placement::AnyIdle => target,
            Placement::IdleSibling => self.idle_sibling(target, prev, usize::MAX),
            Placement::BoundedIdleSibling => {
                let most = self.idle_scan[target / self.llc].get();
                self.idle_sibling(target, prev, most)
            }
        }
    }

    /// Whether a wakeup may choose `cpu` because it idles (`available_idle_cpu`).
    fn is_available(&self, cpu: usize) -> bool {
        let avoids = self.rules.avoid_halted;
        self.rq.is_idle_cpu(cpu) && !(avoids && self.rq.is_halted(&self.rq.queues[cpu]))
    }

    /// Whether the loads speak for the waker's CPU.
    fn wake_affine(&self, prev: usize, this: usize, task: &Tcb, sync: bool) -> bool {
        let domain = self.rq.queues[this].domains.iter().find(|domain| domain.span.contains(&prev));
        let Some(domain) = domain else { return false };
        let loads = &self.rq.loads;
        let index = domain.rules.wake_idx;
        let load = loads.source(prev, index);
        let mut mine = loads.target(this, index);
        let waker = self.rq.current();
        if sync {
            let brief = |tcb: &Tcb| tcb.entity.avg_overlap.get() < MIGRATION_COST_NS;
            if self.rules.sync == SyncWakeup::Affine && brief(&waker) && brief(task) {
                return true;
            }
            mine = mine.saturating_sub(WEIGHT);
        }
        let average = loads.weight(this).checked_div(loads.running(this)).unwrap_or(WEIGHT);
        let fits = mine <= load && mine + loads.target(prev, index) <= average;
        fits || 100 * (mine + task.entity.weight()) <= domain.rules.half_imbalance() * load
    }

    /// [`Affine::Idle`]; for the loads the kernel takes decaying averages.
    fn wake_affine_idle(&self, prev: usize, this: usize, task: &Tcb, sync: bool) -> bool {
        let domain = self.rq.queues[this].domains.iter().find(|domain| domain.span.contains(&prev));
        let Some(domain) = domain else { return false };
        if self.is_available(this) && self.llc_of(this).contains(&prev) {
            return !self.is_available(prev);
        }
        if sync && self.rq.loads.running(this) == 1 {
            return true;
        }
        if self.is_available(prev) {
            return false;
        }
        let mut mine = self.rq.loads.weight(this);
        if sync {
            mine = mine.saturating_sub(self.rq.current().entity.weight());
        }
        let theirs = domain.rules.half_imbalance() * self.rq.loads.weight(prev) + u64::from(sync);
        100 * (mine + task.entity.weight()) < theirs
    }

    /// CPUs that share a last-level cache with `cpu`.
    fn llc_of(&self, cpu: usize) -> Range<usize> {
        let start = cpu / self.llc * self.llc;
        start..(start + self.llc).min(self.rq.queues.len())
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
        let bounded = self.rules.placement == Placement::BoundedIdleSibling;
        let first = if bounded { target + 1 - near.start } else { 0 };
        let around = (0..near.len()).map(|step| near.start + (first + step) % near.len());
        for cpu in around.take(most) {
            Here::pass(self.rq.costs.balance_cpu);
            if self.is_available(cpu) {
                return cpu;
            }
        }
        target
    }

    /// How many CPUs a wakeup may look at from now on (`SIS_UTIL`): fewer the busier the CPUs of a
    /// cache are, and none when all are.
    pub(crate) fn bound_idle_scan(&self, cpu: usize) {
        if self.rules.placement != Placement::BoundedIdleSibling {
            return;
        }
        let near = self.llc_of(cpu);
        let cpus = near.len() as u64;
        let busy = |cpu| self.rq.loads.target(cpu, UTILIZATION_INDEX).min(WEIGHT);
        let used = near.map(busy).sum::<u64>() / cpus;
        let penalty = used * used * SCAN_PCT * SCAN_PCT / (10_000 * WEIGHT);
        let scan = WEIGHT.saturating_sub(penalty) * cpus / WEIGHT;
        self.idle_scan[cpu / self.llc].set(scan as usize);
    }
}
