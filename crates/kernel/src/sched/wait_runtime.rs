//! The fair class as introduced in 2.6.23: a fair clock, and a `wait_runtime` for each task.
//!
//! The *fair clock* of a queue runs as fast as a nice-0 task should while all queued tasks share
//! the CPU: by 1024 / (sum of weights) of the time that ordinary tasks run. The `wait_runtime` of a
//! waiting task grows with the clock; a running task's falls by the time that it ran beyond its
//! share; a sleeping task's grows as if it had waited, up to a latency, at the expense of the tasks
//! that run in this time. The task with the least key, the clock less its `wait_runtime`, goes
//! next.
//!
//! Nothing ends a turn but a tick or a wakeup, and only when the running task's key is ahead by
//! more than a granularity. A key changes only when its task is queued or, for the running task, at
//! a tick; so a wakeup compares with the key of the last tick.
//!
//! Times are nanoseconds. Rules and constants follow `kernel/sched_fair.c` and `kernel/sched.c` of
//! 2.6.23 with its default features: sleepers are credited in full (`SLEEPER_AVG` off), a new task
//! starts with a debit, statistics are updated immediately.

use super::entity::WEIGHT;
use super::normal::{Dequeue, Enqueue, Normal};
use super::task::Tcb;
use convoy_sync::TaskId;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Latency and minimum granularity for one CPU (`sysctl_sched_latency`,
/// `sysctl_sched_min_granularity`).
const LATENCY_NS: u64 = 20_000_000;
const MIN_GRANULARITY_NS: u64 = 2_000_000;
/// No scaled value is longer than this.
const CAP_NS: u64 = 100_000_000;

/// The queue of one CPU.
#[derive(Debug)]
pub(crate) struct Queue {
    latency: u64,
    min_granularity: u64,
    /// Lead beyond which a wakeup preempts.
    wakeup_granularity: u64,
    timeline: BTreeMap<(i64, u64), TaskId>,
    order: u64,
    /// `fair_clock`.
    clock: i64,
    /// Credits of sleepers that have not been charged yet.
    bonus: i64,
    /// Runnable tasks, the running one included, and the sum of their weights.
    tasks: u64,
    weight: u64,
}

impl Queue {
    /// An empty queue of a machine with `cpus` CPUs.
    pub(crate) fn new(cpus: usize) -> Self {
        let factor = 1 + u64::from(cpus.max(1).ilog2());
        let scaled = |ns: u64| (ns * factor).min(CAP_NS);
        Self {
            latency: scaled(LATENCY_NS),
            min_granularity: scaled(MIN_GRANULARITY_NS),
            wakeup_granularity: scaled(MIN_GRANULARITY_NS) / 2,
            timeline: BTreeMap::new(),
            order: 0,
            clock: 0,
            bonus: 0,
            tasks: 0,
            weight: 0,
        }
    }

    /// Neither debts nor credits are larger (`sysctl_sched_runtime_limit`).
    fn limit(&self) -> i64 {
        self.latency as i64
    }

    /// Returns the lead of the running task over the next one that ends its turn at a tick: n tasks
    /// then have turns of a latency / n.
    fn granularity(&self) -> u64 {
        let tasks = self.tasks.max(1);
        if tasks == 1 {
            return self.latency;
        }
        let turn = self.latency / tasks;
        (turn - turn / tasks).max(self.min_granularity)
    }

    fn add_wait_runtime(&self, task: &Tcb, ns: i64) {
        let sum = &task.entity.fair_clock.wait_runtime;
        sum.set((sum.get() + ns).clamp(-self.limit(), self.limit()));
    }

    /// Returns the share of a task of this weight since its wait or sleep started.
    fn missed(&self, task: &Tcb) -> i64 {
        let passed = (self.clock - task.entity.vruntime.get()).clamp(0, 2 * self.limit());
        passed * task.entity.weight() as i64 / WEIGHT as i64
    }

    /// Places `task` by its `wait_runtime`.
    fn place(&mut self, task: &Tcb) {
        let sum = task.entity.fair_clock.wait_runtime.get();
        let key = self.clock - sum * WEIGHT as i64 / task.entity.weight() as i64;
        self.place_at(task, key);
    }

    fn place_at(&mut self, task: &Tcb, key: i64) {
        self.order += 1;
        task.entity.fair_clock.key.set((key, self.order));
    }

    /// `task`, which is placed, waits from now on.
    fn wait(&mut self, task: &Tcb) {
        let key = task.entity.fair_clock.key.get();
        task.entity.vruntime.set(self.clock);
        task.entity.key.set(Some(key));
        self.timeline.insert(key, task.id);
    }

    /// If `task` waits, it no longer does and the wait counts.
    fn end_wait(&mut self, task: &Tcb) {
        if let Some(key) = task.entity.key.take() {
            self.timeline.remove(&key);
            self.add_wait_runtime(task, self.missed(task));
        }
    }

    /// Credits the sleep that ends, unless sleepers have too much credit already.
    fn credit(&mut self, task: &Tcb) {
        if self.bonus > self.limit() {
            return;
        }
        let before = task.entity.fair_clock.wait_runtime.get();
        self.add_wait_runtime(task, self.missed(task));
        self.bonus += task.entity.fair_clock.wait_runtime.get() - before;
    }

    fn account(&mut self, task: &Tcb) {
        task.entity.on_queue.set(true);
        self.tasks += 1;
        self.weight += task.entity.weight();
    }

    /// Whether `next` ends the turn of `current` when its key is behind by more than `granularity`,
    /// or at all once `current` has run for longer than the latency allows.
    fn ends_turn(&self, current: &Tcb, next: i64, granularity: u64) -> bool {
        let ideal = (self.latency / self.tasks.max(1)).max(self.min_granularity);
        let ran = current.entity.sum_exec.get() - current.entity.picked_at.get();
        let granularity = if ran > ideal { 0 } else { niced(current, granularity) };
        current.entity.fair_clock.key.get().0 - next > granularity
    }
}

/// Returns `granularity` for a running task: finer for every weight except nice 0.
fn niced(running: &Tcb, granularity: u64) -> i64 {
    let weight = running.entity.weight();
    let (part, whole) = if weight < WEIGHT { (weight, WEIGHT) } else { (WEIGHT, weight) };
    (granularity * part / whole) as i64
}

impl Normal for Queue {
    fn enqueue(&mut self, task: &Tcb, why: Enqueue, _: u64) {
        if why == Enqueue::Woken {
            self.credit(task);
        }
        self.account(task);
        self.place(task);
        self.wait(task);
    }

    fn enqueue_new(&mut self, child: &Tcb, parent: Option<&Tcb>) {
        let Some(parent) = parent else { return self.enqueue(child, Enqueue::Moved, 0) };
        // The child goes first: its first key is the parent's less what preempts it. Its debit
        // shows in the next one.
        let granularity = self.granularity();
        child.entity.fair_clock.wait_runtime.set(-(granularity as i64 / 2));
        self.account(child);
        self.place_at(child, parent.entity.fair_clock.key.get().0 - niced(parent, granularity) - 1);
        self.wait(child);
    }

    fn dequeue(&mut self, task: &Tcb, why: Dequeue) -> bool {
        self.end_wait(task);
        if why == Dequeue::Sleeps {
            task.entity.vruntime.set(self.clock);
        }
        task.entity.on_queue.set(false);
        self.tasks -= 1;
        self.weight -= task.entity.weight();
        true
    }

    fn charges_before_dequeue(&self) -> bool {
        true
    }

    fn put_back(&mut self, task: &Tcb) {
        self.wait(task);
    }

    fn take(&mut self, task: &Tcb) {
        self.end_wait(task);
    }

    fn pick(&mut self, tcb: &dyn Fn(TaskId) -> Rc<Tcb>) -> Option<Rc<Tcb>> {
        let next = tcb(*self.timeline.first_key_value()?.1);
        self.end_wait(&next);
        Some(next)
    }

    fn charge(&mut self, task: &Tcb, now: u64) -> bool {
        let ran = task.entity.run_until(now);
        if !task.entity.on_queue.get() {
            return false;
        }
        let share = |weight: u64| ((ran * weight / self.weight) as i64).min(self.limit());
        let (fair, due) = (share(WEIGHT), share(task.entity.weight()));
        let mut paid = 0;
        if self.bonus > self.min_granularity as i64 {
            paid =
                due.min(self.bonus).min(self.limit() - task.entity.fair_clock.wait_runtime.get());
        }
        self.bonus -= paid;
        self.clock += fair;
        self.add_wait_runtime(task, due - paid - ran as i64);
        false
    }

    fn tick(&mut self, task: &Tcb) -> bool {
        self.place(task);
        let next = self.timeline.first_key_value().map(|(&(key, _), _)| key);
        next.is_some_and(|next| self.ends_turn(task, next, self.granularity()))
    }

    fn preempts(&mut self, woken: &Tcb, current: &Tcb) -> bool {
        self.ends_turn(current, woken.entity.fair_clock.key.get().0, self.wakeup_granularity)
    }

    fn yield_turn(&mut self, task: &Tcb) {
        self.place(task);
    }

    fn candidates(&self, most: usize) -> Vec<TaskId> {
        self.timeline.values().copied().take(most).collect()
    }

    fn origin(&self) -> i64 {
        self.clock
    }
}

#[cfg(test)]
mod tests;
