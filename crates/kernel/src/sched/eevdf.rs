//! EEVDF, the class of ordinary tasks from 6.6 on: earliest eligible virtual deadline first.
//!
//! Every task has a virtual run time *v* and a virtual deadline one slice later. The queue's
//! virtual time *V* is the weighted mean of all *v*; a task with *v* at or below *V* is *eligible*:
//! it has not had more than its share. Of the eligible tasks, the task with the earliest deadline
//! runs. The lead or delay of a task when it leaves, its *lag* `V - v`, is kept until it returns.
//!
//! Times are nanoseconds. The rules follow `kernel/sched/fair.c` of 6.18.2; 6.6 has a longer slice
//! and dequeues a sleeper immediately. All tasks have the slice of the system.

use super::average::Average;
use super::entity::{Entity, WEIGHT};
use super::normal::{Dequeue, Enqueue, Normal};
use super::task::Tcb;
use convoy_sync::TaskId;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Further CPUs do not lengthen the slice.
const SCALE_CPUS_MAX: usize = 8;

/// What a yielding task loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Yield {
    /// Its place: the deadline moves by one slice (up to 6.17).
    Deadline,
    /// Also the rest of its slice: it moves to the end of the slice immediately. (Some versions of
    /// 6.18 do this only to an eligible task; that the measured kernel does it to any task is
    /// fitted to the rows test-and-set of `experiments/host.toml` from 256 threads on; the other
    /// rule gives a seventh of their throughput.)
    Slice,
}

/// Rules of the class `eevdf`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EevdfRules {
    /// Slice on one CPU (`sysctl_sched_base_slice`), in nanoseconds; it grows with the logarithm of
    /// the number of CPUs, up to eight.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub base_slice_ns: u64,
    /// A sleeper that has had more than its share stays queued until its lag is gone
    /// (`DELAY_DEQUEUE`, from 6.12 on).
    pub delay_dequeue: bool,
    /// What a yielding task loses.
    #[serde(rename = "yield")]
    pub yields: Yield,
    /// A task that moves to another CPU takes its utilisation along. The utilisation of a new task
    /// is in proportion to its weight, and at most half of the CPU's spare capacity
    /// (`post_init_entity_util_avg`; from 3.8 and 4.3 on). Otherwise utilisation stays with the
    /// CPU.
    #[serde(default)]
    pub task_utilization: bool,
}

/// The next deadline of a task: `slice` from where it is.
fn renew(entity: &Entity, slice: u64) {
    entity.eevdf.deadline.set(entity.vruntime.get() + entity.virtual_ns(slice));
}

/// The queue of one CPU.
#[derive(Debug)]
pub(crate) struct Queue {
    rules: EevdfRules,
    /// Slice on this machine and period of the tick.
    slice: u64,
    tick: u64,
    /// Queued tasks by deadline, with their virtual run time and weight.
    deadlines: BTreeMap<(i64, u64), (i64, TaskId)>,
    /// Tasks that want the CPU, the running one included, by time of enqueueing.
    list: BTreeMap<u64, TaskId>,
    sequence: u64,
    /// Sums over the queued tasks and the running one: weight, and weight times virtual run time.
    weight: i128,
    moment: i128,
    /// Virtual time of an empty queue.
    rest: i64,
    /// The task that ran until now and was put back, until the next pick.
    previous: Option<TaskId>,
    /// Time of the last event, in nanoseconds.
    clock: u64,
    /// Average of `weight`, of the tasks that last ran on this CPU.
    load: Average,
    /// What sleepers that were woken elsewhere took of it, and of `used`: it counts here until the
    /// next event.
    gone: Average,
    gone_used: Average,
    /// Average of the time in which one of its tasks ran.
    used: Average,
}

impl Queue {
    /// An empty queue of a machine with `cpus` CPUs and `hz` ticks a second.
    pub(crate) fn new(rules: &EevdfRules, hz: u32, cpus: usize) -> Self {
        let factor = 1 + u64::from(cpus.clamp(1, SCALE_CPUS_MAX).ilog2());
        Self {
            rules: rules.clone(),
            slice: rules.base_slice_ns * factor,
            tick: 1_000_000_000 / u64::from(hz),
            deadlines: BTreeMap::new(),
            list: BTreeMap::new(),
            sequence: 0,
            weight: 0,
            moment: 0,
            rest: 0,
            previous: None,
            clock: 0,
            load: Average::default(),
            gone: Average::default(),
            gone_used: Average::default(),
            used: Average::default(),
        }
    }

