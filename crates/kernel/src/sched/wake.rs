//! Wakeups: which place in the queue, and whether the running task is preempted; which CPU is said
//! in `place.rs`.

use super::normal::Enqueue;
use super::task::{State, Tcb};
use super::{RunQueue, Sched, record};
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock};
use schemars::JsonSchema;
use serde::Deserialize;
use std::rc::Rc;

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
            let target = if leaving { task.cpu.get() } else { self.place(task, sync) };
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
        let delayed = task.entity.eevdf.delayed();
        if asleep && (delayed || !task.entity.on_queue.get()) {
            self.count(|stats| stats.wakeups += 1);
            self.note_wakeup(task);
            let me = self.current();
            me.entity.last_wakeup.set(me.entity.sum_exec.get());
            if delayed {
                self.requeue(queue, task);
            } else {
                self.enqueue(queue, task, Enqueue::Woken);
                Self::end_idle(queue);
            }
        }
        if asleep {
            record::wake(task);
            task.state.set(State::Running);
            let waits = sync && self.rules.wake.sync == SyncWakeup::NoPreempt;
            if !waits || task.cpu.get() != Here::cpu() {
                self.check_preempt(task.cpu.get(), task);
            }
            self.woken_rt(queue, task);
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

    fn place(&self, task: &Tcb, sync: bool) -> usize {
        match task.rt_priority() {
            Some(_) => self.select_cpu_rt(task),
            None => self.select_cpu(task, sync),
        }
    }

    /// Moves a task that is on no queue to `cpu`, keeping its lag.
    pub(crate) fn change_cpu(&self, task: &Tcb, from: &RunQueue, cpu: usize) {
        let there = self.queues[cpu].normal.borrow().origin();
        let shift = there - from.normal.borrow().origin();
        task.entity.vruntime.set(task.entity.vruntime.get() + shift);
        task.cpu.set(cpu);
    }
}
