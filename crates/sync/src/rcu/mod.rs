//! Tree RCU: who frees something that others may still look at waits for a *grace period*, after
//! which every CPU has been in a *quiescent state*.
//!
//! ## Use
//!
//! A reader forbids preemption while it looks. [`Rcu::call`] puts a callback on the list of the
//! caller's CPU; the machine tells [`Rcu::note_quiescent_state`] at context switches and idle or
//! user ticks, asks [`Rcu::pending`] at each tick, and where it says yes runs [`Rcu::core`] and
//! then invokes what [`Rcu::take_done`] hands out. Where and by whom is the machine's choice: the
//! regression of 3.0-rc was in that choice alone.
//!
//! ## States
//!
//! Grace periods are numbered; the last that has begun is `gpnum`, the last that has ended
//! `completed`, and one is on its way while they differ. Every node has a bit for each child
//! that the grace period still waits for (`qsmask`).
//!
//! ## Transitions
//!
//! - *begin* (root locked, nothing on its way): `gpnum += 1`, all bits are set, node by node. The
//!   CPU that begins owes, with interrupts off, so the grace period cannot end meanwhile.
//! - *note*: a CPU notes a quiescent state for itself, with the number of the last grace period
//!   that it knew to have ended: the tag.
//! - *report* (leaf locked): if the tag is that of the present grace period, the CPU's bit goes;
//!   who clears the last bit of a node goes on in the parent, holding one node's lock at a time.
//! - *end*: the root owes nothing: `completed = gpnum`; the same CPU begins the next if it waits
//!   for one.
//!
//! ## Invariants
//!
//! - A bit is cleared only for a quiescent state that began after the grace period did: the tag and
//!   the second look under the leaf's lock say so.
//! - `completed` moves only when no node owes a bit.
//! - Of the nodes' locks a CPU holds one at a time; `begins` or `force` may be held around it.
//! - Numbers wrap; they are compared by their difference.
//!
//! ## Memory ordering
//!
//! A reader's section is ordered before the free by its CPU's report: the section, the note and
//! the report are of one CPU; the report and the end of the grace period are ordered by the nodes'
//! locks (release and acquire), and so is the end before the CPU that invokes the callback sees it.
//!
//! ## Progress and fairness
//!
//! No bound on the length of a grace period: a reader may keep its CPU. Late CPUs are looked at
//! after [`FORCE_TICKS`]. Callbacks of one CPU are handed out in order.
//!
//! ## Cost
//!
//! A grace period takes one report of each CPU, two locks of its leaf each, and one lock of the
//! parent for each leaf. A reader pays nothing.
//!
//! ## Lineage
//!
//! `kernel/rcutree.c` of 2.6.39 and 3.0, flavour `rcu_sched`. Not here: `rcu_bh`, expedited grace
//! periods, hotplug, stalls.

mod segments;
mod tree;

use crate::{Access, Atomic, Platform, TicketLock};
use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use segments::Segments;
use std::collections::VecDeque;
use tree::Tree;

/// Ticks after which CPUs that owe a quiescent state are looked at
/// (`RCU_JIFFIES_TILL_FORCE_QS`).
pub const FORCE_TICKS: u64 = 3;
/// The number before the first grace period of a kernel: early enough to see it wrap.
pub const FIRST: isize = -300;

/// The steps that a checker leaves out, one at a time, to see that it would notice. Everybody else
/// uses [`Sound`].
pub trait Steps: 'static {
    /// A noted quiescent state carries the number of its grace period.
    const TAGS: bool = true;
    /// A CPU looks again under its leaf's lock before it reports.
    const LOOKS_AGAIN: bool = true;
    /// A grace period has ended only when the root owes nothing.
    const ENDS_LAST: bool = true;
    /// A callback waits for a grace period that begins after it was queued.
    const WAITS_WHOLE: bool = true;
}

/// RCU as it ships.
#[derive(Clone, Copy, Debug)]
pub struct Sound;

impl Steps for Sound {}

