//! Wakeups: where a woken task goes, its place in the queue, and whether the running task is
//! preempted.
//!
//! A wakeup first chooses between the task's last CPU and the waker's ([`Affine`]). Up to 2.6.26
//! that is all, and an idle CPU gets work only by pulling. Later kernels then look for an idle CPU
//! that shares a cache with the chosen one ([`Placement`]).

use super::domains::Domain;
use super::entity::WEIGHT;
use super::idlers::IdleCause;
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
    /// The same, but the first level that prefers siblings and has an empty CPU decides which CPU
    /// replaces the waker's: the task's last one if it is empty and of that level, else the first
    /// empty one (2.6.32.2 to 2.6.32.21).
    EmptyForWaker,
    /// The same two, and then the first idle CPU of the chosen one's core, and of its cache unless
    /// that core holds both (`select_idle_sibling`, 2.6.36 to 3.2).
    IdleSibling,
    /// The same two, and then the first core of the chosen one's cache that idles as a whole, or
    /// an idle thread of its core (from 3.3 on).
    IdleCore,
    /// The same, but the search is bounded by how busy the CPUs that share the cache are
    /// (`SIS_UTIL`, from 5.19 on).
    BoundedIdleSibling,
    /// As `bounded-idle-sibling`, but the CPU of the task's last wakeup but one comes before the
    /// search; while a core of the cache idles as a whole it is searched for, without a bound, and
    /// otherwise the threads of the last CPU's core come first (6.18).
    BoundedIdleCore,
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
    /// An idle one of the two wins (`WA_IDLE`), else decaying averages of their loads decide
    /// (`WA_WEIGHT`, from 4.14 on), which only the class `eevdf` keeps.
    Idle,
}

/// Behaviour of a wakeup when the waker announces that it is about to sleep. In each the load of
/// the waker's CPU counts without the waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncWakeup {
    /// On the waker's own CPU it does not preempt the waker (2.6.23).
    NoPreempt,
    /// It preempts like any other, and a short-running task woken by another short-running task
    /// moves to the waker's CPU (2.6.25; here from 2.6.24 on, and in 2.6.16).
    Affine,
    /// It preempts as any other (from 2.6.35 on).
    Load,
    /// The same, and it is an ordinary wakeup unless both tasks only ever run briefly (2.6.32 to
    /// 2.6.34).
    IfBrief,
}

/// When a wakeup or the balancer takes a CPU for idle (`idle_cpu`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleTest {
    /// Its idle task runs and nothing is queued there (from 3.2 on).
    Queue,
    /// Its idle task runs, so wakeups stack on a CPU that has not noticed the first one yet (up to
    /// 3.1).
    #[default]
    Running,
}

/// Rules of wakeups, `[sched.wake]`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WakeRules {
    /// Which CPUs it considers.
    pub placement: Placement,
    /// How it chooses between the task's last CPU and the waker's.
    pub affine: Affine,
    /// Behaviour when the waker announces that it is about to sleep.
    pub sync: SyncWakeup,
    /// An idle CPU that the hypervisor has preempted does not count as idle: a task placed there
    /// would not run soon (`vcpu_is_preempted`, from 4.20 on).
    pub avoid_halted: bool,
    /// When it, and the balancer, takes a CPU for idle.
    #[serde(default)]
    pub idle_test: IdleTest,
}

/// Tolerance, in percent, of the domain that the bound is computed for.
const SCAN_PCT: u64 = 117;

/// Wakes tasks.
pub(crate) struct Wakeups {
    rq: Rc<RunQueues>,
    rules: WakeRules,
    /// CPUs of one last-level cache, and the number of them that a wakeup may check, for each
    /// cache.
    llc: usize,
    idle_scan: Vec<Cell<usize>>,
    /// Hardware threads of one core.
    threads: usize,
}

