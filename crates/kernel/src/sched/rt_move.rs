//! Moving real-time tasks between CPUs: placement of a woken one, pushing and pulling.
//!
//! A CPU that has two real-time tasks pushes one to a CPU that runs something less urgent; a CPU
//! whose best priority sinks pulls from those that have too many. Both lock two run queues. From
//! 4.1 on kernels ask the overloaded CPU to push instead of pulling; that is not modelled.

use super::normal::{Dequeue, Enqueue};
use super::task::Tcb;
use super::{RunQueue, Sched};
use convoy_machine::Here;
use convoy_sync::RawLock;
use std::rc::Rc;

/// Attempts of a push to find a CPU that is still less urgent once it is locked.
const PUSH_TRIES: usize = 3;

impl Sched {
    /// The CPU for a real-time task that wakes up: its own, unless that runs a real-time task.
    pub(crate) fn select_cpu_rt(&self, task: &Tcb) -> usize {
        let own = task.cpu.get();
        let Some(priority) = task.rt_priority() else { return own };
        let current = self.tcb(self.queues[own].curr.get());
        let urgent = current.rt_priority();
        let stays = urgent.is_none_or(|urgent| urgent < priority && !current.bound.get());
        if task.bound.get() || stays {
            return own;
        }
        self.rt_root().lowest(priority, own, Here::cpu()).unwrap_or(own)
    }

    /// After a wakeup on `queue`, which is locked: a task that cannot run there is pushed on.
    pub(crate) fn woken_rt(&self, queue: &RunQueue, task: &Tcb) {
        let Some(priority) = task.rt_priority() else { return };
        let current = self.tcb(queue.curr.get());
        let waits = !task.on_cpu.get() && !queue.need_resched.get() && !task.bound.get();
        if waits && current.rt_priority().is_some_and(|running| running >= priority) {
            self.push_rt(task.cpu.get());
        }
    }

    /// After a pick, with `queue` locked: real-time tasks that wait are offered to other CPUs.
    pub(crate) fn post_schedule(&self, queue: &RunQueue) {
        if queue.rt.borrow().overloaded() {
            self.push_rt(Here::cpu());
        }
    }

    /// Pushes tasks away from `cpu`, whose queue is locked, until nobody can take one.
    pub(crate) fn push_rt(&self, cpu: usize) {
        while self.push_one(cpu) {}
    }

    fn pushable(&self, cpu: usize) -> Option<Rc<Tcb>> {
        let may = |id| {
            let task = self.tcb(id);
            !task.bound.get() && !task.on_cpu.get()
        };
        self.queues[cpu].rt.borrow().pushable(may).map(|id| self.tcb(id))
    }

    fn push_one(&self, cpu: usize) -> bool {
        for _ in 0..PUSH_TRIES {
            let Some(task) = self.pushable(cpu) else { return false };
            let Some(priority) = task.rt_priority() else { return false };
            let found = self.rt_root().lowest(priority, task.cpu.get(), Here::cpu());
            let Some(target) = found.filter(|&target| target != cpu) else { return false };
            self.lock_second(cpu, target);
            // Both queues may have changed while this one was unlocked.
            let still = self.pushable(cpu).is_some_and(|now| now.id == task.id);
            let urgent = self.queues[target].rt.borrow().best();
            let moves = still && urgent.is_none_or(|urgent| urgent < priority);
            if moves {
                self.move_rt(&task, target);
                self.count(|stats| stats.rt_pushed += 1);
            }
            self.queues[target].lock.unlock();
            if moves || !still {
                return moves;
            }
        }
        false
    }

    /// This CPU's best priority has sunk and its queue is locked: takes the tasks of overloaded
    /// CPUs that are more urgent than its own.
    pub(crate) fn pull_rt(&self) {
        let cpu = Here::cpu();
        for other in self.rt_root().overloaded() {
            if other == cpu {
                continue;
            }
            let mine = self.queues[cpu].rt.borrow().best();
            let best = self.pushable(other).and_then(|task| task.rt_priority());
            if best <= mine {
                continue;
            }
            self.lock_second(cpu, other);
            let mine = self.queues[cpu].rt.borrow().best();
            let running = self.tcb(self.queues[other].curr.get()).rt_priority();
            let task = self.pushable(other).filter(|task| task.rt_priority() > mine);
            // A task that is about to preempt over there is left to do so.
            if let Some(task) = task.filter(|task| task.rt_priority() <= running) {
                self.move_rt(&task, cpu);
                self.count(|stats| stats.rt_pulled += 1);
            }
            self.queues[other].lock.unlock();
        }
    }

    fn move_rt(&self, task: &Tcb, target: usize) {
        Here::pass(self.costs.pull);
        self.dequeue(task, Dequeue::Leaves);
        task.cpu.set(target);
        self.enqueue(&self.queues[target], task, Enqueue::Moved);
        self.resched(target);
    }
}
