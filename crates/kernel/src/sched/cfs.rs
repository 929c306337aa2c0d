//! The fair class from 2.6.24 to 6.5: virtual time, the timeline, slices, buddies, wakeup
//! preemption.
//!
//! Times are nanoseconds. The rules follow `kernel/sched_fair.c` of 2.6.24, 2.6.25, 2.6.26-rc1
//! (commit c0a18111e571) and 3.0 (the same to 3.7); where they differ, [`CfsRules`] names the
//! choice.

use super::entity::{Entity, WEIGHT};
use super::normal::{Dequeue, Enqueue, Normal};
use super::task::Tcb;
use convoy_sync::TaskId;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// No latency or granularity was longer than this up to 2.6.26.
const LATENCY_CAP_NS: u64 = 200_000_000;

/// How fast virtual time runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VirtualTime {
    /// By the task's own weight: as wall time at nice 0.
    Task,
    /// By the weight of the whole queue, so n times as fast as wall time with n tasks. The
    /// granularity grows and the credit of sleepers shrinks by the same factor (2.6.26-rc1).
    Queue,
}

/// Which running tasks `min_vruntime` follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MinVruntime {
    /// Only the leftmost of those that wait (2.6.25 and 2.6.26).
    Leftmost,
    /// The leftmost or the running task, whichever is behind (2.6.24, and from 2.6.32 on).
    Running,
}

/// Which task may go before the leftmost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Buddy {
    /// None.
    None,
    /// The task woken last (2.6.25).
    Next,
    /// The task that has just preempted another on wakeup, or else the preempted task, on a queue
    /// of at least `nr_latency` tasks (from 2.6.32 on, with `NEXT_BUDDY` off).
    Last,
}

/// In which order the balancer examines tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The timeline's (2.6.24 and 2.6.25).
    Timeline,
    /// Most recently queued first (from 2.6.26 on).
    NewestFirst,
    /// The same, and the last of the list is never returned (2.6.26-rc1).
    NewestFirstButLast,
}

/// Rules of the class `cfs`. Durations are for one CPU; they grow with the logarithm of the number
/// of CPUs.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent rules of the class")]
pub struct CfsRules {
    /// Targeted latency (`sysctl_sched_latency`), in nanoseconds.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub latency_ns: u64,
    /// Minimum slice (`sysctl_sched_min_granularity`), in nanoseconds.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub min_granularity_ns: u64,
    /// Lag that preempts the running task (`sysctl_sched_wakeup_granularity`), in nanoseconds.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub wakeup_granularity_ns: u64,
    /// Up to this many tasks share one latency (`sched_nr_latency`).
    #[schemars(range(min = 1, max = 1000))]
    pub nr_latency: u64,
    /// CPUs beyond this number do not lengthen the durations: 8 from 2.6.33 on.
    #[schemars(range(min = 1, max = 4096))]
    pub scaling_cpus_max: usize,
    /// How fast virtual time runs.
    pub virtual_time: VirtualTime,
    /// What `min_vruntime` follows.
    pub min_vruntime: MinVruntime,
    /// A task that wakes up is credited half the latency instead of a whole one
    /// (`GENTLE_FAIR_SLEEPERS`, from 2.6.32 on).
    pub gentle_fair_sleepers: bool,
    /// The wakeup granularity is virtual time of the woken task, so shorter for a heavier one.
    pub weighted_granularity: bool,
    /// A child runs before its parent (`sched_child_runs_first`, up to 2.6.31).
    pub child_runs_first: bool,
    /// The tick also ends the turn of a task that is a slice ahead of the leftmost.
    pub tick_checks_lead: bool,
    /// Which task may go before the leftmost.
    pub buddy: Buddy,
    /// The task woken last, with the buddy `last` either of the two, counts as cache-hot for the
    /// balancer; see `sched.balance.hot_buddies`.
    pub buddy_hot: bool,
    /// In which order the balancer examines tasks.
    pub order: Order,
}