    /// The queue's virtual time, rounded down.
    fn mean(&self) -> i64 {
        if self.weight == 0 { self.rest } else { self.moment.div_euclid(self.weight) as i64 }
    }

    /// The utilisation that a new task of this queue begins with.
    fn first_utilization(&self, weight: u64) -> Average {
        let most = WEIGHT.saturating_sub(self.used.get()) / 2;
        let part = self.used.get() * weight / (self.load.get() + 1);
        let mut used = Average::default();
        used.set(if self.used.get() == 0 { most } else { part.min(most) }, self.clock);
        used
    }

    /// Whether a task at `vruntime` has had no more than its share.
    fn eligible(&self, vruntime: i64) -> bool {
        i128::from(vruntime) * self.weight <= self.moment
    }

    /// Brings the average of a task up to date that weighed `weight` here.
    fn average(&self, entity: &Entity, weight: u64) {
        let mut load = entity.eevdf.load.get();
        load.advance(self.clock, weight);
        entity.eevdf.load.set(load);
    }

    fn weigh(&mut self, entity: &Entity) {
        self.average(entity, 0);
        let weight = i128::from(entity.weight());
        self.weight += weight;
        self.moment += weight * i128::from(entity.vruntime.get());
    }

    fn unweigh(&mut self, entity: &Entity) {
        self.average(entity, entity.weight());
        self.rest = self.mean();
        let weight = i128::from(entity.weight());
        self.weight -= weight;
        self.moment -= weight * i128::from(entity.vruntime.get());
    }

    fn insert(&mut self, task: TaskId, entity: &Entity) {
        self.sequence += 1;
        let key = (entity.eevdf.deadline.get(), self.sequence);
        self.deadlines.insert(key, (entity.vruntime.get(), task));
        entity.key.set(Some(key));
    }

    fn remove(&mut self, entity: &Entity) {
        if let Some(key) = entity.key.take() {
            self.deadlines.remove(&key);
        }
    }

    fn list(&mut self, task: TaskId, entity: &Entity) {
        self.sequence += 1;
        entity.listed.set(self.sequence);
        self.list.insert(self.sequence, task);
    }

    /// The most that a task may be ahead or behind when it leaves: two slices, at least a tick.
    fn lag_max(&self, entity: &Entity) -> i64 {
        entity.virtual_ns((2 * self.slice).max(self.tick))
    }

    fn keep_lag(&self, entity: &Entity) {
        let most = self.lag_max(entity);
        let lag = (self.mean() - entity.vruntime.get()).clamp(-most, most);
        entity.eevdf.lag.set(lag);
    }

    /// Puts a task that is not counted at its lag behind *V*. Its own weight will move *V*, so the
    /// distance is stretched to be its lag afterwards. On an empty queue the lag has no effect.
    fn place(&self, entity: &Entity) {
        let weight = i128::from(entity.weight());
        let lag = i128::from(entity.eevdf.lag.get());
        let stretched = (lag * (self.weight + weight)).checked_div(self.weight).unwrap_or(0);
        entity.vruntime.set(self.mean() - stretched as i64);
    }

    /// Returns the eligible queued task with the earliest deadline.
    fn earliest(&self) -> Option<((i64, u64), TaskId)> {
        let mut queued = self.deadlines.iter();
        queued
            .find(|(_, (vruntime, _))| self.eligible(*vruntime))
            .map(|(&key, &(_, task))| (key, task))
    }

    fn protected(&self, entity: &Entity) -> bool {
        let vruntime = entity.vruntime.get();
        self.eligible(vruntime) && vruntime < entity.eevdf.protected_to.get()
    }

