//! The account of a run, updated while it runs: one pass over the records, in bounded memory.

use crate::chain::{Hop, Path, Via};
use crate::cpu::{Cpu, State};
use crate::flame::{Flame, How};
use crate::label::Label;
use crate::locks::Locks;
use crate::stall::Stalls;
use crate::task::{Place, Since, Task, Tasks};
use crate::timeline::{OverTime, Timeline};
use convoy_machine::{Event, Leave, Mode, Record, Recorder};
use convoy_sync::TaskId;

/// Causes of idle time, from the most to the least specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// The owner of a lock that tasks want is on the run queue of another CPU.
    OwnerQueued,
    /// Tasks are on the run queues of other CPUs.
    Queued,
    /// No task can run, and some sleep for a lock.
    Locks,
    /// No task can run.
    Nothing,
}

impl Idle {
    /// Every cause, in order.
    pub const ALL: [Self; 4] = [Self::OwnerQueued, Self::Queued, Self::Locks, Self::Nothing];

    /// Returns the name as printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::OwnerQueued => "the owner of a wanted lock waits for another CPU",
            Self::Queued => "tasks wait for another CPU",
            Self::Locks => "no task can run, some sleep for a lock",
            Self::Nothing => "no task can run",
        }
    }
}

/// Receives the records of a machine and keeps the account.
pub struct Analysis {
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Tasks,
    pub(crate) locks: Locks,
    pub(crate) stalls: Stalls,
    /// Locks that are currently in a stall.
    pub(crate) stalled: Vec<u32>,
    pub(crate) flame: Flame,
    pub(crate) timeline: Timeline,
    pub(crate) idle: [u64; 4],
    idle_since: u64,
    idle_cpus: u32,
    runnable: u32,
    /// Tasks that wait for a lock.
    pub(crate) waiters: u32,
    /// Latest time of any record. It never decreases, although records of two CPUs may be out of
    /// order by a skew.
    pub(crate) now: u64,
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
    pub(crate) end_path: Path,
    pub(crate) switches: u64,
    pub(crate) records: u64,
}

impl Analysis {
    /// Returns the states of the CPUs over the run, in at most `most` intervals.
    pub fn over_time(&self, most: usize) -> OverTime {
        self.timeline.over(self.cpus.len(), most)
    }