impl CfsRules {
    /// The same with the durations of `cpus` CPUs.
    fn scaled(&self, cpus: usize) -> Self {
        let factor = 1 + u64::from(cpus.clamp(1, self.scaling_cpus_max).ilog2());
        Self {
            latency_ns: (self.latency_ns * factor).min(LATENCY_CAP_NS),
            min_granularity_ns: (self.min_granularity_ns * factor).min(LATENCY_CAP_NS),
            wakeup_granularity_ns: self.wakeup_granularity_ns * factor,
            ..self.clone()
        }
    }

    fn period(&self, tasks: u64) -> u64 {
        if tasks <= self.nr_latency { self.latency_ns } else { self.min_granularity_ns * tasks }
    }

    /// How far in the past a waking task of `weight` is placed on a queue of `all`, itself
    /// included.
    fn credit(&self, weight: u64, all: u64) -> i64 {
        let credit = if self.gentle_fair_sleepers { self.latency_ns / 2 } else { self.latency_ns };
        let credit = match self.virtual_time {
            VirtualTime::Task => credit,
            VirtualTime::Queue => credit * weight / all.max(weight),
        };
        credit as i64
    }

    /// Virtual lag of `woken` beyond which it preempts on a queue of weight `all`.
    fn preemption_lag(&self, woken: &Entity, all: u64) -> i64 {
        let granularity = self.wakeup_granularity_ns;
        match self.virtual_time {
            VirtualTime::Queue => (granularity * all.max(WEIGHT) / WEIGHT) as i64,
            VirtualTime::Task if self.weighted_granularity => woken.virtual_ns(granularity),
            VirtualTime::Task => granularity as i64,
        }
    }
}

/// The fair class's queue of one CPU.
#[derive(Debug)]
pub(crate) struct Queue {
    rules: CfsRules,
    timeline: BTreeMap<(i64, u64), TaskId>,
    /// Runnable tasks, the running one included, by time of enqueueing.
    list: BTreeMap<u64, TaskId>,
    sequence: u64,
    /// Never decreases; see [`Queue::insert`].
    min_vruntime: i64,
    /// The task woken last, until it leaves the timeline.
    next: Option<TaskId>,
    /// The task that a wakeup preempted last, until it is picked or leaves.
    last: Option<TaskId>,
    /// Runnable tasks, the running one included, and the sum of their weights.
    tasks: u64,
    weight: u64,
}

impl Queue {
    /// An empty queue of a machine with `cpus` CPUs.
    pub(crate) fn new(rules: &CfsRules, cpus: usize) -> Self {
        Self {
            rules: rules.scaled(cpus),
            timeline: BTreeMap::new(),
            list: BTreeMap::new(),
            sequence: 0,
            min_vruntime: 0,
            next: None,
            last: None,
            tasks: 0,
            weight: 0,
        }
    }

    fn leftmost(&self) -> Option<(i64, TaskId)> {
        self.timeline.first_key_value().map(|(&(vruntime, _), &task)| (vruntime, task))
    }

    /// Whether `min_vruntime` follows the running task, too.
    fn follows_running(&self) -> bool {
        self.rules.min_vruntime == MinVruntime::Running
    }

    /// Puts a runnable, not running task into the timeline.
    fn insert(&mut self, task: TaskId, entity: &Entity) {
        self.sequence += 1;
        let key = (entity.vruntime.get(), self.sequence);
        self.timeline.insert(key, task);
        entity.key.set(Some(key));
        let first = self.timeline.first_key_value().map(|(first, _)| *first) == Some(key);
        if first && !self.follows_running() {
            self.min_vruntime = self.min_vruntime.max(key.0);
        }
    }

