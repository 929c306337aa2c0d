//! The fair class: virtual time, the timeline, slices, buddies, wakeup preemption.
//!
//! Times are nanoseconds. All tasks have nice 0, so a queue's weight is its number of tasks.
//! Constants and rules are those of `kernel/sched_fair.c` of 2.6.25 and of 2.6.26-rc1 (commit
//! c0a18111e571); where the two differ, [`Rules`] says how.

use crate::preset::{Ablation, Scheduler};
use convoy_sync::TaskId;
use core::cell::Cell;
use std::collections::BTreeMap;

/// Weight of a nice-0 task.
pub const WEIGHT: u64 = 1024;
/// Weight of the super user's group over all CPUs (`ROOT_TASK_GROUP_LOAD`, two tasks' worth).
pub const GROUP_SHARES: u64 = 2 * WEIGHT;
/// Up to this many tasks share one latency period.
const NR_LATENCY: u64 = 5;
/// Base values before scaling with the number of CPUs (`sysctl_sched_*` of both versions).
const LATENCY_NS: u64 = 20_000_000;
const MIN_GRANULARITY_NS: u64 = 4_000_000;
const LATENCY_CAP_NS: u64 = 200_000_000;
const WAKEUP_GRANULARITY_25_NS: u64 = 5_000_000;
const WAKEUP_GRANULARITY_26_NS: u64 = 10_000_000;

/// A task as the fair class sees it.
#[derive(Debug, Default)]
pub struct Entity {
    /// Virtual run time.
    pub vruntime: Cell<i64>,
    /// Start of the interval not yet charged; last time it was seen running.
    pub exec_start: Cell<u64>,
    /// Run time so far.
    pub sum_exec: Cell<u64>,
    /// `sum_exec` when it was last picked.
    pub picked_at: Cell<u64>,
    /// Runnable: queued or running.
    pub on_queue: Cell<bool>,
    /// `sum_exec` at the last wakeup it made.
    pub last_wakeup: Cell<u64>,
    /// Average run time between a wakeup it makes and its going to sleep.
    pub avg_overlap: Cell<u64>,
    /// Key in the timeline, while it is there.
    key: Cell<Option<(i64, u64)>>,
    /// Key in the list of runnable tasks.
    listed: Cell<u64>,
}

/// What distinguishes the two generations, resolved for a number of CPUs.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent rules")]
pub struct Rules {
    /// Targeted latency.
    pub latency: u64,
    /// Minimum slice.
    pub min_granularity: u64,
    /// Lag that preempts the running task.
    pub wakeup_granularity: u64,
    /// 2.6.26-rc1: virtual time runs n times as fast as wall time, credit shrinks by n.
    scaled: bool,
    buddy_next: bool,
    /// 2.6.26-rc1: the balancer walks the list of tasks instead of the timeline.
    pub list_order: bool,
    /// 2.6.26-rc1: and never returns its last entry.
    pub skip_last: bool,
}

impl Rules {
    /// The rules of `scheduler` for `cpus` CPUs.
    pub fn new(scheduler: Scheduler, ablation: &Ablation, cpus: usize) -> Self {
        let factor = 1 + u64::from(cpus.max(1).ilog2());
        let new = scheduler == Scheduler::Cfs26Rc1;
        let scaled = new && !ablation.vtime_25;
        let wakeup = if scaled { WAKEUP_GRANULARITY_26_NS } else { WAKEUP_GRANULARITY_25_NS };
        Self {
            latency: (LATENCY_NS * factor).min(LATENCY_CAP_NS),
            min_granularity: (MIN_GRANULARITY_NS * factor).min(LATENCY_CAP_NS),
            wakeup_granularity: wakeup * factor,
            scaled,
            buddy_next: ablation.buddy_next,
            list_order: new,
            skip_last: new && ablation.skip_last_entry,
        }
    }

    fn period(&self, tasks: u64) -> u64 {
        if tasks <= NR_LATENCY { self.latency } else { self.min_granularity * tasks }
    }

    /// Slice of one of `tasks` tasks.
    pub fn slice(&self, tasks: u64) -> u64 {
        self.period(tasks.max(1)) / tasks.max(1)
    }

    /// `wall` nanoseconds of running, as virtual time on a queue of `tasks`.
    fn virtual_time(&self, wall: u64, tasks: u64) -> i64 {
        if self.scaled { (wall * tasks.max(1)) as i64 } else { wall as i64 }
    }

