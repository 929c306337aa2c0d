//! The O(1) scheduler of 2.6.16: two arrays of lists by priority, time slices, and a bonus for
//! tasks that sleep.
//!
//! A task waits in the *active* array, and in the *expired* array once it has used up its slice;
//! when the active array is empty the two are swapped. A task that sleeps much is *interactive*:
//! its priority is better by up to 5, and at the end of its slice it stays active unless others
//! starve.
//!
//! Times are nanoseconds, slices ticks. Constants and rules follow `kernel/sched.c` of 2.6.16. Not
//! modelled: the credit for time spent waiting on a queue.

use super::entity::{O1Key, O1Share};
use super::normal::{Dequeue, Enqueue, Normal};
use super::task::{State, Tcb};
use convoy_sync::{Sleep, TaskId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Slice of a nice-0 task and round-robin granularity of the most interactive ones.
const SLICE_MS: u64 = 100;
const GRANULARITY_MS: u64 = 10;
/// A task that has slept this long, on balance, has the full bonus.
const SLEEP_MAX_NS: u64 = 1_000_000_000;
const BONUS_MAX: u64 = 10;
/// An interactive task has a priority at least this much better than its nice value says.
const INTERACTIVE_DELTA: i64 = 2;
/// A child starts with this part of its parent's bonus, in percent.
const CHILD_PENALTY: u64 = 95;

/// Its bonus for sleeping, 0 to [`BONUS_MAX`].
fn bonus(share: &O1Share) -> u64 {
    share.sleep_avg.get() * BONUS_MAX / SLEEP_MAX_NS
}

/// Priority that the nice value says, 100 to 139.
fn static_prio(task: &Tcb) -> i64 {
    120 + i64::from(task.entity.nice())
}

fn effective_prio(task: &Tcb) -> i64 {
    let bonus = bonus(&task.entity.o1) as i64 - BONUS_MAX as i64 / 2;
    (static_prio(task) - bonus).clamp(100, 139)
}

/// How much better than [`static_prio`] the priority of an interactive task is.
fn delta(task: &Tcb) -> i64 {
    i64::from(task.entity.nice()) * BONUS_MAX as i64 / 40 + INTERACTIVE_DELTA
}

fn interactive(task: &Tcb) -> bool {
    task.entity.o1.prio.get() <= static_prio(task) - delta(task)
}

/// Charges the run that ends when the task leaves the CPU.
fn ran(task: &Tcb) {
    let share = &task.entity.o1;
    let ran = task.entity.sum_exec.get() - task.entity.picked_at.get();
    let charged = ran.min(SLEEP_MAX_NS) / bonus(share).max(1);
    share.sleep_avg.set(share.sleep_avg.get().saturating_sub(charged));
    share.stamp.set(task.entity.exec_start.get());
}

/// The queue of one CPU.
#[derive(Debug)]
pub(crate) struct Queue {
    active: BTreeMap<O1Key, TaskId>,
    expired: BTreeMap<O1Key, TaskId>,
    tasks: u64,
    /// The last places given out at both ends of the lists, and the order of the last task queued.
    head: i64,
    tail: i64,
    order: u64,
    cpus: u64,
    tick_ns: u64,
    /// When the first task of the expired array got there.
    expired_at: Option<u64>,
    /// Best nice value's priority in the expired array.
    best_expired: i64,
}

impl Queue {
    pub(crate) fn new(hz: u32, cpus: usize) -> Self {
        Self {
            active: BTreeMap::new(),
            expired: BTreeMap::new(),
            tasks: 0,
            head: 0,
            tail: 0,
            order: 0,
            cpus: cpus as u64,
            tick_ns: 1_000_000_000 / u64::from(hz),
            expired_at: None,
            best_expired: i64::MAX,
        }
    }

    fn ticks(&self, ms: u64) -> u64 {
        (ms * 1_000_000 / self.tick_ns).max(1)
    }

    /// Full slice in ticks: 5 ms for each step above the worst priority, 20 ms for nice values
    /// below 0.
    fn slice_of(&self, task: &Tcb) -> u64 {
        let steps = (140 - static_prio(task)) as u64;
        let unit = if static_prio(task) < 120 { 4 * SLICE_MS } else { SLICE_MS };
        self.ticks((unit * steps / 20).max(5))
    }

    fn granularity(&self, task: &Tcb) -> u64 {
        let shift = (BONUS_MAX - bonus(&task.entity.o1)).max(1) - 1;
        self.ticks((GRANULARITY_MS << shift) * self.cpus)
    }

    fn new_place(&mut self) -> i64 {
        self.tail += 1;
        self.tail
    }

    fn insert(&mut self, task: &Tcb) {
        let share = &task.entity.o1;
        self.order += 1;
        let key = (share.prio.get(), share.place.get(), self.order);
        share.key.set(Some(key));
        let array = if share.expired.get() { &mut self.expired } else { &mut self.active };
        array.insert(key, task.id);
    }

    fn remove(&mut self, task: &Tcb) {
        let share = &task.entity.o1;
        let Some(key) = share.key.take() else { return };
        let array = if share.expired.get() { &mut self.expired } else { &mut self.active };
        array.remove(&key);
    }

    /// Credits the sleep that ends at `now`.
    fn wake_up(&self, task: &Tcb, now: u64) {
        let share = &task.entity.o1;
        let slept = now.saturating_sub(share.stamp.get()).min(SLEEP_MAX_NS);
        let steps = (BONUS_MAX as i64 / 2 + delta(task) + 1).max(0) as u64;
        let enough = SLEEP_MAX_NS * steps / BONUS_MAX - self.tick_ns;
        let average = share.sleep_avg.get();
        share.sleep_avg.set(if share.disk.get() {
            let more = average + slept * (BONUS_MAX - bonus(share)).max(1);
            average.max(more.min(enough))
        } else if slept > enough {
            SLEEP_MAX_NS - SLICE_MS * 1_000_000
        } else {
            (average + slept * (BONUS_MAX - bonus(share)).max(1)).min(SLEEP_MAX_NS)
        });
    }

    /// Whether the expired tasks have waited too long, or one of them is nicer to us than `task`.
    fn starving(&self, task: &Tcb) -> bool {
        let now = task.entity.exec_start.get();
        let limit = SLEEP_MAX_NS * self.tasks + self.tick_ns;
        self.expired_at.is_some_and(|since| now - since >= limit)
            || static_prio(task) > self.best_expired
    }

    /// The slice of the running task is over: it gets a new one, in the array where it belongs.
    fn expire(&mut self, task: &Tcb) {
        let share = &task.entity.o1;
        share.prio.set(effective_prio(task));
        share.left.set(self.slice_of(task));
        share.first_slice.set(false);
        share.place.set(self.new_place());
        if !interactive(task) || self.starving(task) {
            share.expired.set(true);
            self.expired_at.get_or_insert(task.entity.exec_start.get());
            self.best_expired = self.best_expired.min(static_prio(task));
        }
    }

    /// An exiting child returns the rest of its first slice to its parent, and its sleep average
    /// counts for the parent.
    fn give_back(&self, child: &Tcb) {
        let share = &child.entity.o1;
        let Some(parent) = child.parent.borrow().upgrade() else { return };
        let theirs = &parent.entity.o1;
        if share.first_slice.get() && parent.cpu.get() == child.cpu.get() {
            let left = theirs.left.get() + share.left.get();
            theirs.left.set(left.min(self.slice_of(&parent)));
        }
        if share.sleep_avg.get() < theirs.sleep_avg.get() {
            theirs.sleep_avg.set((3 * theirs.sleep_avg.get() + share.sleep_avg.get()) / 4);
        }
    }
}

impl Normal for Queue {
    fn enqueue(&mut self, task: &Tcb, why: Enqueue, now: u64) {
        let share = &task.entity.o1;
        if why == Enqueue::Woken {
            self.wake_up(task, now);
        }
        if share.left.get() == 0 {
            share.left.set(self.slice_of(task));
        }
        share.prio.set(effective_prio(task));
        // A task that moves keeps its array; a sleeper was active.
        share.place.set(self.new_place());
        if why == Enqueue::Woken {
            share.expired.set(false);
        }
        task.entity.on_queue.set(true);
        self.tasks += 1;
        self.insert(task);
    }

    fn enqueue_new(&mut self, child: &Tcb, parent: Option<&Tcb>) {
        let share = &child.entity.o1;
        let place = self.new_place();
        share.place.set(place);
        if let Some(parent) = parent {
            // Both share the slice; the child goes right before its parent and runs first.
            let theirs = &parent.entity.o1;
            let left = theirs.left.get();
            share.left.set(left.div_ceil(2).max(1));
            theirs.left.set((left / 2).max(1));
            share.first_slice.set(true);
            let bonus = bonus(theirs) * CHILD_PENALTY / 100;
            share.sleep_avg.set(bonus * SLEEP_MAX_NS / BONUS_MAX);
            share.stamp.set(parent.entity.exec_start.get());
            self.head -= 1;
            share.place.set(self.head);
            theirs.place.set(self.head);
            share.prio.set(theirs.prio.get());
        } else {
            share.left.set(self.slice_of(child));
            share.prio.set(effective_prio(child));
        }
        child.entity.on_queue.set(true);
        self.tasks += 1;
        self.insert(child);
    }

    fn dequeue(&mut self, task: &Tcb, why: Dequeue) -> bool {
        if task.entity.o1.key.get().is_none() {
            ran(task);
        }
        self.remove(task);
        let share = &task.entity.o1;
        if why == Dequeue::Sleeps {
            let disk = task.state.get() == State::Asleep(Sleep::Uninterruptible);
            share.disk.set(disk);
        } else if task.state.get() == State::Dead {
            self.give_back(task);
        }
        task.entity.on_queue.set(false);
        self.tasks -= 1;
        true
    }

    fn put_back(&mut self, task: &Tcb) {
        ran(task);
        self.insert(task);
    }

    fn take(&mut self, task: &Tcb) {
        self.remove(task);
    }

    fn pick(&mut self, tcb: &dyn Fn(TaskId) -> Rc<Tcb>) -> Option<Rc<Tcb>> {
        if self.active.is_empty() {
            core::mem::swap(&mut self.active, &mut self.expired);
            self.expired_at = None;
            self.best_expired = i64::MAX;
            for &task in self.active.values() {
                tcb(task).entity.o1.expired.set(false);
            }
        }
        let next = tcb(*self.active.first_key_value()?.1);
        self.remove(&next);
        Some(next)
    }

    fn charge(&mut self, task: &Tcb, now: u64) -> bool {
        task.entity.run_until(now);
        false
    }

    fn tick(&mut self, task: &Tcb) -> bool {
        let share = &task.entity.o1;
        share.left.set(share.left.get().saturating_sub(1));
        if share.left.get() == 0 {
            self.expire(task);
            return true;
        }
        let granule = self.granularity(task);
        let used = self.slice_of(task).saturating_sub(share.left.get());
        let turn = interactive(task) && used.is_multiple_of(granule) && share.left.get() >= granule;
        if turn {
            share.place.set(self.new_place());
        }
        turn
    }

    fn preempts(&mut self, woken: &Tcb, current: &Tcb) -> bool {
        woken.entity.o1.prio.get() < current.entity.o1.prio.get()
    }

    fn candidates(&self, most: usize) -> Vec<TaskId> {
        // Expired tasks first, which have the coldest caches; in each array by priority and from
        // the tail of each list.
        let mut all = Vec::new();
        for array in [&self.expired, &self.active] {
            let mut keys: Vec<_> = array.iter().collect();
            keys.sort_by_key(|((prio, place, _), _)| (*prio, core::cmp::Reverse(*place)));
            all.extend(keys.into_iter().map(|(_, &task)| task));
        }
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests;