    /// Returns an empty account for a machine of `cpus` CPUs.
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus: (0..cpus).map(|cpu| Cpu::new(cpu as TaskId)).collect(),
            tasks: Tasks::default(),
            locks: Locks::default(),
            stalls: Stalls::default(),
            stalled: Vec::new(),
            flame: Flame::default(),
            timeline: Timeline::new(0),
            idle: [0; 4],
            idle_since: 0,
            idle_cpus: 0,
            runnable: 0,
            waiters: 0,
            now: 0,
            from: 0,
            to: None,
            end_path: Path::default(),
            switches: 0,
            records: 0,
        }
    }

    /// Adds the time since the last change of `cpu` to its account.
    pub(crate) fn settle(&mut self, cpu: usize, at: u64) {
        let this = &mut self.cpus[cpu];
        let span = at.saturating_sub(this.since);
        if span == 0 {
            return;
        }
        let (from, state, id) = (this.since, this.state(), this.task);
        this.since = at;
        this.times[state as usize] += span;
        self.timeline.add(from, at, state);
        if state == State::Idle {
            return;
        }
        let task = self.tasks.at(id);
        match state {
            State::User => task.path.shares.user += span,
            State::Spin => task.path.shares.spin += span,
            _ => task.path.shares.system += span,
        }
        if state == State::Spin {
            let class = task.waits.last().map(|wait| self.locks.all[wait.lock as usize].class);
            if let Some(class) = class {
                self.locks.classes[class as usize].spin += span;
            }
            self.flame.add(task, class, How::Spinning, span);
        }
    }

    /// Adds the idle time of all CPUs since the last change of its cause. Must be called before a
    /// change.
    fn settle_idle(&mut self) {
        let span = self.now.saturating_sub(self.idle_since);
        self.idle_since = self.now;
        if self.idle_cpus == 0 || span == 0 {
            return;
        }
        let queued_owner = self.stalled.iter().any(|&lock| {
            let holders = &self.locks.all[lock as usize].holders;
            holders.iter().any(|&id| {
                self.tasks.get(id).is_some_and(|task| matches!(task.place, Place::Runnable(_)))
            })
        });
        let cause = if queued_owner {
            Idle::OwnerQueued
        } else if self.runnable > 0 {
            Idle::Queued
        } else if self.waiters > 0 {
            Idle::Locks
        } else {
            Idle::Nothing
        };
        self.idle[cause as usize] += span * u64::from(self.idle_cpus);
    }

    fn mode(&mut self, cpu: usize, at: u64, mode: Mode) {
        let old = self.cpus[cpu].mode;
        if old == mode {
            return;
        }
        self.settle(cpu, at);
        if (old == Mode::Idle) != (mode == Mode::Idle) {
            self.settle_idle();
            self.idle_cpus = self.cpus.iter().filter(|cpu| cpu.mode == Mode::Idle).count() as u32;
            self.idle_cpus -= u32::from(old == Mode::Idle);
            self.idle_cpus += u32::from(mode == Mode::Idle);
        }
        let this = &mut self.cpus[cpu];
        this.mode = mode;
        this.since = this.since.max(at);
    }

    fn switch(&mut self, cpu: usize, at: u64, prev: TaskId, next: TaskId) {
        self.settle(cpu, at);
        self.settle_idle();
        self.switches += 1;
        let idle = self.cpus.len() as TaskId;
        let this = &mut self.cpus[cpu];
        let ran_for = at.saturating_sub(this.switched);
        (this.task, this.switched) = (next, at);
        self.pass_on(prev, next);
        if prev >= idle {
            self.leaves(prev, at);
        }
        self.count_ran(cpu, at, prev, ran_for);
        if next >= idle {
            self.arrives(cpu, next, at);
        }
    }

    /// Transfers the lock of the run queue, which `prev` acquired for the switch and `next`
    /// releases.
    fn pass_on(&mut self, prev: TaskId, next: TaskId) {
        let holds = &mut self.tasks.at(prev).holds;
        let (passed, kept) = holds.iter().partition(|held| held.passes);
        *holds = kept;
        let passed: Vec<Since> = passed;
        for held in passed {
            self.tasks.at(next).holds.push(held);
            let holders = &mut self.locks.all[held.lock as usize].holders;
            holders.iter_mut().filter(|id| **id == prev).for_each(|id| *id = next);
        }
    }

    /// Records that `prev` left its CPU.
    fn leaves(&mut self, prev: TaskId, at: u64) {
        let task = self.tasks.at(prev);
        task.place = match task.leaving {
            Leave::Asleep => Place::Asleep(at),
            Leave::Runnable => Place::Runnable(at),
            Leave::Dead => Place::Dead,
        };
        self.runnable += u32::from(task.leaving == Leave::Runnable);
        let waits = task.lock();
        for held in task.holds.clone() {
            self.owner_off(held.lock, true);
        }
        if let Some(lock) = waits {
            self.see_owner(lock);
            self.tasks.at(prev).owner_then = self.locks.all[lock as usize].by_owner;
        }
    }

    /// Records that `next` got the CPU.
    fn arrives(&mut self, cpu: usize, next: TaskId, at: u64) {
        let task = self.tasks.at(next);
        task.cpu = cpu;
        if let Place::Runnable(since) = core::mem::replace(&mut task.place, Place::Running) {
            let span = at.saturating_sub(since);
            let wanted = |held: &Since| self.locks.all[held.lock as usize].waiters > 0;
            let owner = task.holds.iter().rev().find(|held| wanted(held));
            let class = owner.map(|held| self.locks.all[held.lock as usize].class);
            let how = if class.is_some() { How::QueuedOwner } else { How::Queued };
            self.flame.add(task, class, how, span);
            let shares = &mut task.path.shares;
            *if class.is_some() { &mut shares.queued_owner } else { &mut shares.queued } += span;
            self.runnable = self.runnable.saturating_sub(1);
        }
        let granted = task.granted.take();
        for held in task.holds.clone() {
            self.owner_off(held.lock, false);
        }
        if let Some(Since { lock, at: given, .. }) = granted {
            // From now on `next` can use the lock, so the hold time starts here.
            let holds = self.tasks.at(next).holds.iter_mut();
            holds.filter(|held| held.lock == lock).for_each(|held| held.at = at);
            self.locks.class_of(lock).handoff.record(at.saturating_sub(given) / 1000);
        }
    }

    /// Records that `prev` ran on `cpu`, for stalls whose owner waits for that CPU.
    fn count_ran(&mut self, cpu: usize, at: u64, prev: TaskId, ran_for: u64) {
        for index in 0..self.stalled.len() {
            let lock = self.stalled[index];
            let task = self.tasks.at(prev);
            let (label, job) = (task.label, task.job);
            let Some(stall) = &mut self.locks.all[lock as usize].stall else { continue };
            if stall.woken.is_some_and(|(_, on)| on == cpu) {
                stall.add_ran(label, job, ran_for.min(at.saturating_sub(stall.from)));
            }
        }
    }

    fn wake(&mut self, record: &Record, id: TaskId, cpu: usize) {
        self.settle(record.cpu, record.at);
        let timer = matches!(self.cpus[record.cpu].state(), State::Irq | State::Softirq);
        self.cpus[cpu].wakeups += 1;
        let waker = self.tasks.at(record.task);
        let (path, from) = (waker.path, waker.label);
        let task = self.tasks.at(id);
        let since = match task.place {
            Place::Asleep(since) => since,
            // A kernel thread is asleep when it is created.
            Place::Dead => record.at,
            Place::Running | Place::Runnable(_) => return,
        };
        let span = record.at.saturating_sub(since);
        let lock = task.lock();
        let class = lock.map(|lock| self.locks.all[lock as usize].class);
        if let Some(lock) = lock {
            self.see_owner(lock);
        }
        let task = self.tasks.at(id);
        match lock.map(|lock| &self.locks.all[lock as usize]) {
            Some(lock) => {
                let now = lock.by_owner.into_iter().zip(task.owner_then);
                let during: Vec<u64> = now.map(|(now, then)| now.saturating_sub(then)).collect();
                let during = during.try_into().unwrap_or_default();
                self.flame.add_wait(task, lock.class, during, span);
            }
            None => self.flame.add(task, None, How::Blocked(None), span),
        }
        if timer {
            task.path.shares.slept += span;
        } else {
            let via = class.map_or(Via::Call(task.call.unwrap_or("exit")), Via::Lock);
            task.path = path;
            task.path.hop(Hop { at: record.at, from, to: task.label, via });
        }
        self.settle_idle();
        let task = self.tasks.at(id);
        task.place = Place::Runnable(record.at);
        task.cpu = cpu;
        self.runnable += 1;
        for held in task.holds.clone() {
            self.see_owner(held.lock);
        }
        for index in 0..self.stalled.len() {
            let lock = self.stalled[index];
            let Some(stall) = &mut self.locks.all[lock as usize].stall else { continue };
            if stall.owner == id && stall.woken.is_none() {
                stall.woken = Some((record.at, cpu));
            }
        }
    }

    fn born(&mut self, record: &Record, id: TaskId, cpu: Option<usize>) {
        let Some(cpu) = cpu else {
            let label = Label::idle(id as usize);
            *self.tasks.at(id) = Task { place: Place::Running, ..Task::new(label) };
            return;
        };
        self.settle(record.cpu, record.at);
        self.settle_idle();
        let child = match self.tasks.get(record.task) {
            Some(parent) => parent.child(cpu, record.at),
            None => Task::new(Label::UNKNOWN).child(cpu, record.at),
        };
        *self.tasks.at(id) = child;
        self.runnable += 1;
    }

    fn label(&mut self, id: TaskId, pid: u32, kind: &'static str, number: u32) {
        let label = &mut self.tasks.at(id).label;
        if pid > 0 {
            label.pid = pid;
        }
        if !kind.is_empty() {
            (label.kind, label.number) = (kind, number);
        }
    }

    fn call(&mut self, record: &Record, name: Option<&'static str>) {
        self.tasks.at(record.task).call = name;
    }

    fn measure(&mut self, id: TaskId, at: u64, begins: bool) {
        for cpu in 0..self.cpus.len() {
            self.settle(cpu, at);
        }
        self.settle_idle();
        self.settle_locks();
        if begins {
            (self.from, self.idle, self.switches) = (at, [0; 4], 0);
            self.timeline = Timeline::new(at);
            self.stalls = Stalls::default();
            self.flame = Flame::default();
            self.cpus.iter_mut().for_each(|cpu| cpu.reset(at));
            self.locks.classes.iter_mut().for_each(crate::locks::Class::reset);
            self.tasks.iter_mut().for_each(|task| task.path = Path::default());
        } else {
            self.to = Some(at);
            self.end_path = self.tasks.at(id).path;
        }
    }

    fn see(&mut self) {
        self.timeline.see(self.now, self.runnable, self.waiters);
    }
}