    /// Takes it out again, to run or to leave the queue.
    fn remove(&mut self, task: TaskId, entity: &Entity) {
        let Some(key) = entity.key.take() else { return };
        let was_first = self.timeline.first_key_value().map(|(first, _)| *first) == Some(key);
        self.timeline.remove(&key);
        if was_first
            && !self.follows_running()
            && let Some((vruntime, _)) = self.leftmost()
        {
            self.min_vruntime = self.min_vruntime.max(vruntime);
        }
        if self.next == Some(task) {
            self.next = None;
        }
    }

    /// [`MinVruntime::Running`]: `min_vruntime` follows the smaller of the running task and the
    /// leftmost.
    fn follow(&mut self, running: &Entity) {
        if self.follows_running() {
            let now = running.vruntime.get();
            let least = self.leftmost().map_or(now, |(first, _)| first.min(now));
            self.min_vruntime = self.min_vruntime.max(least);
        }
    }

    fn base(&self) -> i64 {
        if self.follows_running() {
            return self.min_vruntime;
        }
        self.leftmost().map_or(self.min_vruntime, |(first, _)| first.min(self.min_vruntime))
    }

    fn account(&mut self, task: TaskId, entity: &Entity) {
        self.sequence += 1;
        self.tasks += 1;
        self.weight += entity.weight();
        entity.on_queue.set(true);
        entity.listed.set(self.sequence);
        self.list.insert(self.sequence, task);
    }

    fn discount(&mut self, task: TaskId, entity: &Entity) {
        self.tasks -= 1;
        self.weight -= entity.weight();
        entity.on_queue.set(false);
        self.list.remove(&entity.listed.get());
        if self.last == Some(task) {
            self.last = None;
        }
    }

    /// Places a waking task that is counted already.
    fn place_woken(&self, entity: &Entity) {
        let floor = self.base() - self.rules.credit(entity.weight(), self.weight);
        entity.vruntime.set(entity.vruntime.get().max(floor));
    }

    /// Places a new task that is not counted yet: one slice of virtual time late.
    fn place_new(&self, entity: &Entity) {
        let period = self.rules.period(self.tasks + 1);
        let share = period * WEIGHT / (self.weight + entity.weight());
        let debit = match self.rules.virtual_time {
            VirtualTime::Task => share,
            VirtualTime::Queue => period,
        };
        entity.vruntime.set(self.base() + debit as i64);
    }

    /// Slice of a task of this queue.
    fn slice_of(&self, entity: &Entity) -> u64 {
        let period = self.rules.period(self.tasks.max(1));
        period * entity.weight() / self.weight.max(entity.weight())
    }

    fn run(&mut self, entity: &Entity, now: u64) {
        let ran = entity.run_until(now);
        let moved = match self.rules.virtual_time {
            VirtualTime::Task => entity.virtual_ns(ran),
            VirtualTime::Queue => (ran * self.weight.max(WEIGHT) / entity.weight()) as i64,
        };
        entity.vruntime.set(entity.vruntime.get() + moved);
        self.follow(entity);
    }

    fn lags(&self, woken: &Entity, current: &Entity) -> bool {
        let lag = self.rules.preemption_lag(woken, self.weight);
        current.vruntime.get() - woken.vruntime.get() > lag
    }

    /// The buddy when it is close enough, else the leftmost.
    fn choose(&self, vruntime_of: impl Fn(TaskId) -> i64) -> Option<TaskId> {
        let (first, leftmost) = self.leftmost()?;
        let rules = &self.rules;
        let by_queue = rules.virtual_time == VirtualTime::Queue;
        let granularity = rules.wakeup_granularity_ns;
        let (buddies, window) = match rules.buddy {
            Buddy::None => ([None; 2], 0),
            Buddy::Last => ([self.next, self.last], granularity),
            Buddy::Next if by_queue => {
                ([self.next, None], granularity * self.weight.max(WEIGHT) / WEIGHT)
            }
            Buddy::Next => ([self.next, None], granularity / self.tasks.max(1)),
        };
        let close = |&buddy: &TaskId| {
            let behind = vruntime_of(buddy) - first;
            behind <= window as i64 && (by_queue || behind >= 0)
        };
        Some(buddies.into_iter().flatten().find(close).unwrap_or(leftmost))
    }
}