    /// How far in the past a waking task is placed on a queue of `tasks`, itself included.
    fn credit(&self, tasks: u64) -> i64 {
        if self.scaled { (self.latency / tasks.max(1)) as i64 } else { self.latency as i64 }
    }

    /// Debit of a new task on a queue that has `tasks` without it.
    fn debit(&self, tasks: u64) -> i64 {
        let period = self.period(tasks + 1);
        if self.scaled { period as i64 } else { (period / (tasks + 1)) as i64 }
    }

    /// Virtual lag beyond which a waking task preempts.
    fn preemption_lag(&self, tasks: u64) -> i64 {
        self.virtual_time(self.wakeup_granularity, tasks)
    }

    /// How far behind the leftmost the buddy may be and still go first.
    fn buddy_window(&self, tasks: u64) -> i64 {
        if self.scaled {
            self.preemption_lag(tasks)
        } else {
            (self.wakeup_granularity / tasks.max(1)) as i64
        }
    }
}

/// The fair class's queue of one CPU.
#[derive(Debug, Default)]
pub struct Queue {
    timeline: BTreeMap<(i64, u64), TaskId>,
    /// Runnable tasks, the running one included, by time of enqueueing.
    list: BTreeMap<u64, TaskId>,
    sequence: u64,
    /// Never decreases; see [`Queue::insert`].
    pub min_vruntime: i64,
    /// The task woken last, until it leaves the timeline.
    pub next: Option<TaskId>,
    /// Runnable tasks, the running one included.
    pub tasks: u64,
}

impl Queue {
    fn leftmost(&self) -> Option<(i64, TaskId)> {
        self.timeline.first_key_value().map(|(&(vruntime, _), &task)| (vruntime, task))
    }

    /// Puts a runnable, not running task into the timeline. `min_vruntime` follows only the
    /// leftmost entry.
    pub fn insert(&mut self, task: TaskId, entity: &Entity) {
        self.sequence += 1;
        let key = (entity.vruntime.get(), self.sequence);
        self.timeline.insert(key, task);
        entity.key.set(Some(key));
        if self.timeline.first_key_value().map(|(first, _)| *first) == Some(key) {
            self.min_vruntime = self.min_vruntime.max(key.0);
        }
    }

    /// Takes it out again, to run or to leave the queue.
    pub fn remove(&mut self, task: TaskId, entity: &Entity) {
        let Some(key) = entity.key.take() else { return };
        let was_first = self.timeline.first_key_value().map(|(first, _)| *first) == Some(key);
        self.timeline.remove(&key);
        if was_first && let Some((vruntime, _)) = self.leftmost() {
            self.min_vruntime = self.min_vruntime.max(vruntime);
        }
        if self.next == Some(task) {
            self.next = None;
        }
    }

    /// Charges the running task up to `now`.
    pub fn charge(&self, entity: &Entity, now: u64, rules: &Rules) {
        let ran = now.saturating_sub(entity.exec_start.get());
        entity.exec_start.set(now);
        entity.sum_exec.set(entity.sum_exec.get() + ran);
        entity.vruntime.set(entity.vruntime.get() + rules.virtual_time(ran, self.tasks));
    }

    fn base(&self) -> i64 {
        self.leftmost().map_or(self.min_vruntime, |(first, _)| first.min(self.min_vruntime))
    }

    /// Counts a task in; [`Self::place_woken`] and [`Self::insert`] follow.
    pub fn account(&mut self, task: TaskId, entity: &Entity) {
        self.sequence += 1;
        self.tasks += 1;
        entity.on_queue.set(true);
        entity.listed.set(self.sequence);
        self.list.insert(self.sequence, task);
    }

    /// Counts a task out.
    pub fn discount(&mut self, entity: &Entity) {
        self.tasks -= 1;
        entity.on_queue.set(false);
        self.list.remove(&entity.listed.get());
    }

    /// Places a waking task that is counted already.
    pub fn place_woken(&self, entity: &Entity, rules: &Rules) {
        let floor = self.base() - rules.credit(self.tasks);
        entity.vruntime.set(entity.vruntime.get().max(floor));
    }

    /// Places a new task that is not counted yet.
    pub fn place_new(&self, entity: &Entity, rules: &Rules) {
        entity.vruntime.set(self.base() + rules.debit(self.tasks));
    }

    /// Whether `woken`, just inserted, preempts the running `current`.
    pub fn preempts(&self, woken: &Entity, current: &Entity, rules: &Rules) -> bool {
        current.vruntime.get() - woken.vruntime.get() > rules.preemption_lag(self.tasks)
    }