    /// Takes a sleeper that was left queued off at last. It gains nothing by the delay: a lag that
    /// has become positive is forgotten.
    fn drop_delayed(&mut self, task: &Tcb) {
        let entity = &task.entity;
        self.keep_lag(entity);
        entity.eevdf.lag.set(entity.eevdf.lag.get().min(0));
        self.remove(entity);
        self.unweigh(entity);
        entity.on_queue.set(false);
        entity.eevdf.delayed.set(false);
    }

    /// Returns whether `current` continues when `woken` competes for the CPU.
    fn keeps(&self, woken: TaskId, current: &Entity) -> bool {
        if self.protected(current) {
            return true;
        }
        let first = self.earliest().filter(|&(_, task)| task == woken);
        let Some(((deadline, _), _)) = first else { return true };
        self.eligible(current.vruntime.get()) && current.eevdf.deadline.get() < deadline
    }
}

impl Normal for Queue {
    fn enqueue(&mut self, task: &Tcb, _: Enqueue, _: u64) {
        let entity = &task.entity;
        self.place(entity);
        let share = &entity.eevdf;
        if share.relative.replace(false) {
            share.deadline.set(share.deadline.get() + entity.vruntime.get());
        } else {
            renew(entity, self.slice);
        }
        self.weigh(entity);
        entity.on_queue.set(true);
        self.list(task.id, entity);
        self.insert(task.id, entity);
    }

    fn enqueue_new(&mut self, child: &Tcb, _: Option<&Tcb>) {
        let entity = &child.entity;
        self.place(entity);
        // A new task starts with half a slice, so that it soon competes like the others.
        renew(entity, self.slice / 2);
        let mut load = Average::default();
        load.set(entity.weight(), self.clock);
        entity.eevdf.load.set(load);
        if self.rules.task_utilization {
            let used = self.first_utilization(entity.weight());
            entity.eevdf.used.set(used);
            self.used.attach(&used);
        }
        self.load.attach(&load);
        self.weigh(entity);
        entity.on_queue.set(true);
        self.list(child.id, entity);
        self.insert(child.id, entity);
    }

    fn dequeue(&mut self, task: &Tcb, why: Dequeue) -> bool {
        let entity = &task.entity;
        if entity.eevdf.delayed() {
            self.drop_delayed(task);
            return true;
        }
        self.list.remove(&entity.listed.get());
        let ahead = !self.eligible(entity.vruntime.get());
        if why == Dequeue::Sleeps && self.rules.delay_dequeue && ahead {
            entity.eevdf.delayed.set(true);
            self.insert(task.id, entity);
            return false;
        }
        self.keep_lag(entity);
        self.remove(entity);
        self.unweigh(entity);
        entity.on_queue.set(false);
        if why == Dequeue::Leaves {
            let share = &entity.eevdf;
            share.deadline.set(share.deadline.get() - entity.vruntime.get());
            share.relative.set(true);
        }
        true
    }

    fn put_back(&mut self, task: &Tcb) {
        self.insert(task.id, &task.entity);
        self.previous = Some(task.id);
    }

    fn take(&mut self, task: &Tcb) {
        self.remove(&task.entity);
    }

    fn pick(&mut self, tcb: &dyn Fn(TaskId) -> Rc<Tcb>) -> Option<Rc<Tcb>> {
        let previous = self.previous.take();
        if let Some(previous) = previous.map(tcb)
            && previous.entity.key.get().is_some()
            && self.protected(&previous.entity)
        {
            self.remove(&previous.entity);
            return Some(previous);
        }
        loop {
            let task = tcb(self.earliest()?.1);
            let entity = &task.entity;
            if entity.eevdf.delayed() {
                self.drop_delayed(&task);
                continue;
            }
            self.remove(entity);
            // A task that is picked again has used its protection up.
            if previous != Some(task.id) {
                entity.eevdf.protected_to.set(entity.eevdf.deadline.get());
            }
            return Some(task);
        }
    }

