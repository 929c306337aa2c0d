//! Wakeups: which place in the queue, and whether the running task is preempted; which CPU is said
//! in `place.rs`.

use super::normal::{Dequeue, Enqueue};
use super::{RunQueue, Sched, State, Tcb};
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock};
use std::rc::Rc;

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
        let delayed = task.entity.eevdf.delayed();
        if asleep && (delayed || !task.entity.on_queue.get()) {
            self.count(|stats| stats.wakeups += 1);
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

    /// Moves a task that is on no queue to `cpu`, keeping its lag.
    pub(crate) fn change_cpu(&self, task: &Tcb, from: &RunQueue, cpu: usize) {
        let there = self.queues[cpu].normal.borrow().origin();
        let shift = there - from.normal.borrow().origin();
        task.entity.vruntime.set(task.entity.vruntime.get() + shift);
        task.cpu.set(cpu);
    }

    /// Charges the task that runs on `queue`, which is locked.
    pub(crate) fn charge_current(&self, queue: &RunQueue) {
        if queue.is_idle() {
            return;
        }
        let current = self.tcb(queue.curr.get());
        if !current.entity.on_queue.get() {
            return;
        }
        let over = queue.normal.borrow_mut().charge(&current, Here::now_ns());
        if over {
            self.resched(current.cpu.get());
        }
    }

    /// Queues a task on `queue`, which is its CPU's and locked.
    pub(crate) fn enqueue(&self, queue: &RunQueue, task: &Tcb, why: Enqueue) {
        self.charge_current(queue);
        queue.normal.borrow_mut().enqueue(task, why, Here::now_ns());
        self.loads.add(task.cpu.get(), task.entity.weight());
    }

    /// A sleeper that is still on `queue` runs on.
    fn requeue(&self, queue: &RunQueue, task: &Tcb) {
        self.charge_current(queue);
        queue.normal.borrow_mut().requeue(task);
        self.loads.add(task.cpu.get(), task.entity.weight());
    }

    /// Takes a task, queued or running, off its CPU's queue, which is locked. A sleeper may stay
    /// queued for a while; it no longer counts as load.
    pub(crate) fn dequeue(&self, task: &Tcb, why: Dequeue) {
        let cpu = task.cpu.get();
        self.queues[cpu].normal.borrow_mut().dequeue(task, why);
        self.loads.remove(cpu, task.entity.weight());
    }

    /// Preempts the task that runs on `cpu` if `task`, just queued there, has the right to.
    pub(crate) fn check_preempt(&self, cpu: usize, task: &Tcb) {
        let queue = &self.queues[cpu];
        if queue.is_idle() {
            return self.resched(cpu);
        }
        let current = self.tcb(queue.curr.get());
        if current.id == task.id {
            return;
        }
        if queue.normal.borrow_mut().preempts(task, &current) {
            self.count(|stats| stats.preemptions += 1);
            self.resched(cpu);
        }
    }
}
