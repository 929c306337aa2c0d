//! Tree RCU: before a writer frees memory that readers may still access, it waits for a *grace
//! period*, in which every CPU has passed a *quiescent state*.
//!
//! ## Use
//!
//! A reader forbids preemption while it looks. [`Rcu::call`] puts a callback on the list of the
//! caller's CPU; the machine calls [`Rcu::note_quiescent_state`] at context switches and idle or
//! user ticks, and [`Rcu::pending`] at each tick; if this returns true it runs [`Rcu::core`] and
//! then invokes the callbacks from [`Rcu::take_done`]. Where they run is the machine's choice: the
//! regression of 3.0-rc was only in this choice.
//!
//! If readers may be preempted, a critical section belongs to a [`Reader`], its task; the machine
//! also reports when such a task is switched out, and may be asked to boost it.
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
//!   starting CPU itself has to report, with interrupts disabled, so the grace period cannot end in
//!   between.
//! - *note*: a CPU notes a quiescent state for itself, with the number of the last grace period
//!   that it knew to have ended: the tag.
//! - *report* (leaf locked): if the tag is the current grace period's, the CPU's bit is cleared;
//!   the CPU that clears the last bit of a node continues in the parent, holding one node's lock at
//!   a time.
//! - *leave a CPU in a section*: the reader is queued at the leaf, for the present grace period if
//!   that still waits for the CPU, else for the next. The last that leaves a section reports for
//!   the leaf.
//! - *end*: the root owes nothing: `completed = gpnum`; the same CPU begins the next if it waits
//!   for one.
//!
//! ## Invariants
//!
//! - A bit is cleared only for a quiescent state that began after the grace period did: the tag and
//!   the second look under the leaf's lock say so.
//! - `completed` moves only when no node owes a bit, and no reader of a leaf is waited for.
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
//! No bound on the length of a grace period: a reader may keep its CPU. Late CPUs are checked after
//! [`FORCE_TICKS`]. Callbacks of one CPU are handed out in order.
//!
//! ## Cost
//!
//! A grace period takes one report of each CPU, two locks of its leaf each, and one lock of the
//! parent for each leaf. A reader pays nothing.
//!
//! ## Lineage
//!
//! `kernel/rcutree.c` of 2.6.39 and 3.0, except for one step: there a CPU that finds its leaf
//! locked may notice the start of a grace period before the end of the previous one, and then frees
//! too early; 3.11 and later check ends first, as here. Its flavours `rcu_sched` and `rcu_bh`
//! differ in the quiescent states that the machine reports. Not implemented: hotplug; expedited
//! grace periods and barriers; forcing at a `call` that is due.

mod blocked;
mod grace;
mod readers;
mod segments;
mod stats;
mod tree;
mod work;

pub use blocked::Reader;
pub use stats::RcuStats;
pub use work::Work;

use crate::{Access, Atomic, Platform, TicketLock};
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::Relaxed;
use segments::Segments;
use std::collections::VecDeque;
use tree::{Line, Tree};

/// Ticks after which CPUs without a reported quiescent state are checked
/// (`RCU_JIFFIES_TILL_FORCE_QS`).
pub const FORCE_TICKS: u64 = 3;
/// The number before the first grace period of a kernel: early enough to see it wrap.
pub const FIRST: isize = -300;
/// Callbacks that a CPU hands out in one go (`blimit`),
const BATCH: usize = 10;
/// unless its list has grown by this number (`qhimark`) since late CPUs were last checked for this
/// reason,
const HIGH_MARK: usize = 10_000;
/// until it is as short as this again (`qlowmark`).
const LOW_MARK: usize = 100;

