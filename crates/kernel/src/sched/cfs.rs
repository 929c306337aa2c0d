//! The fair class from 2.6.24 to 6.5: virtual time, the timeline, slices, buddies, wakeup
//! preemption.
//!
//! Times are nanoseconds. Constants and rules are those of `kernel/sched_fair.c` of 2.6.24, 2.6.25,
//! 2.6.26-rc1 (commit c0a18111e571) and 3.0 (the same to 3.7); where they differ, [`Rules`] says
//! how.

use super::Tcb;
use super::entity::{Entity, WEIGHT};
use super::normal::{Dequeue, Enqueue, Normal};
use crate::preset::{Ablation, Scheduler};
use convoy_sync::TaskId;
use std::collections::BTreeMap;
use std::rc::Rc;

/// No latency or granularity was longer than this up to 2.6.26.
const LATENCY_CAP_NS: u64 = 200_000_000;
/// From 2.6.33 on further CPUs do not lengthen the tunables.
const SCALE_CPUS_MAX: usize = 8;

/// Base values before scaling with the number of CPUs (`sysctl_sched_*`).
struct Base {
    latency: u64,
    min_granularity: u64,
    wakeup_granularity: u64,
    /// Up to this many tasks share one latency period.
    nr_latency: u64,
}

const fn base(scheduler: Scheduler) -> Base {
    match scheduler {
        Scheduler::Cfs30 | Scheduler::Cfs37 => Base {
            latency: 6_000_000,
            min_granularity: 750_000,
            wakeup_granularity: 1_000_000,
            nr_latency: 8,
        },
        Scheduler::Cfs25 => Base {
            latency: 20_000_000,
            min_granularity: 4_000_000,
            wakeup_granularity: 5_000_000,
            nr_latency: 5,
        },
        _ => Base {
            latency: 20_000_000,
            min_granularity: 4_000_000,
            wakeup_granularity: 10_000_000,
            nr_latency: 5,
        },
    }
}

/// Which task may go before the leftmost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buddy {
    /// None.
    No,
    /// The one woken last.
    WokenLast,
    /// The one that a wakeup has preempted, on a queue of at least `nr_latency` tasks.
    PreemptedLast,
}

/// In which order the balancer examines tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// That of the timeline.
    Timeline,
    /// Most recently queued first.
    NewestFirst,
    /// The same, and the last of the list is never returned (2.6.26-rc1).
    NewestFirstButOne,
}

/// What distinguishes the generations, resolved for a number of CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Targeted latency.
    latency: u64,
    /// Minimum slice.
    min_granularity: u64,
    /// Lag that preempts the running task.
    wakeup_granularity: u64,
    nr_latency: u64,
    /// 2.6.26-rc1: virtual time runs n times as fast as wall time, credit shrinks by n.
    scaled: bool,
    /// From 2.6.32 on: a sleeper gets half the latency, the parent runs before its child, the
    /// running task moves `min_vruntime`, and the tick also looks at the leftmost task.
    modern: bool,
    buddy: Buddy,
    order: Order,
}

impl Rules {
    /// The rules of `scheduler` for `cpus` CPUs.
    pub(crate) fn new(scheduler: Scheduler, ablation: &Ablation, cpus: usize) -> Self {
        let modern = matches!(scheduler, Scheduler::Cfs30 | Scheduler::Cfs37);
        let counted = if modern { cpus.min(SCALE_CPUS_MAX) } else { cpus };
        let factor = 1 + u64::from(counted.max(1).ilog2());
        let rc1 = scheduler == Scheduler::Cfs26Rc1;
        let scaled = rc1 && !ablation.vtime_25;
        let plain = if rc1 && !scaled { Scheduler::Cfs25 } else { scheduler };
        let base = base(plain);
        let buddy = match scheduler {
            Scheduler::Cfs30 | Scheduler::Cfs37 => Buddy::PreemptedLast,
            Scheduler::Cfs25 | Scheduler::Cfs26Rc1 if ablation.buddy_next => Buddy::WokenLast,
            _ => Buddy::No,
        };
        let order = match scheduler {
            Scheduler::Cfs26Rc1 if ablation.skip_last_entry => Order::NewestFirstButOne,
            Scheduler::Cfs26Rc1 | Scheduler::Cfs30 | Scheduler::Cfs37 => Order::NewestFirst,
            _ => Order::Timeline,
        };
        Self {
            latency: (base.latency * factor).min(LATENCY_CAP_NS),
            min_granularity: (base.min_granularity * factor).min(LATENCY_CAP_NS),
            wakeup_granularity: base.wakeup_granularity * factor,
            nr_latency: base.nr_latency,
            scaled,
            modern,
            buddy,
            order,
        }
    }

    fn period(&self, tasks: u64) -> u64 {
        if tasks <= self.nr_latency { self.latency } else { self.min_granularity * tasks }
    }

    /// How far in the past a waking task of `weight` is placed on a queue of `all`, itself
    /// included.
    fn credit(&self, weight: u64, all: u64) -> i64 {
        let credit = match (self.scaled, self.modern) {
            (true, _) => self.latency * weight / all.max(weight),
            (false, true) => self.latency / 2,
            (false, false) => self.latency,
        };
        credit as i64
    }

