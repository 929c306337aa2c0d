//! Wakeups: which CPU, which place in its queue, and whether the running task is preempted.
//!
//! `try_to_wake_up`, `select_task_rq_fair`, `wake_affine` of 2.6.25. A wakeup considers the task's
//!   last CPU and the waker's CPU and nothing else; an idle CPU gets work only by pulling.

use super::cfs::WEIGHT;
use super::{RunQueue, Sched, State, Tcb};
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock};
use std::rc::Rc;

/// `sysctl_sched_migration_cost`, nanoseconds.
pub(crate) const MIGRATION_COST_NS: u64 = 500_000;

impl Sched {
    /// Makes `task` runnable; whether it was asleep.
    pub(crate) fn try_to_wake_up(&self, task: &Rc<Tcb>, sync: bool) -> bool {
        Smp::irq_save();
        let mut queue = self.lock_queue_of(task);
        Here::pass(self.costs.wake);
        let sleeps = || matches!(task.state.get(), State::Asleep(_));
        if sleeps() && !task.entity.on_queue.get() {
            // A task that is still leaving its CPU, whose queue was unlocked to balance, stays
            // there (`task_running` in `try_to_wake_up`): elsewhere two CPUs could run it.
            let leaving = task.on_cpu.get();
            let target = if leaving { task.cpu.get() } else { self.select_cpu(task, sync) };
            if target != task.cpu.get() {
                let old = queue;
                self.change_cpu(task, old, target);
                old.lock.unlock();
                queue = self.lock_queue_of(task);
                self.count(|stats| stats.wakeups_moved += 1);
            }
        }
        // Another waker may have come first while no queue was locked.
        let asleep = sleeps();
        if asleep && !task.entity.on_queue.get() {
            self.count(|stats| stats.wakeups += 1);
            let me = self.current();
            me.entity.last_wakeup.set(me.entity.sum_exec.get());
            self.enqueue_woken(queue, task);
        }
        if asleep {
            task.state.set(State::Running);
            self.check_preempt(task.cpu.get(), task);
        }
        queue.lock.unlock();
        Smp::irq_restore(());
        asleep
    }

    /// Locks the run queue of `task`, which may move until its queue is locked.
    pub(crate) fn lock_queue_of(&self, task: &Tcb) -> &RunQueue {
        loop {
            let queue = &self.queues[task.cpu.get()];
            queue.lock.lock();
            if ::core::ptr::eq(queue, &raw const self.queues[task.cpu.get()]) {
                return queue;
            }
            queue.lock.unlock();
        }
    }

    fn select_cpu(&self, task: &Tcb, sync: bool) -> usize {
        let prev = task.cpu.get();
        if task.bound.get() {
            return prev;
        }
        let this = Here::cpu();
        if self.ablation.wake_any_idle && !self.queues[prev].is_idle() {
            let idle = |cpu: &usize| self.queues[*cpu].is_idle() && self.loads.running(*cpu) == 0;
            if let Some(cpu) = (0..self.queues.len()).find(idle) {
                return cpu;
            }
        }
        if prev == this {
            return prev;
        }
        let domain = self.queues[this].domains.iter().find(|domain| domain.span.contains(&prev));
        let Some(domain) = domain else { return prev };
        let loads = &self.loads;
        let index = domain.wake_idx;
        let load = loads.source(prev, index);
        let mut mine = loads.target(this, index);
        let waker = self.current();
        if sync {
            let brief = |tcb: &Tcb| tcb.entity.avg_overlap.get() < MIGRATION_COST_NS;
            if brief(&waker) && brief(task) {
                return this;
            }
            mine = mine.saturating_sub(WEIGHT);
        }
        let average = loads.weight(this).checked_div(loads.running(this)).unwrap_or(WEIGHT);
        let fits = mine <= load && mine + loads.target(prev, index) <= average;
        if fits || 100 * (mine + WEIGHT) <= domain.half_imbalance() * load { this } else { prev }
    }

    /// Moves a task that is on no queue to `cpu`, keeping its lag.
    pub(crate) fn change_cpu(&self, task: &Tcb, from: &RunQueue, cpu: usize) {
        let shift = self.queues[cpu].fair.borrow().min_vruntime - from.fair.borrow().min_vruntime;
        task.entity.vruntime.set(task.entity.vruntime.get() + shift);
        task.cpu.set(cpu);
    }

    /// Charges the task that runs on `queue`, which is locked.
    pub(crate) fn charge_current(&self, queue: &RunQueue) {
        if !queue.is_idle() {
            let current = self.tcb(queue.curr.get());
            if current.entity.on_queue.get() {
                queue.fair.borrow().charge(&current.entity, Here::now_ns(), &self.rules);
            }
        }
    }

    fn enqueue_woken(&self, queue: &RunQueue, task: &Tcb) {
        self.charge_current(queue);
        let mut fair = queue.fair.borrow_mut();
        fair.account(task.id, &task.entity);
        self.loads.add(task.cpu.get());
        fair.place_woken(&task.entity, &self.rules);
        fair.insert(task.id, &task.entity);
    }

    /// Queues a task that is not waking up: its place follows from its own virtual time.
    pub(crate) fn enqueue(&self, queue: &RunQueue, task: &Tcb) {
        self.charge_current(queue);
        let mut fair = queue.fair.borrow_mut();
        fair.account(task.id, &task.entity);
        self.loads.add(task.cpu.get());
        fair.insert(task.id, &task.entity);
    }

    /// Makes `task`, just queued on `cpu`, its queue's buddy, and preempts the running task if the
    /// lag says so.
    pub(crate) fn check_preempt(&self, cpu: usize, task: &Tcb) {
        let queue = &self.queues[cpu];
        if queue.is_idle() {
            return self.resched(cpu);
        }
        let current = self.tcb(queue.curr.get());
        if current.id == task.id {
            return;
        }
        let preempts = {
            let mut fair = queue.fair.borrow_mut();
            fair.next = Some(task.id);
            fair.preempts(&task.entity, &current.entity, &self.rules)
        };
        if preempts {
            self.count(|stats| stats.preemptions += 1);
            self.resched(cpu);
        }
    }
}