/// One CPU's part: `rcu_data` and `rcu_dynticks`. Only its CPU uses it, except for the last two,
/// which the check for late CPUs reads under the leaf's lock.
struct Local<P: Platform, C> {
    /// The line of `rcu_data`.
    line: P::Home<Line<Cell<u32>>>,
    /// The last grace periods that this CPU knows to have ended and begun.
    completed: Cell<usize>,
    gpnum: Cell<usize>,
    /// A quiescent state was seen since this CPU knows of the present grace period, and the tag of
    /// the last that was.
    passed: Cell<bool>,
    tag: Cell<usize>,
    /// The present grace period waits for this CPU.
    owes: Cell<bool>,
    segments: Cell<Segments>,
    callbacks: RefCell<VecDeque<C>>,
    /// Callbacks that are handed out in one go.
    limit: Cell<usize>,
    /// Length of the list when it was last found too long, and the number of checks for late CPUs
    /// until then.
    grown: Cell<(usize, u64)>,
    counts: Cell<RcuStats>,
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
            passed: Cell::new(false),
            tag: Cell::new(first.wrapping_sub(1)),
            owes: Cell::new(false),
            segments: Cell::default(),
            callbacks: RefCell::default(),
            limit: Cell::new(BATCH),
            grown: Cell::default(),
            counts: Cell::default(),
            dynticks: Cell::new(1),
            snapshot: Cell::new(0),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Segments)) {
        let mut segments = self.segments.get();
        change(&mut segments);
        self.segments.set(segments);
    }

    /// Puts `callback` at the end of the list.
    fn add(&self, callback: C) {
        self.callbacks.borrow_mut().push_back(callback);
        self.change(|segments| segments.next += 1);
        self.count(|counts| counts.queued += 1);
    }

    /// A batch is through: a list that is short again is handed out in small parts again.
    fn settle(&self) {
        let length = self.callbacks.borrow().len();
        if length <= LOW_MARK {
            self.limit.set(BATCH);
        }
        let (grown, forces) = self.grown.get();
        if length == 0 || length + HIGH_MARK < grown {
            self.grown.set((length, forces));
        }
    }

    fn count(&self, change: impl FnOnce(&mut RcuStats)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn touch(&self, access: Access) {
        P::touch(&*self.line, access);
    }
}

/// Which counter counts a reason.
type Reason = fn(&mut RcuStats) -> &mut u64;

/// RCU of one machine, with callbacks of type `C`. See the module documentation.
pub struct Rcu<P: Platform, C> {
    tree: Tree<P>,
    locals: Vec<Local<P, C>>,
}

impl<P: Platform, C> Rcu<P, C> {
    /// Creates the RCU of `cpus` CPUs, at most 1024, with `first` as the number of the last grace
    /// period.
    pub fn new(cpus: usize, first: isize) -> Self {
        let first = first as usize;
        Self {
            tree: Tree::new(cpus, first),
            locals: (0..cpus).map(|_| Local::new(first)).collect(),
        }
    }

