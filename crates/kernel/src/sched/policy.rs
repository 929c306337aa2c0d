//! Changes of a queued or running task's place: another policy, the end of a turn.

use super::normal::{Dequeue, Enqueue};
use super::queue::{RunQueue, RunQueues};
use super::rt_move;
use super::task::{Policy, Tcb};
use convoy_machine::{Here, Smp};
use convoy_sync::{Platform, RawLock, TaskId};

impl RunQueues {
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
                take_running(queue, &task);
                self.resched(cpu);
            } else {
                self.check_preempt(cpu, &task);
            }
            if was.is_none() {
                rt_move::woken(self, queue, &task);
            }
        }
        queue.lock.unlock();
        Smp::irq_restore(());
    }

    /// The running task lets others of its class go first (`sched_yield`).
    pub(super) fn yield_turn(&self) {
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
}

/// The running task, just queued in its new class, is not one of those that wait.
fn take_running(queue: &RunQueue, task: &Tcb) {
    if task.rt_priority().is_some() {
        queue.rt.borrow_mut().take(task);
    } else {
        queue.normal.borrow_mut().take(task);
    }
}
