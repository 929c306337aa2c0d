//! The run queues of a machine, and what every change of one changes with it.
//!
//! The order of the classes: real-time tasks, then ordinary ones, then the idle task. Every change
//! of a queue goes through here, with the queue's lock held; the lock is a spinlock in simulated
//! memory, all else a queue holds is plain data under it.

use super::domains::Domain;
use super::fair_server::FairServers;
use super::idlers::IdleTimes;
use super::loadavg::LoadAverage;
use super::loads::Loads;
use super::normal::{Dequeue, Enqueue, Normal};
use super::rt;
use super::rt_limit::Limits;
use super::rt_root::Root;
use super::stats::SchedStats;
use super::task::{State, Tcb};
use crate::locks::Spin;
use convoy_machine::{ColdSwitch, Here, Sim};
use convoy_sync::{RawLock, TaskId};
use core::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// `sysctl_sched_migration_cost`, nanoseconds.
pub(crate) const MIGRATION_COST_NS: u64 = 500_000;

/// Whether a reschedule of a CPU is wanted; the machine keeps it.
pub(crate) struct Resched {
    pub(crate) cpu: usize,
}

impl Resched {
    pub(crate) fn get(&self) -> bool {
        Here::resched_of(self.cpu)
    }

    pub(crate) fn set(&self, wanted: bool) {
        self.replace(wanted);
    }

    pub(crate) fn replace(&self, wanted: bool) -> bool {
        Here::set_resched(self.cpu, wanted)
    }
}

/// One CPU's run queue.
pub(crate) struct RunQueue {
    pub(crate) lock: Sim<Spin>,
    pub(crate) rt: RefCell<rt::Queue>,
    pub(crate) normal: RefCell<Box<dyn Normal>>,
    pub(crate) curr: Cell<TaskId>,
    pub(crate) prev: Cell<TaskId>,
    pub(crate) idle: Cell<TaskId>,
    pub(crate) need_resched: Resched,
    pub(crate) domains: Vec<Domain>,
    /// Tick at which periodic balancing is due.
    pub(crate) next_balance: Cell<u64>,
    pub(crate) idle_at_tick: Cell<bool>,
    /// When something last happened here, nanoseconds.
    pub(crate) clock_ns: Cell<u64>,
    /// Switches so far.
    pub(crate) turns: Cell<u64>,
    /// When it halted last, in picoseconds.
    pub(crate) halted_at: Cell<u64>,
    /// CPU to which the migration thread of this queue shall push a task.
    pub(crate) push_to: Cell<Option<usize>>,
    /// Next tick and end of slice, in picoseconds; `u64::MAX` when stopped.
    pub(crate) tick_at: Cell<u64>,
    pub(crate) slice_at: Cell<u64>,
    /// While the running task has an extension of its slice: its end, in picoseconds; `u64::MAX`
    /// when its timer has fired.
    pub(crate) extended_until: Cell<Option<u64>>,
    pub(crate) in_nohz_recently: Cell<bool>,
    /// When its present idle time began, until a wakeup ends it, and the average of these times,
    /// both nanoseconds.
    pub(crate) idle_since: Cell<Option<u64>>,
    pub(crate) avg_idle: Cell<u64>,
}

impl RunQueue {
    /// Whether the idle task runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.curr.get() == self.idle.get()
    }

    /// A wakeup ends its idle time: the average follows, by an eighth of the difference,
    /// up to twice the migration cost.
    pub(crate) fn end_idle(&self) {
        let Some(since) = self.idle_since.take() else { return };
        let (old, idle) = (self.avg_idle.get() as i64, (Here::now_ns() - since) as i64);
        let most = 2 * MIGRATION_COST_NS;
        let moved = (old + (idle - old) / 8).max(0) as u64;
        self.avg_idle.set(if idle as u64 > most { most } else { moved });
    }
}