    /// Reports each lock and its name.
    pub fn locks(&self, mut tell: impl FnMut(&TicketLock<P>, &'static str)) {
        self.tree.locks(&mut tell);
    }

    fn here(&self) -> &Local<P, C> {
        &self.locals[P::cpu() as usize]
    }

    /// Changes the counters of this CPU.
    pub fn count(&self, change: impl FnOnce(&mut RcuStats)) {
        self.here().count(change);
    }

    /// Counters so far, of all CPUs.
    pub fn stats(&self) -> RcuStats {
        let counts = self.locals.iter().map(|local| local.counts.get());
        counts.fold(RcuStats::default(), RcuStats::plus)
    }

    /// Hands `callback` out on this CPU after a grace period: when every section without preemption
    /// that runs now has ended. Returns the CPUs that must reschedule because this one has too many
    /// callbacks.
    pub fn call(&self, callback: C, jiffies: u64) -> Vec<usize> {
        let flags = P::irq_save();
        let local = self.here();
        local.touch(Access::Write);
        local.add(callback);
        let grown = local.callbacks.borrow().len() > local.grown.get().0 + HIGH_MARK;
        let late = if grown { self.hurry(jiffies) } else { Vec::new() };
        P::irq_restore(flags);
        late
    }

    /// Handles an overlong list of this CPU: starts a grace period, or hurries the current one, and
    /// then runs all callbacks in one batch.
    fn hurry(&self, jiffies: u64) -> Vec<usize> {
        let local = self.here();
        self.note_end();
        self.note_begin();
        if !self.tree.in_progress() {
            self.start(jiffies);
            return Vec::new();
        }
        local.limit.set(usize::MAX);
        let forces = self.tree.forces.get().all;
        let length = local.callbacks.borrow().len();
        let (_, before) = local.grown.replace((length, forces));
        let alone = local.segments.get().waiting() == 1;
        if forces == before && !alone { self.force(jiffies) } else { Vec::new() }
    }

    /// This CPU is in a quiescent state: a note for itself, which a later report uses.
    pub fn note_quiescent_state(&self) {
        let local = self.here();
        local.touch(Access::Write);
        local.passed.set(true);
        local.tag.set(local.gpnum.get().wrapping_sub(1));
    }

    /// Records that `cpu` stops its tick, or restarts it: the check for late CPUs then sees that it
    /// is quiescent.
    pub fn note_tick_stopped(&self, cpu: usize, stopped: bool) {
        if self.is_tick_stopped(cpu) != stopped {
            let count = &self.locals[cpu].dynticks;
            count.set(count.get() + 1);
        }
    }

    /// Returns whether `cpu` has stopped its tick.
    fn is_tick_stopped(&self, cpu: usize) -> bool {
        self.locals[cpu].dynticks.get().is_multiple_of(2)
    }

    /// Returns whether this CPU waits for something, so that it must keep its tick.
    pub fn needs_tick(&self) -> bool {
        !self.here().callbacks.borrow().is_empty()
    }

    /// Returns whether the current grace period has waited for this CPU long enough for it to
    /// reschedule.
    pub fn is_late(&self, jiffies: u64) -> bool {
        let local = self.here();
        self.tree.force_is_due(jiffies) && local.owes.get() && !local.passed.get()
    }

    /// Returns whether `local` waits for a grace period while none is on its way.
    fn needs_grace_period(&self, local: &Local<P, C>) -> bool {
        local.segments.get().waiting() > 0 && !self.tree.in_progress()
    }

    /// Returns whether this CPU has core processing to do (`rcu_pending`).
    pub fn pending(&self, jiffies: u64) -> bool {
        let local = self.here();
        local.touch(Access::Read);
        let reason = self.reason(local, jiffies);
        local.count(|counts| {
            counts.asked += 1;
            counts.owes_qs += u64::from(local.owes.get() && !local.passed.get());
            *reason.unwrap_or(|counts| &mut counts.no_work)(counts) += 1;
        });
        reason.is_some()
    }

    /// Returns the counter of the first reason for core processing.
    fn reason(&self, local: &Local<P, C>, jiffies: u64) -> Option<Reason> {
        if local.owes.get() && local.passed.get() {
            return Some(|counts| &mut counts.report_qs);
        }
        let (completed, gpnum) = self.tree.seen_by(P::cpu() as usize);
        if local.segments.get().done > 0 {
            Some(|counts| &mut counts.callbacks_ready)
        } else if self.needs_grace_period(local) {
            Some(|counts| &mut counts.needs_period)
        } else if completed != local.completed.get() {
            Some(|counts| &mut counts.period_ended)
        } else if gpnum != local.gpnum.get() {
            Some(|counts| &mut counts.period_began)
        } else if self.tree.force_is_due(jiffies) {
            Some(|counts| &mut counts.force_due)
        } else {
            None
        }
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

    /// Returns the number of this CPU's callbacks with completed grace periods.
    pub fn done(&self) -> usize {
        self.here().segments.get().done
    }

    /// Removes and returns the oldest of these callbacks.
    pub fn take_done(&self) -> Option<C> {
        let local = self.here();
        if local.segments.get().done == 0 {
            local.settle();
            return None;
        }
        local.change(|segments| segments.done -= 1);
        local.count(|counts| counts.invoked += 1);
        local.callbacks.borrow_mut().pop_front()
    }

    /// Returns how many of these callbacks to take in one batch.
    pub fn batch(&self) -> usize {
        self.here().limit.get()
    }

    /// This CPU has handed out a batch: its part was written.
    pub fn end_batch(&self) {
        self.here().touch(Access::Write);
        self.here().settle();
    }

    /// Returns the number of the grace period that began last.
    fn latest(&self) -> usize {
        self.tree.numbers.gpnum.load(Relaxed)
    }
}