impl Recorder for Analysis {
    fn record(&mut self, record: &Record) {
        if self.to.is_some() {
            return;
        }
        self.records += 1;
        let Record { at, cpu, task, event } = *record;
        self.now = self.now.max(at);
        match event {
            Event::Mode(mode) => self.mode(cpu, at, mode),
            Event::Leave(why) => self.tasks.at(task).leaving = why,
            Event::Switch { prev, next } => {
                self.switch(cpu, at, prev, next);
                self.see();
            }
            Event::Lock { event, lock, task: about } => self.lock(record, event, lock, about),
            Event::Name { lock, bytes, name } => self.locks.name(lock, bytes, name),
            Event::Transfer(address) => {
                if let Some(class) = self.locks.covering(address) {
                    self.locks.classes[class as usize].transfers += 1;
                }
            }
            Event::Born { task, cpu } => self.born(record, task, cpu),
            Event::Label { pid, kind, number } => self.label(task, pid, kind, number),
            Event::Kthread { kind, number, priority } => {
                self.tasks.at(task).label = Label::kthread(kind, number, priority);
            }
            Event::Wake { task, cpu } => self.wake(record, task, cpu),
            Event::Softirq(vector) => {
                self.settle(cpu, at);
                self.cpus[cpu].softirq = vector.is_some();
            }
            Event::Schedule(begins) => {
                self.settle(cpu, at);
                self.cpus[cpu].switching = begins;
            }
            Event::Raise(..) => {}
            Event::Call(name) => self.call(record, name),
            Event::Job(name) => self.tasks.at(task).job = name,
            Event::Measure(begins) => self.measure(task, at, begins),
        }
    }
}