    fn charge(&mut self, task: &Tcb, now: u64) -> bool {
        let entity = &task.entity;
        if entity.key.get().is_some() {
            // It is on its way off the CPU and queued already: its place must not move.
            return false;
        }
        let ran = entity.run_until(now);
        self.used.advance(now - ran, 0);
        self.used.advance(now, WEIGHT);
        let mut used = entity.eevdf.used.get();
        used.advance(now - ran, 0);
        used.advance(now, WEIGHT);
        entity.eevdf.used.set(used);
        let ran = entity.virtual_ns(ran);
        entity.vruntime.set(entity.vruntime.get() + ran);
        self.moment += i128::from(entity.weight()) * i128::from(ran);
        let passed = entity.vruntime.get() >= entity.eevdf.deadline.get();
        if passed {
            renew(entity, self.slice);
        }
        let alone = self.deadlines.is_empty();
        !alone && (passed || entity.vruntime.get() >= entity.eevdf.protected_to.get())
    }

    fn tick(&mut self, _: &Tcb) -> bool {
        false
    }

    fn preempts(&mut self, woken: &Tcb, current: &Tcb) -> bool {
        !self.keeps(woken.id, &current.entity)
    }

    /// 6.18.2 does not do this: a sleeper that would be picked saves the running task. That the
    /// measured 6.18.44 does is fitted to the row handoff, 1 CPU, 1000 ns, 16 threads, of
    /// `experiments/host.toml`, where each waker is preempted; the other rule gives twice its rate.
    fn drop_sleepers(&mut self, current: &Tcb, tcb: &dyn Fn(TaskId) -> Rc<Tcb>) {
        let entity = &current.entity;
        while !self.protected(entity)
            && let Some(((deadline, _), task)) = self.earliest()
        {
            let first = tcb(task);
            let ahead =
                self.eligible(entity.vruntime.get()) && entity.eevdf.deadline.get() < deadline;
            if ahead || !first.entity.eevdf.delayed() {
                return;
            }
            self.drop_delayed(&first);
        }
    }

    fn yield_turn(&mut self, task: &Tcb) {
        let entity = &task.entity;
        if self.rules.yields == Yield::Slice {
            let ahead = entity.eevdf.deadline.get() - entity.vruntime.get();
            entity.vruntime.set(entity.eevdf.deadline.get());
            self.moment += i128::from(entity.weight()) * i128::from(ahead);
        }
        let deadline = entity.eevdf.deadline.get() + entity.virtual_ns(self.slice);
        entity.eevdf.deadline.set(deadline);
    }

    fn candidates(&self, most: usize) -> Vec<TaskId> {
        // The one that has been queued longest is detached first.
        self.list.values().copied().take(most).collect()
    }

    fn update_clock(&mut self, now: u64) {
        self.clock = now;
        self.load.advance(now, self.weight as u64);
        self.load.detach(&self.gone);
        self.gone.clear();
        self.used.detach(&self.gone_used);
        self.gone_used.clear();
    }

    fn detach(&mut self, task: &Tcb, asleep: bool) {
        let mut load = task.entity.eevdf.load.get();
        load.decay_to(&self.load);
        task.entity.eevdf.load.set(load);
        let mut used = task.entity.eevdf.used.get();
        if self.rules.task_utilization {
            used.decay_to(&self.used);
            task.entity.eevdf.used.set(used);
        } else {
            used.clear();
        }
        if asleep {
            // Its waker holds no lock of this queue, or not for long (`remove_entity_load_avg`).
            self.gone.attach(&load);
            self.gone_used.attach(&used);
        } else {
            self.load.detach(&load);
            self.used.detach(&used);
        }
    }

    fn attach(&mut self, task: &Tcb) {
        let share = &task.entity.eevdf;
        self.load.attach(&share.load.get());
        if self.rules.task_utilization {
            self.used.attach(&share.used.get());
        }
    }

    fn load_average(&self) -> u64 {
        self.load.get()
    }

    fn utilization(&self, now: u64, running: bool) -> u64 {
        let mut used = self.used;
        used.advance(now, if running { WEIGHT } else { 0 });
        used.get().min(WEIGHT)
    }

    fn requeue(&mut self, task: &Tcb) {
        let entity = &task.entity;
        if self.mean() > entity.vruntime.get() {
            // The wait has made its lag positive: it starts again at V.
            self.drop_delayed(task);
            return self.enqueue(task, Enqueue::Woken, 0);
        }
        entity.eevdf.delayed.set(false);
        self.list(task.id, entity);
    }
}

#[cfg(test)]
mod tests;