/// Path costs in picoseconds.
pub(crate) struct Costs {
    pub(crate) schedule: u64,
    pub(crate) wake: u64,
    pub(crate) tick: u64,
    pub(crate) balance_cpu: u64,
    pub(crate) pull: u64,
    pub(crate) switch: u64,
    pub(crate) refill: u64,
    pub(crate) ipi: u64,
    pub(crate) idle_exit: u64,
    pub(crate) address_space: u64,
    pub(crate) send: u64,
    pub(crate) halt_poll: u64,
    pub(crate) long_idle: u64,
    pub(crate) halted_exit: u64,
    pub(crate) cold: Option<ColdSwitch>,
}

/// Ends one `preempt_disable` if the caller checks the reschedule flag itself.
pub(crate) fn preempt_enable_no_resched() {
    Here::set_preempt_depth(Here::preempt_depth() - 1);
}

/// The run queues of one machine.
pub struct RunQueues {
    pub(crate) queues: Vec<RunQueue>,
    pub(crate) loads: Loads,
    pub(crate) load_average: LoadAverage,
    pub(crate) rt: rt::RtRules,
    pub(crate) rt_root: OnceCell<Root>,
    pub(crate) rt_limits: Limits,
    pub(crate) fair_servers: FairServers,
    pub(crate) costs: Costs,
    /// A wakeup counts as one by the task that runs where the woken task is queued.
    pub(crate) counts_there: bool,
    pub(crate) hz: u32,
    pub(crate) tick_ps: u64,
    pub(crate) tasks: RefCell<Vec<Option<Rc<Tcb>>>>,
    pub(crate) stats: Cell<SchedStats>,
}

impl RunQueues {
    /// Records a new machine task.
    pub(crate) fn adopt(&self, id: TaskId, cpu: usize) -> Rc<Tcb> {
        let tcb = Rc::new(Tcb::new(id, cpu));
        let mut tasks = self.tasks.borrow_mut();
        if tasks.len() <= id as usize {
            tasks.resize(id as usize + 1, None);
        }
        tasks[id as usize] = Some(Rc::clone(&tcb));
        tcb
    }

    /// The record of `id`.
    pub fn tcb(&self, id: TaskId) -> Rc<Tcb> {
        self.tasks.borrow()[id as usize].clone().expect("a task of this scheduler")
    }

    /// The record of the calling task.
    pub fn current(&self) -> Rc<Tcb> {
        self.tcb(Here::task())
    }