    /// Virtual lag of `woken` beyond which it preempts on a queue of weight `all`.
    fn preemption_lag(&self, woken: &Entity, all: u64) -> i64 {
        let granularity = self.wakeup_granularity;
        match (self.scaled, self.modern) {
            (true, _) => (granularity * all.max(WEIGHT) / WEIGHT) as i64,
            (false, true) => woken.virtual_ns(granularity),
            (false, false) => granularity as i64,
        }
    }
}

/// The fair class's queue of one CPU.
#[derive(Debug)]
pub(crate) struct Queue {
    rules: Rules,
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
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
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

    /// Puts a runnable, not running task into the timeline. `min_vruntime` follows only the
    /// leftmost entry, except in modern kernels ([`Self::follow`]).
    fn insert(&mut self, task: TaskId, entity: &Entity) {
        self.sequence += 1;
        let key = (entity.vruntime.get(), self.sequence);
        self.timeline.insert(key, task);
        entity.key.set(Some(key));
        let first = self.timeline.first_key_value().map(|(first, _)| *first) == Some(key);
        if first && !self.rules.modern {
            self.min_vruntime = self.min_vruntime.max(key.0);
        }
    }

    /// Takes it out again, to run or to leave the queue.
    fn remove(&mut self, task: TaskId, entity: &Entity) {
        let Some(key) = entity.key.take() else { return };
        let was_first = self.timeline.first_key_value().map(|(first, _)| *first) == Some(key);
        self.timeline.remove(&key);
        if was_first
            && !self.rules.modern
            && let Some((vruntime, _)) = self.leftmost()
        {
            self.min_vruntime = self.min_vruntime.max(vruntime);
        }
        if self.next == Some(task) {
            self.next = None;
        }
    }

    /// Modern kernels: `min_vruntime` follows the smaller of the running task and the leftmost.
    fn follow(&mut self, running: &Entity) {
        if self.rules.modern {
            let now = running.vruntime.get();
            let least = self.leftmost().map_or(now, |(first, _)| first.min(now));
            self.min_vruntime = self.min_vruntime.max(least);
        }
    }

    fn base(&self) -> i64 {
        if self.rules.modern {
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

    /// Places a new task that is not counted yet: one slice, or in 2.6.26-rc1 one period, late.
    fn place_new(&self, entity: &Entity) {
        let period = self.rules.period(self.tasks + 1);
        let share = period * WEIGHT / (self.weight + entity.weight());
        let debit = if self.rules.scaled { period } else { share };
        entity.vruntime.set(self.base() + debit as i64);
    }

    /// Slice of a task of this queue.
    fn slice_of(&self, entity: &Entity) -> u64 {
        let period = self.rules.period(self.tasks.max(1));
        period * entity.weight() / self.weight.max(entity.weight())
    }

    fn run(&mut self, entity: &Entity, now: u64) {
        let ran = entity.run_until(now);
        let moved = if self.rules.scaled {
            (ran * self.weight.max(WEIGHT) / entity.weight()) as i64
        } else {
            entity.virtual_ns(ran)
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
        let (buddy, window) = match rules.buddy {
            Buddy::No => (None, 0),
            Buddy::PreemptedLast => (self.last, rules.wakeup_granularity as i64),
            Buddy::WokenLast if rules.scaled => {
                let granularity = rules.wakeup_granularity * self.weight.max(WEIGHT) / WEIGHT;
                (self.next, granularity as i64)
            }
            Buddy::WokenLast => (self.next, (rules.wakeup_granularity / self.tasks.max(1)) as i64),
        };
        let Some(buddy) = buddy else { return Some(leftmost) };
        let behind = vruntime_of(buddy) - first;
        let close = behind <= window && (rules.scaled || behind >= 0);
        Some(if close { buddy } else { leftmost })
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
        if let Some(parent) = parent.filter(|_| !self.rules.modern) {
            // The child runs first: when both share a CPU the parent carries the debit.
            let (theirs, mine) = (&entity.vruntime, &parent.entity.vruntime);
            if mine.get() < theirs.get() {
                mine.swap(theirs);
            }
        }
        self.account(child.id, entity);
        self.insert(child.id, entity);
        self.next = Some(child.id);
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
        self.rules.modern && ran >= self.rules.min_granularity && behind > slice as i64
    }

    fn preempts(&mut self, woken: &Tcb, current: &Tcb) -> bool {
        self.next = Some(woken.id);
        let preempts = self.lags(&woken.entity, &current.entity);
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
            Order::NewestFirstButOne => self.list.len().saturating_sub(1),
        };
        self.list.values().rev().copied().take(usable.min(most)).collect()
    }

    fn slice(&self, task: &Tcb) -> Option<u64> {
        (self.tasks > 1).then(|| self.slice_of(&task.entity))
    }

    fn origin(&self) -> i64 {
        self.min_vruntime
    }

    fn buddy(&self) -> Option<TaskId> {
        self.next
    }
}

#[cfg(test)]
mod tests;