/// A cache line of its own.
#[repr(C, align(64))]
struct Line<T>(T);

/// Counters over a run; the reasons are those of `rcu_pending` in debugfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RcuStats {
    /// Grace periods that have ended.
    pub grace_periods: u64,
    /// Callbacks queued and invoked.
    pub queued: u64,
    /// See `queued`.
    pub invoked: u64,
    /// Core processings.
    pub core: u64,
    /// Of these, such that a quiescent state was to be reported.
    pub report_qs: u64,
    /// Looks at CPUs that owe a quiescent state.
    pub forced: u64,
    /// Wakeups of the threads that do the work, where the machine has such.
    pub thread_wakeups: u64,
    /// Rounds of these threads in which no callback was ready.
    pub idle_rounds: u64,
    /// Questions whether a CPU has work, one at each tick.
    pub asked: u64,
}

impl RcuStats {
    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            grace_periods: self.grace_periods - before.grace_periods,
            queued: self.queued - before.queued,
            invoked: self.invoked - before.invoked,
            core: self.core - before.core,
            report_qs: self.report_qs - before.report_qs,
            forced: self.forced - before.forced,
            thread_wakeups: self.thread_wakeups - before.thread_wakeups,
            idle_rounds: self.idle_rounds - before.idle_rounds,
            asked: self.asked - before.asked,
        }
    }
}

/// One CPU's part: `rcu_data` and `rcu_dynticks`. Only its CPU uses it, but for the last two, which
/// who looks at late CPUs reads under the leaf's lock.
struct Local<P: Platform, C> {
    /// Stands for the line of `rcu_data`.
    line: P::Home<Line<Cell<u32>>>,
    /// The last grace periods that this CPU knows to have ended and begun.
    completed: Cell<usize>,
    gpnum: Cell<usize>,
    /// The tag of the quiescent state that was seen.
    passed: Cell<Option<usize>>,
    /// The present grace period waits for this CPU.
    owes: Cell<bool>,
    segments: Cell<Segments>,
    callbacks: RefCell<VecDeque<C>>,
    /// Even while the tick is stopped.
    dynticks: Cell<u64>,
    snapshot: Cell<u64>,
}

impl<P: Platform, C> Local<P, C> {
    fn new(first: usize) -> Self {
        Self {
            line: P::place(Line(Cell::new(0))),
            completed: Cell::new(first),
            gpnum: Cell::new(first),
            passed: Cell::new(None),
            owes: Cell::new(false),
            segments: Cell::default(),
            callbacks: RefCell::default(),
            dynticks: Cell::new(1),
            snapshot: Cell::new(0),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Segments)) {
        let mut segments = self.segments.get();
        change(&mut segments);
        self.segments.set(segments);
    }

    fn touch(&self, access: Access) {
        P::touch(&*self.line, access);
    }
}

/// RCU of one machine, with callbacks of type `C`. See the module documentation.
pub struct Rcu<P: Platform, C, S: Steps = Sound> {
    tree: Tree<P>,
    locals: Vec<Local<P, C>>,
    stats: Cell<RcuStats>,
    steps: PhantomData<S>,
}

impl<P: Platform, C, S: Steps> Rcu<P, C, S> {
    /// RCU of `cpus` CPUs, at most 1024, whose last grace period was number `first`.
    pub fn new(cpus: usize, first: isize) -> Self {
        let first = first as usize;
        Self {
            tree: Tree::new(cpus, first),
            locals: (0..cpus).map(|_| Local::new(first)).collect(),
            stats: Cell::default(),
            steps: PhantomData,
        }
    }