    pub(crate) fn this(&self) -> &RunQueue {
        &self.queues[Here::cpu()]
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut SchedStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Ticks since the start.
    pub(crate) fn jiffies(&self) -> u64 {
        Here::now_ps() / self.tick_ps
    }

    /// Periodic balancing of `cpu` is due at `tick`.
    pub(crate) fn set_next_balance(&self, cpu: usize, tick: u64) {
        self.queues[cpu].next_balance.set(tick);
        self.loads.idlers.due(cpu, tick * self.tick_ps);
    }

    /// `ms` in ticks, rounded up as `msecs_to_jiffies` does.
    pub(crate) fn ticks_of_ms(&self, ms: u64) -> u64 {
        (ms * u64::from(self.hz)).div_ceil(1000)
    }

    /// The root domain; a machine without real-time tasks never has one.
    pub(crate) fn rt_root(&self) -> &Root {
        self.rt_root.get_or_init(|| Root::new(self.rt.sharing, self.queues.len()))
    }

    /// Locks the run queue of `task`, which may move until its queue is locked.
    pub(crate) fn lock_queue_of(&self, task: &Tcb) -> &RunQueue {
        loop {
            let queue = &self.queues[task.cpu.get()];
            queue.lock.lock();
            if ::core::ptr::eq(queue, &raw const self.queues[task.cpu.get()]) {
                return queue;
            }
            queue.lock.unlock();
        }
    }

    /// Moves a task that is on no queue to `cpu`, keeping its lag.
    pub(crate) fn change_cpu(&self, task: &Tcb, from: &RunQueue, cpu: usize) {
        let there = self.queues[cpu].normal.borrow().origin();
        let shift = there - from.normal.borrow().origin();
        task.entity.vruntime.set(task.entity.vruntime.get() + shift);
        let asleep = matches!(task.state.get(), State::Asleep(_));
        from.normal.borrow_mut().detach(task, asleep);
        self.queues[cpu].normal.borrow_mut().attach(task);
        task.cpu.set(cpu);
    }

    /// Locks the queue of `other` while the queue of `this` is locked, in the order of their
    /// numbers.
    pub(super) fn lock_second(&self, this: usize, other: usize) {
        let (mine, theirs) = (&self.queues[this].lock, &self.queues[other].lock);
        if theirs.try_lock() {
            return;
        }
        if other < this {
            mine.unlock();
            theirs.lock();
            mine.lock();
        } else {
            theirs.lock();
        }
    }

    /// Requests a reschedule of `cpu`: sets its flag, and interrupts it if it is another CPU.
    pub(crate) fn resched(&self, cpu: usize) {
        let queue = &self.queues[cpu];
        if queue.need_resched.replace(true) || cpu == Here::cpu() {
            return;
        }
        // An idle CPU waits in mwait on its flag and needs no interrupt; that of a guest has left
        // the guest, and so does whoever sends an interrupt.
        let delay = if queue.is_idle() { self.idle_exit(queue) } else { self.costs.ipi };
        Here::kick(cpu, Here::now_ps() + delay);
        Here::pass(self.costs.send);
    }

    /// How long `queue`, which idles, takes to notice that it has work.
    pub(crate) fn idle_exit(&self, queue: &RunQueue) -> u64 {
        let long = Self::idled(queue) > self.costs.long_idle;
        if long { self.costs.halted_exit } else { self.costs.idle_exit }
    }

    /// Returns whether `queue` has idled long enough for the hypervisor to run other guests on its
    /// processor.
    pub(crate) fn is_halted(&self, queue: &RunQueue) -> bool {
        Self::idled(queue) > self.costs.halt_poll
    }

    /// How long `queue` has idled, in picoseconds.
    fn idled(queue: &RunQueue) -> u64 {
        Here::now_ps().saturating_sub(queue.halted_at.get())
    }

    /// Nothing runs on `cpu` and nothing is queued there.
    pub(crate) fn is_idle_cpu(&self, cpu: usize) -> bool {
        self.queues[cpu].is_idle() && self.loads.running(cpu) == 0
    }

    /// Charges `task`, which runs on `queue`; returns whether it should yield the CPU.
    pub(crate) fn charge(&self, queue: &RunQueue, task: &Tcb) -> bool {
        let now = Here::now_ns();
        queue.clock_ns.set(now);
        queue.normal.borrow_mut().update_clock(now);
        if task.rt_priority().is_some() {
            let ran = task.entity.run_until(now);
            self.loads.ran_rt(task.cpu.get(), ran);
            return self.rt_limits.charge(task.cpu.get(), ran);
        }
        let ran = now.saturating_sub(task.entity.exec_start.get());
        let served = self.fair_servers.charge(task.cpu.get(), ran, now);
        queue.normal.borrow_mut().charge(task, now) || served
    }

    /// Charges the task that runs on `queue`.
    pub(crate) fn charge_current(&self, queue: &RunQueue) {
        queue.clock_ns.set(Here::now_ns());
        queue.normal.borrow_mut().update_clock(Here::now_ns());
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
            self.rt_limits.start_period();
            return self.rt_changed(queue, task);
        }
        queue.normal.borrow_mut().enqueue(task, why, Here::now_ns());
        self.loads.add(task.cpu.get(), task.entity.weight());
    }