impl Normal for Queue {
    fn enqueue(&mut self, task: &Tcb, why: Enqueue, _: u64) {
        self.account(task.id, &task.entity);
        if why == Enqueue::Woken {
            self.place_woken(&task.entity);
        }
        self.insert(task.id, &task.entity);
    }

    fn enqueue_new(&mut self, child: &Tcb, parent: Option<&Tcb>) {
        let entity = &child.entity;
        self.place_new(entity);
        if let Some(parent) = parent.filter(|_| self.rules.child_runs_first) {
            // The child runs first: when both share a CPU the parent carries the debit.
            let (theirs, mine) = (&entity.vruntime, &parent.entity.vruntime);
            if mine.get() < theirs.get() {
                mine.swap(theirs);
            }
        }
        self.account(child.id, entity);
        self.insert(child.id, entity);
        if self.rules.buddy != Buddy::Last {
            self.next = Some(child.id);
        }
    }

    fn dequeue(&mut self, task: &Tcb, _: Dequeue) -> bool {
        self.remove(task.id, &task.entity);
        self.discount(task.id, &task.entity);
        true
    }

    fn put_back(&mut self, task: &Tcb) {
        self.insert(task.id, &task.entity);
    }

    fn take(&mut self, task: &Tcb) {
        self.remove(task.id, &task.entity);
    }

    fn pick(&mut self, tcb: &dyn Fn(TaskId) -> Rc<Tcb>) -> Option<Rc<Tcb>> {
        let next = tcb(self.choose(|id| tcb(id).entity.vruntime.get())?);
        self.remove(next.id, &next.entity);
        if self.last == Some(next.id) {
            self.last = None;
        }
        Some(next)
    }

    fn charge(&mut self, task: &Tcb, now: u64) -> bool {
        self.run(&task.entity, now);
        false
    }

    fn tick(&mut self, task: &Tcb) -> bool {
        if self.tasks < 2 {
            return false;
        }
        let ran = task.entity.sum_exec.get() - task.entity.picked_at.get();
        let slice = self.slice_of(&task.entity);
        if ran > slice {
            self.last = None;
            return true;
        }
        let first = self.leftmost().map_or(i64::MAX, |(first, _)| first);
        let behind = task.entity.vruntime.get().saturating_sub(first);
        let rules = &self.rules;
        rules.tick_checks_lead && ran >= rules.min_granularity_ns && behind > slice as i64
    }

    fn preempts(&mut self, woken: &Tcb, current: &Tcb) -> bool {
        let preempts = self.lags(&woken.entity, &current.entity);
        if preempts || self.rules.buddy != Buddy::Last {
            self.next = Some(woken.id);
        }
        // A task that goes to sleep may have left the queue already, which was unlocked to balance.
        let stays = current.entity.on_queue.get();
        if preempts && stays && self.tasks >= self.rules.nr_latency {
            self.last = Some(current.id);
        }
        preempts
    }

    fn candidates(&self, most: usize) -> Vec<TaskId> {
        let usable = match self.rules.order {
            Order::Timeline => return self.timeline.values().copied().take(most).collect(),
            Order::NewestFirst => self.list.len(),
            Order::NewestFirstButLast => self.list.len().saturating_sub(1),
        };
        self.list.values().rev().copied().take(usable.min(most)).collect()
    }

    fn slice(&self, task: &Tcb) -> Option<u64> {
        (self.tasks > 1).then(|| self.slice_of(&task.entity))
    }

    fn origin(&self) -> i64 {
        self.min_vruntime
    }

    fn is_hot_buddy(&self, task: TaskId) -> bool {
        let last = self.last.filter(|_| self.rules.buddy == Buddy::Last);
        self.rules.buddy_hot && [self.next, last].contains(&Some(task))
    }
}

#[cfg(test)]
mod tests;
