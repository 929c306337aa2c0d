//! A part of a run in full detail, the basis of traces.
//!
//! A simulation is reproducible, so the part is chosen after a first pass (around the longest
//! convoy) and recorded in a second pass.

use crate::analysis::Analysis;
use crate::cpu::State;
use crate::label::Label;
use crate::task::Place;
use convoy_machine::{Event, Leave, Mode, Record, Recorder};
use convoy_sync::{LockEvent, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of records kept, about 40 MB of trace.
const LIMIT: usize = 600_000;
/// Minimum time shown before and after the longest convoy, in picoseconds.
const MARGIN: u64 = 20_000_000_000;
/// Number of locks shown: those with the longest waits.
const LOCKS: usize = 8;
/// Maximum number of records between a task's first step and its name.
const BEGINNING: usize = 64;

/// A part of a run, in picoseconds of virtual time.
#[derive(Clone, Debug)]
pub struct Window {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The locks to show. Their numbers are the same in both passes.
    pub(crate) locks: BTreeSet<u32>,
}

impl Window {
    /// Returns the length in milliseconds.
    pub fn ms(&self) -> f64 {
        (self.to - self.from) as f64 / 1e9
    }
}

/// A task with its label at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) id: TaskId,
    pub(crate) label: Label,
}

impl Who {
    /// Returns a thread number that is unique in the window.
    pub(crate) fn tid(self) -> i32 {
        const NO_PID: i32 = 1 << 22;
        match (self.label.kind, self.label.pid) {
            ("idle", _) => 0,
            (_, 0) => NO_PID + self.id as i32,
            (_, pid) => pid as i32,
        }
    }
}