    /// Counts a real-time task that was added to `queue` and publishes the change to the other
    /// CPUs.
    pub(crate) fn rt_changed(&self, queue: &RunQueue, task: &Tcb) {
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
        let mut normal = queue.normal.borrow_mut();
        normal.update_clock(Here::now_ns());
        normal.dequeue(task, why);
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
        let waits = self.rt_limits.throttled(Here::cpu()) || self.serves(Here::cpu());
        let urgent = if waits { None } else { queue.rt.borrow_mut().pick() };
        if let Some(task) = urgent.map(|id| self.tcb(id)) {
            rt::Queue::picked(&task);
            return Some(task);
        }
        let mut normal = queue.normal.borrow_mut();
        normal.update_clock(Here::now_ns());
        normal.pick(&|id| self.tcb(id))
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
                self.note_wakeup(queue);
                let mut normal = queue.normal.borrow_mut();
                normal.drop_sleepers(&current, &|id| self.tcb(id));
                normal.preempts(task, &current)
            }
            (Some(_), None) => !self.serves(cpu),
            (woken, running) => woken > running,
        };
        if preempts {
            self.count(|stats| stats.preemptions += 1);
            self.resched(cpu);
        }
    }

    /// A task is queued on `queue`: where the preset says so, that counts as a wakeup by the task
    /// that runs there (`check_preempt_wakeup`).
    pub(crate) fn note_wakeup(&self, queue: &RunQueue) {
        if self.counts_there && !queue.is_idle() {
            self.tcb(queue.curr.get()).entity.note_wakeup();
        }
    }

    /// Returns whether the ordinary tasks of `cpu`, if there are any, come before real-time tasks.
    fn serves(&self, cpu: usize) -> bool {
        self.fair_servers.serves(cpu) && self.loads.weight(cpu) > 0
    }

    /// At the tick of this CPU, after the charge: whether the running task has had its turn.
    pub(crate) fn turn_is_over(queue: &RunQueue, current: &Tcb) -> bool {
        current.rt_priority().is_none() && queue.normal.borrow_mut().tick(current)
    }

    /// Tasks that are queued or running now.
    pub fn runnable(&self) -> u64 {
        self.loads.all()
    }

    /// Takes the next count of active tasks `ns` nanoseconds from now, and then every five seconds.
    pub fn count_load_after(&self, ns: u64) {
        let ticks = ns * u64::from(self.hz) / 1_000_000_000;
        self.load_average.count_at(self.jiffies() + ticks);
    }

    /// What each CPU may run real-time tasks for in a period, in nanoseconds; nothing before the
    /// first of them, or without a limit.
    pub fn rt_runtimes(&self) -> Vec<u64> {
        self.rt_limits.runtimes()
    }

    /// Acquisitions of the locks of the CPU priority vectors (with atomic counts: updates) so far.
    pub fn rt_vector_updates(&self) -> u64 {
        self.rt_root.get().map_or(0, Root::updates)
    }

    /// For each CPU priority vector its count, and how many CPUs it holds.
    pub fn rt_vectors(&self) -> Vec<(u32, u32)> {
        self.rt_root.get().map_or_else(Vec::new, Root::census)
    }

    /// Counters so far.
    pub fn stats(&self) -> SchedStats {
        self.stats.get()
    }

    /// How long CPUs have idled while a task waited on another one, by cause.
    pub fn idle_times(&self) -> IdleTimes {
        self.loads.idlers.times(Here::now_ps())
    }

    /// CPU time that tasks which waited could have had on CPUs that idled, picoseconds.
    pub fn idle_usable_ps(&self) -> u64 {
        self.loads.idlers.usable(Here::now_ps())
    }

    /// Returns the time, in nanoseconds, in which each level of the load balancer searches at least
    /// once for an idle CPU.
    pub fn balance_turn_ns(&self) -> u64 {
        let longest = |domain: &Domain| domain.rules.max_interval_ms;
        let longest = self.queues[0].domains.iter().map(longest).max().unwrap_or(0);
        longest * 1_000_000 + self.tick_ps / 1000
    }

    /// Run time of `task` so far, in picoseconds, up to its last charge.
    pub fn cpu_time_ps(&self, task: TaskId) -> u64 {
        self.tcb(task).entity.sum_exec.get() * 1000
    }
}
