//! The order of the classes: real-time tasks, then ordinary ones, then the idle task. Every change
//! of a queue goes through here, with the queue's lock held.

use super::kthread::Policy;
use super::normal::{Dequeue, Enqueue};
use super::task::Tcb;
use super::{RunQueue, Sched, rt};
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock, TaskId};
use std::rc::Rc;

impl Sched {
    /// Charges `task`, which runs on `queue`; whether it should give up the CPU.
    pub(crate) fn charge(&self, queue: &RunQueue, task: &Tcb) -> bool {
        let now = Here::now_ns();
        if task.rt_priority().is_some() {
            return self.charge_rt(task.cpu.get(), task.entity.run_until(now));
        }
        queue.normal.borrow_mut().charge(task, now)
    }

    /// Charges the task that runs on `queue`.
    pub(crate) fn charge_current(&self, queue: &RunQueue) {
        if queue.is_idle() {
            return;
        }
        let current = self.tcb(queue.curr.get());
        if current.entity.on_queue.get() && self.charge(queue, &current) {
            self.resched(current.cpu.get());
        }
    }

    /// Queues a task on `queue`, which is its CPU's.
    pub(crate) fn enqueue(&self, queue: &RunQueue, task: &Tcb, why: Enqueue) {
        self.charge_current(queue);
        if task.rt_priority().is_some() {
            queue.rt.borrow_mut().enqueue(task);
            self.start_rt_period();
            return self.rt_changed(queue, task);
        }
        queue.normal.borrow_mut().enqueue(task, why, Here::now_ns());
        self.loads.add(task.cpu.get(), task.entity.weight());
    }

    /// A real-time task has come to `queue`: counts it and tells the others.
    fn rt_changed(&self, queue: &RunQueue, task: &Tcb) {
        let cpu = task.cpu.get();
        let entered = task.entity.on_queue.get();
        if entered {
            self.loads.add(cpu, 0);
        } else {
            self.loads.remove(cpu, 0);
        }
        let (best, overloaded) = {
            let rt = queue.rt.borrow();
            (rt.best(), rt.overloaded())
        };
        self.rt_root().set_priority(cpu, best);
        self.rt_root().set_overload(cpu, overloaded);
    }

    /// A sleeper that is still on `queue` runs on.
    pub(crate) fn requeue(&self, queue: &RunQueue, task: &Tcb) {
        self.charge_current(queue);
        queue.normal.borrow_mut().requeue(task);
        self.loads.add(task.cpu.get(), task.entity.weight());
    }

    /// Takes a task, queued or running, off its CPU's queue. A sleeper may stay queued for a while;
    /// it no longer counts as load.
    pub(crate) fn dequeue(&self, task: &Tcb, why: Dequeue) {
        let cpu = task.cpu.get();
        let queue = &self.queues[cpu];
        if task.rt_priority().is_some() {
            queue.rt.borrow_mut().dequeue(task);
            return self.rt_changed(queue, task);
        }
        let charges = queue.normal.borrow().charges_before_dequeue();
        if charges {
            self.charge_current(queue);
        }
        queue.normal.borrow_mut().dequeue(task, why);
        self.loads.remove(cpu, task.entity.weight());
    }

    /// The task that ran waits again.
    pub(crate) fn put_back(queue: &RunQueue, task: &Tcb) {
        if task.rt_priority().is_some() {
            queue.rt.borrow_mut().put_back(task);
        } else {
            queue.normal.borrow_mut().put_back(task);
        }
    }

    /// Takes the next task to run off this CPU's queue.
    pub(crate) fn next_task(&self, queue: &RunQueue) -> Option<Rc<Tcb>> {
        let urgent =
            if self.rt_throttled(Here::cpu()) { None } else { queue.rt.borrow_mut().pick() };
        if let Some(task) = urgent.map(|id| self.tcb(id)) {
            rt::Queue::picked(&task);
            return Some(task);
        }
        queue.normal.borrow_mut().pick(&|id| self.tcb(id))
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
        let preempts = match (task.rt_priority(), current.rt_priority()) {
            (None, None) => {
                let mut normal = queue.normal.borrow_mut();
                normal.drop_sleepers(&current, &|id| self.tcb(id));
                normal.preempts(task, &current)
            }
            (woken, running) => woken > running,
        };
        if preempts {
            self.count(|stats| stats.preemptions += 1);
            self.resched(cpu);
        }
    }

    /// The running task lets others of its class go first (`sched_yield`).
    pub(crate) fn yield_queue(&self) {
        Smp::irq_save();
        let queue = self.this();
        queue.lock.lock();
        let me = self.current();
        if me.rt_priority().is_none() && self.loads.running(Here::cpu()) > 1 {
            self.charge(queue, &me);
            queue.normal.borrow_mut().yield_turn(&me);
        }
        queue.lock.unlock();
        Smp::irq_restore(());
    }

    /// At the tick of this CPU, after the charge: whether the running task has had its turn.
    pub(crate) fn turn_is_over(queue: &RunQueue, current: &Tcb) -> bool {
        if current.rt_priority().is_some() {
            return queue.rt.borrow().tick(current);
        }
        queue.normal.borrow_mut().tick(current)
    }

    /// Changes the policy of `task`, wherever it is (`sched_setscheduler`).
    pub fn set_policy(&self, task: TaskId, policy: Policy) {
        let task = self.tcb(task);
        Smp::irq_save();
        let queue = self.lock_queue_of(&task);
        let (cpu, runs) = (task.cpu.get(), task.on_cpu.get());
        let was = task.rt_priority();
        let queued = task.entity.on_queue.get() && !task.entity.eevdf.delayed();
        if queued {
            self.charge_current(queue);
            self.dequeue(&task, Dequeue::Leaves);
        } else if task.entity.eevdf.delayed() {
            queue.normal.borrow_mut().dequeue(&task, Dequeue::Leaves);
        }
        task.policy.set(policy);
        if let Policy::Normal { nice } = policy {
            task.entity.set_nice(nice);
        }
        if queued {
            self.enqueue(queue, &task, Enqueue::Moved);
            if runs {
                // It runs on, so it does not wait; whether it should is seen at the next schedule.
                Self::take_running(queue, &task);
                self.resched(cpu);
            } else {
                self.check_preempt(cpu, &task);
            }
            if was.is_none() {
                self.woken_rt(queue, &task);
            }
        }
        queue.lock.unlock();
        Smp::irq_restore(());
    }

    /// The running task, just queued in its new class, is not one of those that wait.
    fn take_running(queue: &RunQueue, task: &Tcb) {
        if task.rt_priority().is_some() {
            queue.rt.borrow_mut().take(task);
        } else {
            queue.normal.borrow_mut().take(task);
        }
    }
}
