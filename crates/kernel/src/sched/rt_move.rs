//! Moving real-time tasks between CPUs: placement of a woken one, pushing and pulling.
//!
//! A CPU with two real-time tasks pushes one to a CPU that runs a task of lower priority; a CPU
//! with a falling highest priority pulls from overloaded CPUs. Both lock two run queues. From 4.1
//! on kernels ask the overloaded CPU to push instead of pulling; that is not modelled.

use super::normal::{Dequeue, Enqueue};
use super::queue::{RunQueue, RunQueues};
use super::task::Tcb;

use convoy_machine::Here;
use convoy_sync::RawLock;
use std::rc::Rc;

/// Attempts of a push to find a CPU that is still less urgent once it is locked.
const PUSH_TRIES: usize = 3;

/// The CPU for a real-time task that wakes up: its own, unless that runs a real-time task.
pub(crate) fn select_cpu(rq: &RunQueues, task: &Tcb) -> usize {
    let own = task.cpu.get();
    let Some(priority) = task.rt_priority() else { return own };
    let current = rq.tcb(rq.queues[own].curr.get());
    let urgent = current.rt_priority();
    let stays = urgent.is_none_or(|urgent| urgent < priority && !current.bound.get());
    if task.bound.get() || stays {
        return own;
    }
    rq.rt_root().lowest(priority, own, Here::cpu()).unwrap_or(own)
}

/// After a wakeup on `queue`, which is locked: a task that cannot run there is pushed on.
pub(crate) fn woken(rq: &RunQueues, queue: &RunQueue, task: &Tcb) {
    let Some(priority) = task.rt_priority() else { return };
    let current = rq.tcb(queue.curr.get());
    let waits = !task.on_cpu.get() && !queue.need_resched.get() && !task.bound.get();
    if waits && current.rt_priority().is_some_and(|running| running >= priority) {
        push(rq, task.cpu.get());
    }
}

/// After a pick, with `queue` locked: real-time tasks that wait are offered to other CPUs.
pub(crate) fn post_schedule(rq: &RunQueues, queue: &RunQueue) {
    if queue.rt.borrow().overloaded() {
        push(rq, Here::cpu());
    }
}

/// Pushes tasks away from `cpu`, whose queue is locked, until no CPU can take one.
pub(crate) fn push(rq: &RunQueues, cpu: usize) {
    while push_one(rq, cpu) {}
}

fn pushable(rq: &RunQueues, cpu: usize) -> Option<Rc<Tcb>> {
    let may = |id| {
        let task = rq.tcb(id);
        !task.bound.get() && !task.on_cpu.get()
    };
    rq.queues[cpu].rt.borrow().pushable(may).map(|id| rq.tcb(id))
}

fn push_one(rq: &RunQueues, cpu: usize) -> bool {
    for _ in 0..PUSH_TRIES {
        let Some(task) = pushable(rq, cpu) else { return false };
        let Some(priority) = task.rt_priority() else { return false };
        let found = rq.rt_root().lowest(priority, task.cpu.get(), Here::cpu());
        let Some(target) = found.filter(|&target| target != cpu) else { return false };
        rq.lock_second(cpu, target);
        // Both queues may have changed while this one was unlocked.
        let still = pushable(rq, cpu).is_some_and(|now| now.id == task.id);
        let urgent = rq.queues[target].rt.borrow().best();
        let moves = still && urgent.is_none_or(|urgent| urgent < priority);
        if moves {
            move_task(rq, &task, target);
            rq.count(|stats| stats.rt_pushed += 1);
        }
        rq.queues[target].lock.unlock();
        if moves || !still {
            return moves;
        }
    }
    false
}

/// This CPU's best priority has sunk and its queue is locked: takes the tasks of overloaded
/// CPUs that are more urgent than its own.
pub(crate) fn pull(rq: &RunQueues) {
    let cpu = Here::cpu();
    for other in rq.rt_root().overloaded() {
        if other == cpu {
            continue;
        }
        let mine = rq.queues[cpu].rt.borrow().best();
        let best = pushable(rq, other).and_then(|task| task.rt_priority());
        if best <= mine {
            continue;
        }
        rq.lock_second(cpu, other);
        let mine = rq.queues[cpu].rt.borrow().best();
        let running = rq.tcb(rq.queues[other].curr.get()).rt_priority();
        let task = pushable(rq, other).filter(|task| task.rt_priority() > mine);
        // A task that is about to preempt over there is left to do so.
        if let Some(task) = task.filter(|task| task.rt_priority() <= running) {
            move_task(rq, &task, cpu);
            rq.count(|stats| stats.rt_pulled += 1);
        }
        rq.queues[other].lock.unlock();
    }
}

fn move_task(rq: &RunQueues, task: &Tcb, target: usize) {
    Here::pass(rq.costs.pull);
    rq.dequeue(task, Dequeue::Leaves);
    task.cpu.set(target);
    rq.enqueue(&rq.queues[target], task, Enqueue::Moved);
    rq.resched(target);
}