impl Wakeups {
    /// Returns the wakeups of a machine with `llc` CPUs per cache and `threads` per core.
    pub(crate) fn new(rq: Rc<RunQueues>, rules: WakeRules, llc: usize, threads: usize) -> Self {
        let caches = rq.queues.len().div_ceil(llc);
        Self { rq, rules, llc, idle_scan: vec![Cell::new(llc); caches], threads }
    }

    /// CPUs that share a cache.
    pub(crate) fn cache_cpus(&self) -> usize {
        self.llc
    }

    /// The hardware threads of the core of `cpu`.
    pub(crate) fn core_of(&self, cpu: usize) -> Range<usize> {
        self.block_of(cpu, self.threads)
    }

    fn block_of(&self, cpu: usize, size: usize) -> Range<usize> {
        let start = cpu / size * size;
        start..(start + size).min(self.rq.queues.len())
    }

    /// Makes `task` runnable; whether it was asleep.
    pub(crate) fn try_to_wake_up(&self, task: &Rc<Tcb>, sync: bool) -> bool {
        let since = Here::now_ps();
        Smp::irq_save();
        let mut queue = self.rq.lock_queue_of(task);
        Here::pass(self.rq.costs.wake);
        let mut searched = false;
        let sleeps = || matches!(task.state.get(), State::Asleep(_));
        if sleeps() && !task.entity.on_queue.get() {
            // A task that is still leaving its CPU, whose queue was unlocked to balance, stays
            // there (`task_running` in `try_to_wake_up`): elsewhere two CPUs could run it.
            let leaving = task.on_cpu.get();
            let target = if leaving { task.cpu.get() } else { self.place(task, sync) };
            searched = !leaving && task.rt_priority().is_none() && !task.bound.get();
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
            if self.rules.sync == SyncWakeup::IfBrief {
                self.rq.current().entity.note_wakeup();
            }
            if delayed {
                self.rq.requeue(queue, task);
            } else {
                self.rq.loads.idlers.queues(self.cause(task.cpu.get()));
                self.rq.enqueue(queue, task, Enqueue::Woken);
                if searched && self.rq.loads.running(task.cpu.get()) > 1 {
                    let searched = self.searched(task.cpu.get());
                    self.rq.loads.idlers.passed_over(searched, since, Here::now_ps());
                }
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
        let level = self.rq.queues[this].domains.iter().find(|level| level.span.contains(&prev));
        if level.is_some_and(|level| !level.near) {
            return prev;
        }
        if placement == Placement::EmptyForWaker {
            return self.empty_for_waker(prev, this, task, sync);
        }
        let pulled = prev == this
            || match self.rules.affine {
                Affine::Load => self.wake_affine(prev, this, task, sync),
                Affine::Idle => self.wake_affine_idle(prev, this, task, sync),
            };
        let target = if pulled { this } else { prev };
        match placement {
            Placement::TwoCpus | Placement::AnyIdle | Placement::EmptyForWaker => target,
            Placement::IdleSibling => self.idle_sibling(target, prev, this),
            Placement::IdleCore => self.idle_core(target),
            Placement::BoundedIdleSibling => {
                let most = self.idle_scan[target / self.llc].get();
                self.bounded_idle_sibling(target, prev, most)
            }
            Placement::BoundedIdleCore => {
                let recent = task.recent_cpu.replace(prev);
                let most = self.idle_scan[target / self.llc].get();
                self.bounded_idle_core(target, prev, recent, most)
            }
        }
    }

    /// Why a task that is queued behind another one on `cpu` was put there.
    fn cause(&self, cpu: usize) -> IdleCause {
        match self.rules.placement {
            _ if self.rq.queues[cpu].is_idle() => IdleCause::WokenOnStale,
            Placement::TwoCpus | Placement::AnyIdle | Placement::EmptyForWaker => {
                IdleCause::WokenAmongTwo
            }
            _ => IdleCause::WokenInCache,
        }
    }

    /// Returns the CPUs among which every wakeup that ends at `target` finds an idle one, whichever
    /// task wakes.
    fn searched(&self, target: usize) -> Range<usize> {
        match self.rules.placement {
            Placement::IdleSibling | Placement::IdleCore if self.threads == 1 => {
                self.llc_of(target)
            }
            Placement::IdleCore => self.core_of(target),
            _ => target..target,
        }
    }

    /// Whether `cpu` counts as idle ([`IdleTest`]).
    pub(crate) fn is_idle(&self, cpu: usize) -> bool {
        match self.rules.idle_test {
            IdleTest::Queue => self.rq.is_idle_cpu(cpu),
            IdleTest::Running => self.rq.queues[cpu].is_idle(),
        }
    }

    /// Whether a wakeup may choose `cpu` because it idles (`available_idle_cpu`).
    fn is_available(&self, cpu: usize) -> bool {
        let avoids = self.rules.avoid_halted;
        self.is_idle(cpu) && !(avoids && self.rq.is_halted(&self.rq.queues[cpu]))
    }

    /// Whether the loads speak for the waker's CPU.
    fn wake_affine(&self, prev: usize, this: usize, task: &Tcb, sync: bool) -> bool {
        let domain = self.rq.queues[this].domains.iter().find(|domain| domain.span.contains(&prev));
        let Some(domain) = domain else { return false };
        let loads = &self.rq.loads;
        let index = domain.rules.wake_idx;
        let load = loads.source(prev, index);
        // Computed without a sign: with group scheduling a CPU's load may be less than the waker.
        let mut mine = loads.target(this, index);
        if sync {
            let pair = [&self.rq.current().entity, &task.entity];
            let both = pair.into_iter().all(|entity| entity.is_brief(MIGRATION_COST_NS));
            match self.rules.sync {
                SyncWakeup::Affine if both => return true,
                SyncWakeup::IfBrief if !both => {}
                _ => mine = mine.wrapping_sub(WEIGHT),
            }
        }
        let average = loads.weight(this).checked_div(loads.running(this)).unwrap_or(WEIGHT);
        let fits = mine <= load && mine + loads.target(prev, index) <= average;
        let with = mine.wrapping_add(task.entity.weight());
        fits || 100 * with <= domain.rules.half_imbalance() * load
    }

    /// [`Affine::Idle`].
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
        let load = |cpu: usize| self.rq.queues[cpu].normal.borrow().load_average();
        let of = |tcb: &Tcb| tcb.entity.eevdf.load.get().get();
        let mut mine = load(this);
        if sync {
            mine = mine.saturating_sub(of(&self.rq.current()));
        }
        let others = load(prev).saturating_sub(of(task));
        let theirs = domain.rules.half_imbalance() * others + u64::from(sync);
        100 * (mine + of(task)) < theirs
    }

    /// CPUs that share a last-level cache with `cpu`.
    pub(crate) fn llc_of(&self, cpu: usize) -> Range<usize> {
        self.block_of(cpu, self.llc)
    }

    /// The first of `cpus` that idles.
    fn first_idle(&self, mut cpus: impl Iterator<Item = usize>) -> Option<usize> {
        cpus.find(|&cpu| {
            Here::pass(self.rq.costs.balance_cpu);
            self.is_available(cpu)
        })
    }

    /// [`Placement::EmptyForWaker`]. The loads of the waker's CPU `this` and of `prev` decide
    /// whether the task moves at all, whichever CPU it would move to.
    fn empty_for_waker(&self, prev: usize, this: usize, task: &Tcb, sync: bool) -> usize {
        let empty = |&cpu: &usize| self.rq.loads.running(cpu) == 0;
        let candidate = |level: &Domain| {
            let spans = level.span.contains(&prev);
            let before = spans.then_some(prev);
            let mut siblings = before.into_iter().chain(level.span.clone());
            let found = siblings.find(|cpu| level.rules.prefer_sibling && empty(cpu));
            found.or(spans.then_some(this))
        };
        let found = self.rq.queues[this].domains.iter().find_map(candidate);
        found.filter(|_| self.wake_affine(prev, this, task, sync)).unwrap_or(prev)
    }

    /// [`Placement::IdleSibling`]: `this` is the waker's CPU.
    fn idle_sibling(&self, target: usize, prev: usize, this: usize) -> usize {
        if self.is_available(target) {
            return target;
        }
        let mut found = target;
        for near in [self.core_of(target), self.llc_of(target)] {
            if near.len() > 1 {
                found = self.first_idle(near.clone()).unwrap_or(found);
            }
            if near.contains(&this) && near.contains(&prev) {
                break;
            }
        }
        found
    }

    /// [`Placement::IdleCore`].
    fn idle_core(&self, target: usize) -> usize {
        if self.is_available(target) {
            return target;
        }
        let near = self.llc_of(target);
        let mine = self.core_of(target);
        let whole =
            |&first: &usize| self.core_of(first).all(|cpu| self.first_idle(cpu..=cpu).is_some());
        let mut cores = (mine.start..near.end).chain(near.start..mine.start).step_by(self.threads);
        cores.find(whole).or_else(|| self.first_idle(mine)).unwrap_or(target)
    }

    /// `target` if it is idle, else `prev` if that is idle and near, else the first of at most
    /// `most` further CPUs around `target`, else `target`.
    fn bounded_idle_sibling(&self, target: usize, prev: usize, most: usize) -> usize {
        let near = self.llc_of(target);
        if self.is_available(target) {
            return target;
        }
        if near.contains(&prev) && self.is_available(prev) {
            return prev;
        }
        let first = target + 1 - near.start;
        let around = (0..near.len()).map(|step| near.start + (first + step) % near.len());
        self.first_idle(around.take(most)).unwrap_or(target)
    }

    /// [`Placement::BoundedIdleCore`]. *Simplified:* a wakeup knows immediately that no core
    /// idles, not only after an unsuccessful search.
    fn bounded_idle_core(&self, target: usize, prev: usize, recent: usize, most: usize) -> usize {
        let near = self.llc_of(target);
        let known = [target, prev, recent];
        let fits = |&cpu: &usize| near.contains(&cpu) && self.is_available(cpu);
        if let Some(cpu) = known.into_iter().find(fits) {
            return cpu;
        }
        let idles = |cpu: usize| self.threads > 1 && self.core_of(cpu).all(|cpu| self.is_idle(cpu));
        let first = target + 1 - near.start;
        let mut around = (0..near.len()).map(|step| near.start + (first + step) % near.len());
        if near.clone().any(idles) {
            let whole = |&cpu: &usize| {
                Here::pass(self.rq.costs.balance_cpu);
                idles(cpu)
            };
            return around.find(whole).unwrap_or(target);
        }
        let sibling = self.threads > 1 && near.contains(&prev);
        let sibling = sibling.then(|| self.first_idle(self.core_of(prev))).flatten();
        sibling.or_else(|| self.first_idle(around.take(most))).unwrap_or(target)
    }

    /// Sets the number of CPUs that a wakeup may check from now on (`SIS_UTIL`): fewer the busier
    /// the CPUs of a cache are, and none when all are.
    pub(crate) fn bound_idle_scan(&self, cpu: usize) {
        let bounded = [Placement::BoundedIdleSibling, Placement::BoundedIdleCore];
        if !bounded.contains(&self.rules.placement) {
            return;
        }
        let near = self.llc_of(cpu);
        let cpus = near.len() as u64;
        let busy = |cpu: usize| {
            let queue = &self.rq.queues[cpu];
            queue.normal.borrow().utilization(Here::now_ns(), !queue.is_idle())
        };
        let used = near.map(busy).sum::<u64>() / cpus;
        let penalty = used * used * SCAN_PCT * SCAN_PCT / (10_000 * WEIGHT);
        let scan = WEIGHT.saturating_sub(penalty) * cpus / WEIGHT;
        self.idle_scan[cpu / self.llc].set(scan as usize);
    }
}