    /// The task to run next: the buddy when it is close enough, else the leftmost.
    pub fn pick(&self, vruntime_of: impl Fn(TaskId) -> i64, rules: &Rules) -> Option<TaskId> {
        let (first, leftmost) = self.leftmost()?;
        let Some(buddy) = self.next.filter(|_| rules.buddy_next) else { return Some(leftmost) };
        let behind = vruntime_of(buddy) - first;
        let close = behind <= rules.buddy_window(self.tasks) && (rules.scaled || behind >= 0);
        Some(if close { buddy } else { leftmost })
    }

    /// Tasks in the order in which the balancer of this generation examines them.
    pub fn candidates(&self, rules: &Rules, most: usize) -> Vec<TaskId> {
        if !rules.list_order {
            return self.timeline.values().copied().take(most).collect();
        }
        let usable = self.list.len() - usize::from(rules.skip_last && !self.list.is_empty());
        self.list.values().rev().copied().take(usable.min(most)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(scheduler: Scheduler) -> Rules {
        Rules::new(scheduler, &Ablation::default(), 4)
    }

    #[test]
    fn constants_scale_with_cpus() {
        let old = rules(Scheduler::Cfs25);
        assert_eq!(
            (old.latency, old.min_granularity, old.wakeup_granularity),
            (60_000_000, 12_000_000, 15_000_000)
        );
        assert_eq!(rules(Scheduler::Cfs26Rc1).wakeup_granularity, 30_000_000);
        let big = Rules::new(Scheduler::Cfs26Rc1, &Ablation::default(), 1024);
        assert_eq!(big.latency, 200_000_000);
    }

    #[test]
    fn slices_of_the_period() {
        let rules = rules(Scheduler::Cfs25);
        let slices: Vec<_> = [1, 2, 3, 4, 5, 6, 500].map(|n| rules.slice(n) / 1_000_000).into();
        assert_eq!(slices, [60, 30, 20, 15, 12, 12, 12]);
    }

    #[test]
    fn a_long_sleeper_preempts_in_25_and_not_in_rc1() {
        for (scheduler, expected) in [(Scheduler::Cfs25, true), (Scheduler::Cfs26Rc1, false)] {
            let rules = rules(scheduler);
            let mut queue = Queue::default();
            let (running, woken) = (Entity::default(), Entity::default());
            // A second queued task lets min_vruntime pass the sleeper's old place.
            let other = Entity::default();
            running.vruntime.set(1_000_000_000);
            other.vruntime.set(1_000_000_000);
            queue.account(1, &running);
            queue.account(2, &other);
            queue.insert(2, &other);
            queue.account(3, &woken);
            queue.place_woken(&woken, &rules);
            queue.insert(3, &woken);
            assert_eq!(queue.preempts(&woken, &running, &rules), expected);
        }
    }

    #[test]
    fn buddy_is_honoured_on_a_long_queue_in_rc1_only() {
        for (scheduler, expected) in [(Scheduler::Cfs25, 0), (Scheduler::Cfs26Rc1, 499)] {
            let rules = rules(scheduler);
            let mut queue = Queue::default();
            let entities: Vec<_> = (0..500).map(|_| Entity::default()).collect();
            for (id, entity) in entities.iter().enumerate() {
                entity.vruntime.set(id as i64 * 20_000);
                queue.account(id as TaskId, entity);
                queue.insert(id as TaskId, entity);
            }
            queue.next = Some(499);
            let picked = queue.pick(|id| entities[id as usize].vruntime.get(), &rules);
            assert_eq!(picked, Some(expected));
        }
    }

    #[test]
    fn the_balancer_of_rc1_never_sees_the_last_entry() {
        let mut queue = Queue::default();
        let entities: Vec<_> = (0..3).map(|_| Entity::default()).collect();
        for (id, entity) in entities.iter().enumerate() {
            queue.account(id as TaskId, entity);
            queue.insert(id as TaskId, entity);
        }
        assert_eq!(queue.candidates(&rules(Scheduler::Cfs26Rc1), 33), [2, 1]);
        assert_eq!(queue.candidates(&rules(Scheduler::Cfs25), 33), [0, 1, 2]);
        queue.remove(2, &entities[2]);
        queue.discount(&entities[2]);
        queue.remove(1, &entities[1]);
        queue.discount(&entities[1]);
        assert!(queue.candidates(&rules(Scheduler::Cfs26Rc1), 33).is_empty());
    }
}
