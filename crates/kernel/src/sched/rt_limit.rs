//! The limit on real-time tasks: 950 ms of each second of a CPU (`sched_rt_runtime_us` and
//! `sched_rt_period_us`), so that a task which never sleeps leaves ordinary ones 5 %.
//!
//! A CPU that has run real-time tasks for longer than its budget is *throttled*: it picks none of
//! them until the period is over, though they stay queued and count. From 2.6.26 on a CPU first
//! borrows: from every other CPU of the root domain a part of what that one has not used, one over
//! the number of CPUs, up to the whole period. So on several CPUs a single task that never sleeps
//! is not limited at all.
//!
//! Source: `kernel/sched_rt.c` of 2.6.25 and 3.0, without group scheduling of real-time tasks.

use super::{RunQueue, Sched};
use crate::locks::{Field, Line, Spin};
use crate::preset::LockRules;
use convoy_machine::{Here, Sim};
use convoy_sync::RawLock;
use core::cell::Cell;
use schemars::JsonSchema;
use serde::Deserialize;

const PERIOD_NS: u64 = 1_000_000_000;
const RUNTIME_NS: u64 = 950_000_000;

/// How a kernel limits real-time tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RtLimit {
    /// Not at all: up to 2.6.24. From 6.12 on a server of the deadline class keeps 5 % for ordinary
    /// tasks instead, which is not modelled.
    None,
    /// Each CPU ends its period at its own tick (2.6.25).
    Tick,
    /// One timer ends the period of all CPUs (from 5.10 on).
    Timer,
    /// The same, and a CPU may borrow (`RT_RUNTIME_SHARE`, 2.6.26 to 5.9).
    TimerShared,
}

/// What one CPU may use, in a line with its lock.
struct Budget {
    lock: Spin,
    /// Run time in this period, and what it may be: nanoseconds.
    ran: Field<u64>,
    runtime: Field<u64>,
    throttled: Cell<bool>,
    /// [`RtLimit::Tick`]: when its period ends.
    ends: Cell<u64>,
}

/// What the CPUs share: the lock of borrowers, and whether the timer runs, which every real-time
/// task reads when it is queued.
struct Shared {
    lock: Spin,
    running: Field<bool>,
}

/// The budgets of all CPUs.
pub(crate) struct Limits {
    budgets: Vec<Sim<Line<Budget>>>,
    shared: Sim<Line<Shared>>,
    /// When the timer expires, in nanoseconds.
    expires: Cell<Option<u64>>,
}

impl Limits {
    fn new(locks: LockRules, cpus: usize) -> Self {
        let budget = |_| {
            let budget = Here::place(Line(Budget {
                lock: locks.spin(),
                ran: Field::new(0),
                runtime: Field::new(RUNTIME_NS),
                throttled: Cell::new(false),
                ends: Cell::new(PERIOD_NS),
            }));
            budget.lock.name("rt_rq->rt_runtime_lock");
            budget
        };
        let shared = Here::place(Line(Shared { lock: locks.spin(), running: Field::new(false) }));
        shared.lock.name("rt_b->rt_runtime_lock");
        Self { budgets: (0..cpus).map(budget).collect(), shared, expires: Cell::new(None) }
    }

    /// `cpu`, whose queue is locked, takes over what others will not use in this period.
    fn borrow(&self, cpu: usize) {
        let mine = &self.budgets[cpu];
        self.shared.lock.lock();
        for (other, theirs) in self.budgets.iter().enumerate() {
            if mine.runtime.read() == PERIOD_NS {
                break;
            }
            if other == cpu {
                continue;
            }
            theirs.lock.lock();
            let spare = theirs.runtime.read().saturating_sub(theirs.ran.peek());
            let part = spare / self.budgets.len() as u64;
            let part = part.min(PERIOD_NS - mine.runtime.peek());
            if part > 0 {
                theirs.runtime.write(theirs.runtime.peek() - part);
                mine.runtime.write(mine.runtime.peek() + part);
            }
            theirs.lock.unlock();
        }
        self.shared.lock.unlock();
    }

    /// Charges `cpu`, whose queue is locked; whether its real-time tasks must stop.
    fn charge(&self, cpu: usize, ran: u64, borrows: bool) -> bool {
        let budget = &self.budgets[cpu];
        budget.lock.lock();
        budget.ran.update(|before| before + ran);
        let exceeds = || {
            let runtime = budget.runtime.peek();
            runtime < PERIOD_NS && budget.ran.peek() > runtime
        };
        if borrows && !budget.throttled.get() && exceeds() {
            budget.lock.unlock();
            self.borrow(cpu);
            budget.lock.lock();
        }
        if exceeds() {
            budget.throttled.set(true);
        }
        budget.lock.unlock();
        budget.throttled.get()
    }