    /// Tells each lock and its name.
    pub fn locks(&self, mut tell: impl FnMut(&TicketLock<P>, &'static str)) {
        self.tree.locks(&mut tell);
    }

    fn here(&self) -> &Local<P, C> {
        &self.locals[P::cpu() as usize]
    }

    /// Changes the counters.
    pub fn count(&self, change: impl FnOnce(&mut RcuStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Counters so far.
    pub fn stats(&self) -> RcuStats {
        self.stats.get()
    }

    /// Hands `callback` out on this CPU after a grace period: when every section without preemption
    /// that runs now has ended.
    pub fn call(&self, callback: C) {
        let flags = P::irq_save();
        let local = self.here();
        local.touch(Access::Write);
        local.callbacks.borrow_mut().push_back(callback);
        local.change(|segments| {
            if S::WAITS_WHOLE {
                segments.next += 1;
            } else {
                segments.wait += 1;
            }
        });
        self.count(|stats| stats.queued += 1);
        P::irq_restore(flags);
    }

    /// This CPU is in a quiescent state: a note for itself, which a later report uses.
    pub fn note_quiescent_state(&self) {
        let local = self.here();
        local.touch(Access::Write);
        local.passed.set(Some(local.gpnum.get().wrapping_sub(1)));
    }

    /// `cpu` stops its tick, or starts it again: who looks sees that it is quiescent.
    pub fn note_tick_stopped(&self, cpu: usize, stopped: bool) {
        let count = &self.locals[cpu].dynticks;
        if count.get().is_multiple_of(2) != stopped {
            count.set(count.get() + 1);
        }
    }

    /// Whether this CPU has callbacks, so that it must keep its tick.
    pub fn needs_tick(&self) -> bool {
        !self.here().callbacks.borrow().is_empty()
    }

    /// Whether the present grace period has waited so long for this CPU that it should reschedule.
    pub fn is_late(&self, jiffies: u64) -> bool {
        let local = self.here();
        self.tree.force_is_due(jiffies) && local.owes.get() && local.passed.get().is_none()
    }

    /// Whether `local` waits for a grace period while none is on its way.
    fn needs_grace_period(&self, local: &Local<P, C>) -> bool {
        local.segments.get().waiting() > 0 && !self.tree.in_progress()
    }

    /// Whether this CPU has core processing to do (`rcu_pending`).
    pub fn pending(&self, jiffies: u64) -> bool {
        self.count(|stats| stats.asked += 1);
        let local = self.here();
        local.touch(Access::Read);
        if local.owes.get() && local.passed.get().is_some() {
            self.count(|stats| stats.report_qs += 1);
            return true;
        }
        let (completed, gpnum) = self.tree.seen_by(P::cpu() as usize);
        local.segments.get().done > 0
            || self.needs_grace_period(local)
            || completed != local.completed.get()
            || gpnum != local.gpnum.get()
            || self.tree.force_is_due(jiffies)
    }

    /// Core processing of this CPU (`__rcu_process_callbacks`). Returns the CPUs that the grace
    /// period waits for and that must reschedule.
    pub fn core(&self, jiffies: u64) -> Vec<usize> {
        self.count(|stats| stats.core += 1);
        let due = self.tree.force_is_due(jiffies);
        let late = if due { self.force(jiffies) } else { Vec::new() };
        self.note_end();
        self.check_quiescent_state(jiffies);
        if self.needs_grace_period(self.here()) {
            self.start(jiffies);
        }
        late
    }

    /// Callbacks of this CPU whose grace period is over.
    pub fn done(&self) -> usize {
        self.here().segments.get().done
    }

    /// The oldest of them.
    pub fn take_done(&self) -> Option<C> {
        let local = self.here();
        if local.segments.get().done == 0 {
            return None;
        }
        local.change(|segments| segments.done -= 1);
        self.count(|stats| stats.invoked += 1);
        local.callbacks.borrow_mut().pop_front()
    }

    /// This CPU has handed out a batch: its part was written.
    pub fn end_batch(&self) {
        self.here().touch(Access::Write);
    }

    /// Whether number `a` comes before number `b`.
    fn before(a: usize, b: usize) -> bool {
        (a.wrapping_sub(b) as isize) < 0
    }

    /// The number of the grace period that began last.
    fn latest(&self) -> usize {
        self.tree.numbers.gpnum.load(Relaxed)
    }
}
