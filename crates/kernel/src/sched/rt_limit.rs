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

use crate::lock_rules::LockRules;
use crate::locks::{Field, Line, Spin};
use convoy_machine::{Here, Sim};
use convoy_sync::RawLock;
use core::cell::{Cell, OnceCell};
use schemars::JsonSchema;
use serde::Deserialize;

const PERIOD_NS: u64 = 1_000_000_000;
const RUNTIME_NS: u64 = 950_000_000;

/// How a kernel limits real-time tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RtLimit {
    /// Not at all: up to 2.6.24.
    None,
    /// They do not count; a server of the deadline class runs ordinary tasks that wait for 50 ms of
    /// each second (from 6.12 on).
    Server,
    /// Each CPU ends its period at its own tick (2.6.25).
    Tick,
    /// One timer ends the period of all CPUs (from 5.10 on).
    Timer,
    /// The same, and a CPU may borrow (`RT_RUNTIME_SHARE`, 2.6.26 to 5.9).
    TimerShared,
}

/// Budget of one CPU, in a line with its lock.
struct Budget {
    lock: Spin,
    /// Run time in this period, and its limit, in nanoseconds.
    ran: Field<u64>,
    runtime: Field<u64>,
    throttled: Cell<bool>,
    /// [`RtLimit::Tick`]: when its period ends.
    ends: Cell<u64>,
}

/// Data shared by the CPUs: the lock of borrowers, and whether the timer runs, which every
/// real-time task reads when it is queued.
struct Shared {
    lock: Spin,
    running: Field<bool>,
}

/// The budgets of all CPUs.
struct Budgets {
    cpus: Vec<Sim<Line<Budget>>>,
    shared: Sim<Line<Shared>>,
    /// When the timer expires, in nanoseconds.
    expires: Cell<Option<u64>>,
}

impl Budgets {
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
        Self { cpus: (0..cpus).map(budget).collect(), shared, expires: Cell::new(None) }
    }

    /// Transfers to `cpu`, whose queue is locked, the time that others will not use in this period.
    fn borrow(&self, cpu: usize) {
        let mine = &self.cpus[cpu];
        self.shared.lock.lock();
        for (other, theirs) in self.cpus.iter().enumerate() {
            if mine.runtime.read() == PERIOD_NS {
                break;
            }
            if other == cpu {
                continue;
            }
            theirs.lock.lock();
            let spare = theirs.runtime.read().saturating_sub(theirs.ran.peek());
            let part = spare / self.cpus.len() as u64;
            let part = part.min(PERIOD_NS - mine.runtime.peek());
            if part > 0 {
                theirs.runtime.write(theirs.runtime.peek() - part);
                mine.runtime.write(mine.runtime.peek() + part);
            }
            theirs.lock.unlock();
        }
        self.shared.lock.unlock();
    }

    fn charge(&self, cpu: usize, ran: u64, borrows: bool) -> bool {
        let budget = &self.cpus[cpu];
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

    /// Ends `periods` for `cpu`, whose queue is locked; returns whether its tasks may run again.
    fn refill(&self, cpu: usize, periods: u64, borrows: bool) -> bool {
        let budget = &self.cpus[cpu];
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

/// The limit of a machine. The budgets exist from the first real-time task on.
pub(crate) struct Limits {
    rule: RtLimit,
    locks: LockRules,
    cpus: usize,
    budgets: OnceCell<Budgets>,
}

impl Limits {
    /// The limit of a machine with `cpus` CPUs.
    pub(crate) fn new(rule: RtLimit, locks: LockRules, cpus: usize) -> Self {
        Self { rule, locks, cpus, budgets: OnceCell::new() }
    }

    fn borrows(&self) -> bool {
        self.rule == RtLimit::TimerShared
    }

    /// A real-time task is being queued: from now on the period counts.
    pub(crate) fn start_period(&self) {
        if matches!(self.rule, RtLimit::None | RtLimit::Server) {
            return;
        }
        let budgets = self.budgets.get_or_init(|| Budgets::new(self.locks, self.cpus));
        if self.rule != RtLimit::Tick && !budgets.shared.running.read() {
            budgets.shared.lock.hold(|| budgets.shared.running.write(true));
            budgets.expires.set(Some(Here::now_ns() / PERIOD_NS * PERIOD_NS + PERIOD_NS));
        }
    }

    /// Charges `cpu`, whose queue is locked, for a real-time task that ran; returns whether its
    /// real-time tasks must stop.
    pub(crate) fn charge(&self, cpu: usize, ran: u64) -> bool {
        self.budgets.get().is_some_and(|budgets| budgets.charge(cpu, ran, self.borrows()))
    }

    /// Whether the real-time tasks of `cpu` must wait for the end of the period.
    pub(crate) fn throttled(&self, cpu: usize) -> bool {
        self.budgets.get().is_some_and(|budgets| budgets.cpus[cpu].throttled.get())
    }

    /// Whether any CPU waits for the end of a period.
    pub(crate) fn any_throttled(&self) -> bool {
        (0..self.cpus).any(|cpu| self.throttled(cpu))
    }

    /// Returns when `cpu`, though idle, must check the period.
    pub(crate) fn period_end(&self, cpu: usize) -> Option<u64> {
        let budgets = self.budgets.get()?;
        let own = || self.throttled(cpu).then(|| budgets.cpus[cpu].ends.get());
        if self.rule == RtLimit::Tick { own() } else { budgets.expires.get() }
    }

    /// At the tick of `cpu`, whose queue is locked: its period may be over. Whether its real-time
    /// tasks may run again.
    pub(crate) fn tick(&self, cpu: usize) -> bool {
        let Some(budgets) = self.budgets.get().filter(|_| self.rule == RtLimit::Tick) else {
            return false;
        };
        let (mut freed, now) = (false, Here::now_ns());
        let ends = &budgets.cpus[cpu].ends;
        while now > ends.get() {
            ends.set(ends.get() + PERIOD_NS);
            freed |= budgets.refill(cpu, 1, false);
        }
        freed
    }

    /// In the timer interrupt: the periods of all CPUs that are over.
    pub(crate) fn periods_over(&self) -> Option<u64> {
        let budgets = self.budgets.get()?;
        let now = Here::now_ns();
        let expired = budgets.expires.get().filter(|&at| at <= now)?;
        let periods = 1 + (now - expired) / PERIOD_NS;
        budgets.expires.set(Some(expired + periods * PERIOD_NS));
        Some(periods)
    }

    /// Ends `periods` for `cpu`, whose queue is locked: returns whether its real-time tasks may run
    /// again, and whether it still has excess time to work off.
    pub(crate) fn refill(&self, cpu: usize, periods: u64) -> (bool, bool) {
        self.budgets.get().map_or((false, false), |budgets| {
            let freed = budgets.refill(cpu, periods, self.borrows());
            (freed, budgets.cpus[cpu].ran.peek() > 0)
        })
    }

    /// Without real-time work the timer stops.
    pub(crate) fn stop_timer(&self) {
        if let Some(budgets) = self.budgets.get() {
            budgets.shared.lock.hold(|| budgets.shared.running.write(false));
            budgets.expires.set(None);
        }
    }

    /// What each CPU may run real-time tasks for in a period, in nanoseconds; nothing before the
    /// first of them, or without a limit.
    pub(crate) fn runtimes(&self) -> Vec<u64> {
        self.budgets.get().map_or_else(Vec::new, |budgets| {
            budgets.cpus.iter().map(|budget| budget.runtime.peek()).collect()
        })
    }
}