    /// `periods` are over for `cpu`, whose queue is locked; whether its tasks may run again.
    fn refill(&self, cpu: usize, periods: u64, borrows: bool) -> bool {
        let budget = &self.budgets[cpu];
        if budget.ran.read() == 0 {
            return false;
        }
        if borrows && budget.throttled.get() {
            self.borrow(cpu);
        }
        budget.lock.hold(|| {
            let runtime = budget.runtime.peek();
            budget.ran.update(|ran| ran.saturating_sub(periods * runtime));
            budget.ran.peek() < runtime && budget.throttled.replace(false)
        })
    }
}

impl Sched {
    fn rt_limits(&self) -> Option<&Limits> {
        self.rt_limits.get()
    }

    fn rt_borrows(&self) -> bool {
        self.rules.rt.limit == RtLimit::TimerShared
    }

    /// A real-time task is being queued: from now on the period counts.
    pub(crate) fn start_rt_period(&self) {
        if self.rules.rt.limit == RtLimit::None {
            return;
        }
        let limits = self.rt_limits.get_or_init(|| Limits::new(self.locks, self.queues.len()));
        let timed = self.rules.rt.limit != RtLimit::Tick;
        if timed && !limits.shared.running.read() {
            limits.shared.lock.hold(|| limits.shared.running.write(true));
            limits.expires.set(Some(Here::now_ns() / PERIOD_NS * PERIOD_NS + PERIOD_NS));
        }
    }

    /// Charges `cpu` for a real-time task that ran; whether it must stop.
    pub(crate) fn charge_rt(&self, cpu: usize, ran: u64) -> bool {
        self.rt_limits().is_some_and(|limits| limits.charge(cpu, ran, self.rt_borrows()))
    }

    /// Whether the real-time tasks of `cpu` must wait for the end of the period.
    pub(crate) fn rt_throttled(&self, cpu: usize) -> bool {
        self.rt_limits().is_some_and(|limits| limits.budgets[cpu].throttled.get())
    }

    /// Whether any CPU waits for the end of a period.
    pub(crate) fn any_rt_throttled(&self) -> bool {
        (0..self.queues.len()).any(|cpu| self.rt_throttled(cpu))
    }

    /// When `cpu`, though idle, must look at the period.
    pub(crate) fn rt_period_end(&self, cpu: usize) -> Option<u64> {
        let limits = self.rt_limits()?;
        let own = || self.rt_throttled(cpu).then(|| limits.budgets[cpu].ends.get());
        if self.rules.rt.limit == RtLimit::Tick { own() } else { limits.expires.get() }
    }

    /// At the tick of this CPU, whose queue is locked: its period may be over.
    pub(crate) fn tick_rt_period(&self, queue: &RunQueue) {
        let Some(limits) = self.rt_limits() else { return };
        if self.rules.rt.limit != RtLimit::Tick {
            return;
        }
        let (cpu, now) = (Here::cpu(), Here::now_ns());
        let ends = &limits.budgets[cpu].ends;
        while now > ends.get() {
            ends.set(ends.get() + PERIOD_NS);
            if limits.refill(cpu, 1, false) && queue.rt.borrow().best().is_some() {
                queue.need_resched.set(true);
            }
        }
    }

    /// In the timer interrupt: the period of all CPUs may be over. Without real-time work the timer
    /// stops.
    pub(crate) fn run_rt_period(&self) {
        let Some(limits) = self.rt_limits() else { return };
        let now = Here::now_ns();
        let Some(expired) = limits.expires.get().filter(|&at| at <= now) else { return };
        let periods = 1 + (now - expired) / PERIOD_NS;
        limits.expires.set(Some(expired + periods * PERIOD_NS));
        let mut busy = false;
        for (cpu, queue) in self.queues.iter().enumerate() {
            queue.lock.lock();
            let freed = limits.refill(cpu, periods, self.rt_borrows());
            let queued = queue.rt.borrow().best().is_some();
            busy |= queued || limits.budgets[cpu].ran.peek() > 0;
            if freed && queued {
                self.resched(cpu);
            }
            queue.lock.unlock();
        }
        if !busy {
            limits.shared.lock.hold(|| limits.shared.running.write(false));
            limits.expires.set(None);
        }
    }

    /// What each CPU may run real-time tasks for in a period, in nanoseconds; nothing before the
    /// first of them, or without a limit.
    pub fn rt_runtimes(&self) -> Vec<u64> {
        let limits = self.rt_limits();
        limits.map_or_else(Vec::new, |limits| {
            limits.budgets.iter().map(|budget| budget.runtime.peek()).collect()
        })
    }
}