/// Kind of a [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Switch { prev: Who, why: Leave, next: Who },
    Wake { task: Who, cpu: usize },
    Lock { event: LockEvent, lock: u32, task: Who },
    Softirq(Option<(u32, &'static str)>),
    Raise(u32, &'static str),
    Mode(State),
}

/// One record of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: u64,
    pub(crate) cpu: usize,
    pub(crate) by: Who,
    pub(crate) what: What,
}

/// Receives the records of the second pass.
pub struct Detail {
    pub(crate) analysis: Analysis,
    pub(crate) window: Window,
    pub(crate) steps: Vec<Step>,
    /// Names of the locks in the steps.
    pub(crate) names: BTreeMap<u32, String>,
    begun: bool,
    /// Time at which the limit was reached.
    pub(crate) cut: Option<u64>,
}

impl Analysis {
    /// Returns the part of the run to show: around the longest convoy, or the beginning if there is
    /// none.
    pub fn window(&self) -> Window {
        let waited = |lock: u32| self.locks.all[lock as usize].wait_sum;
        let mut locks: Vec<u32> = (0..self.locks.all.len() as u32).collect();
        locks.retain(|&lock| waited(lock) > 0);
        locks.sort_by_key(|&lock| core::cmp::Reverse(waited(lock)));
        let locks = locks.into_iter().take(LOCKS).collect();
        let end = self.to.unwrap_or(self.now);
        let (from, to) = match &self.stalls.longest {
            Some(stall) => (stall.from, stall.to),
            None => (self.from, self.from + MARGIN),
        };
        let margin = MARGIN.max(to.saturating_sub(from) / 4);
        let (from, to) = (from.saturating_sub(margin).max(self.from), (to + margin).min(end));
        Window { from, to, locks }
    }
}

impl Detail {
    /// Returns an empty recording for a machine of `cpus` CPUs.
    pub fn new(cpus: usize, window: Window) -> Self {
        Self {
            analysis: Analysis::new(cpus),
            window,
            steps: Vec::new(),
            names: BTreeMap::new(),
            begun: false,
            cut: None,
        }
    }

    /// Returns a description of the extent of the window and its omitted parts.
    pub fn sentence(&self) -> String {
        let ms = |ps: u64| ps as f64 / 1e9;
        let seconds = ms(self.window.from.saturating_sub(self.analysis.from)) / 1e3;
        let cut = self.cut.map_or(String::new(), |at| {
            format!("; cut after {:.1} ms by the limit on its size", ms(at - self.window.from))
        });
        format!(
            "{} events in full from {seconds:.3} s on for {:.1} ms around the longest convoy{cut}",
            self.steps.len(),
            self.window.ms()
        )
    }

    fn who(&self, id: TaskId) -> Who {
        Who { id, label: self.analysis.tasks.label(id) }
    }

    /// Returns the lock at `address` if it is to be shown.
    fn shown(&mut self, address: usize) -> Option<u32> {
        let lock = self.analysis.locks.at(address);
        self.show(lock)
    }

    fn show(&mut self, lock: u32) -> Option<u32> {
        if !self.window.locks.contains(&lock) {
            return None;
        }
        let class = self.analysis.locks.class_of(lock);
        self.names.entry(lock).or_insert_with(|| class.name.clone());
        Some(lock)
    }

    fn push(&mut self, at: u64, cpu: usize, by: Who, what: What) {
        if self.steps.len() >= LIMIT {
            self.cut.get_or_insert(at);
        } else {
            self.steps.push(Step { at, cpu, by, what });
        }
    }

    /// Emits the state at the start of the window.
    fn begin(&mut self) {
        self.begun = true;
        let at = self.window.from;
        for cpu in 0..self.analysis.cpus.len() {
            let this = &self.analysis.cpus[cpu];
            let (next, state) = (self.who(this.task), this.state());
            let idle = self.who(cpu as TaskId);
            let what = What::Switch { prev: idle, why: Leave::Runnable, next };
            self.push(at, cpu, idle, what);
            self.push(at, cpu, next, What::Mode(state));
        }
        let mut found = Vec::new();
        for (id, task) in self.analysis.tasks.iter() {
            let waits = task.waits.iter().map(|wait| (wait.lock, LockEvent::Contended));
            let owned = if task.place == Place::Running || task.granted.is_none() {
                LockEvent::Acquired
            } else {
                LockEvent::Handoff
            };
            let holds = task.holds.iter().map(|held| (held.lock, owned));
            found.extend(waits.chain(holds).map(|(lock, event)| (id, task.cpu, lock, event)));
        }
        for (id, cpu, lock, event) in found {
            if self.show(lock).is_some() {
                let task = self.who(id);
                self.push(at, cpu, task, What::Lock { event, lock, task });
            }
        }
    }

    /// A new task got its process number: assigns it to the steps of its creation, too.
    fn numbered(&mut self, id: TaskId) {
        let label = self.analysis.tasks.label(id);
        let rename = |who: &mut Who| {
            if who.id == id && who.label.pid == 0 && who.label.kind != "idle" {
                who.label = label;
            }
        };
        let start = self.steps.len().saturating_sub(BEGINNING * self.analysis.cpus.len());
        for step in &mut self.steps[start..] {
            rename(&mut step.by);
            match &mut step.what {
                What::Switch { prev, next, .. } => {
                    rename(prev);
                    rename(next);
                }
                What::Wake { task, .. } | What::Lock { task, .. } => rename(task),
                What::Softirq(_) | What::Raise(..) | What::Mode(_) => {}
            }
        }
    }

    fn take(&mut self, record: &Record) {
        let Record { at, cpu, task, event } = *record;
        let by = self.who(task);
        match event {
            Event::Switch { prev, next } => {
                let why = self.analysis.tasks.at(prev).leaving;
                let (prev, next) = (self.who(prev), self.who(next));
                self.push(at, cpu, by, What::Switch { prev, why, next });
            }
            Event::Wake { task, cpu: to } => {
                let task = self.who(task);
                self.push(at, cpu, by, What::Wake { task, cpu: to });
            }
            Event::Lock { event, lock, task } => {
                if let Some(lock) = self.shown(lock) {
                    let task = self.who(task);
                    self.push(at, cpu, by, What::Lock { event, lock, task });
                }
            }
            Event::Softirq(vector) => self.push(at, cpu, by, What::Softirq(vector)),
            Event::Raise(vector, name) => self.push(at, cpu, by, What::Raise(vector, name)),
            Event::Mode(Mode::Spin | Mode::Interrupt) => {
                let state = self.analysis.cpus[cpu].state();
                self.push(at, cpu, by, What::Mode(state));
            }
            Event::Mode(_) => {
                let state = self.analysis.cpus[cpu].state();
                let last = self.steps.iter().rev().take(BEGINNING).find_map(|step| {
                    match (step.cpu == cpu, step.what) {
                        (true, What::Mode(state)) => Some(state),
                        _ => None,
                    }
                });
                // User and kernel mode alternate at every system call, so only the ends of spinning
                // and of interrupts are recorded.
                if matches!(last, Some(State::Spin | State::Irq)) {
                    self.push(at, cpu, by, What::Mode(state));
                }
            }
            Event::Label { .. } | Event::Kthread { .. } => self.numbered(task),
            _ => {}
        }
    }
}

impl Recorder for Detail {
    fn record(&mut self, record: &Record) {
        let inside = (self.window.from..=self.window.to).contains(&record.at);
        if inside && !self.begun {
            self.begin();
        }
        self.analysis.record(record);
        if inside {
            self.take(record);
        }
    }
}
