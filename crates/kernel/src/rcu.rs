//! Tree RCU of 2.6.39 and 3.0, reduced to `rcu_sched`: who frees something that others may still
//! look at waits for a *grace period*, after which every CPU has been in a *quiescent state*.
//!
//! [`Sched::call_rcu`] puts a callback on its CPU's list. A grace period begins when a CPU has
//! callbacks that wait for one and none is on its way: the tree's nodes then owe one bit for each
//! CPU. A CPU notes a quiescent state at a context switch and at a tick that finds it in user mode
//! or idle; later, in *core processing*, it reports it: it clears its bit in its leaf, and who
//! clears the last bit of a node goes on in the parent, holding one node's lock at a time. The
//! grace period ends at the root, and the same CPU begins the next one if it needs it.
//!
//! Each tick asks whether its CPU has core processing to do. Where that and the callbacks run is
//! the preset's [`Placement`]; the regression of 3.0-rc is in that choice alone.
//!
//! Readers are sections without preemption, as in kernels without `CONFIG_TREE_PREEMPT_RCU`.
//! Source: `kernel/rcutree.c` of 2.6.39 and 3.0. *Not modelled:* `rcu_bh`, whose callbacks no path
//! of the jobs queues; expedited grace periods, hotplug, stalls, boosting; a thread that yields
//! after ten rounds of work.

pub(crate) mod rules;
#[cfg(test)]
mod scenes;
mod tree;

pub use rules::{Placement, RcuRules};

use crate::lock_rules::LockRules;
use crate::locks::{Field, Line};
use crate::sched::kthread::Kthread;
use crate::sched::scheduler::Sched;
use crate::sched::task::Policy;
use crate::softirq::Vector;
use convoy_machine::{Here, Sim, Smp, ps};
use convoy_sync::Platform;
use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tree::Tree;

/// Callbacks that one pass invokes (`blimit`).
const BATCH: usize = 10;
/// Ticks after which CPUs that owe a quiescent state are looked at
/// (`RCU_JIFFIES_TILL_FORCE_QS`).
const FORCE_TICKS: u64 = 3;
/// Real-time priority of the threads (`RCU_KTHREAD_PRIO`).
const THREAD_PRIORITY: u8 = 1;

/// What runs after a grace period, on the CPU that asked for it, with bottom halves disabled.
pub(crate) type Callback = Box<dyn FnOnce(&Sched)>;

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
    /// Wakeups of the threads.
    pub thread_wakeups: u64,
}

/// Lengths of the parts of a CPU's list, oldest callbacks first.
#[derive(Clone, Copy, Debug, Default)]
struct Segments {
    /// Their grace period is over.
    done: usize,
    /// They wait for the present one,
    wait: usize,
    /// for the next one,
    next_ready: usize,
    /// and for one that begins after somebody has seen them.
    next: usize,
}

impl Segments {
    fn waiting(&self) -> usize {
        self.wait + self.next_ready + self.next
    }

    /// A grace period is over.
    fn advance(&mut self) {
        self.done += self.wait;
        self.wait = self.next_ready;
        self.next_ready = self.next;
        self.next = 0;
    }

    /// The present grace period cannot end before this CPU has reported: what is there may use the
    /// next one.
    fn ready(&mut self) {
        self.next_ready += self.next;
        self.next = 0;
    }

    /// A grace period begins that has seen all that is there.
    fn begin(&mut self) {
        self.wait += self.next_ready + self.next;
        self.next_ready = 0;
        self.next = 0;
    }
}

/// One CPU's part: `rcu_data` and `rcu_dynticks`.
struct Local {
    /// Stands for the line of `rcu_data`.
    line: Sim<Line<Field<u32>>>,
    /// The last grace periods that this CPU knows to have ended and begun.
    completed: Cell<i64>,
    gpnum: Cell<i64>,
    /// A quiescent state was seen in the grace period after this one.
    passed: Cell<Option<i64>>,
    /// The present grace period waits for this CPU.
    owes: Cell<bool>,
    segments: Cell<Segments>,
    callbacks: RefCell<VecDeque<Callback>>,
    /// Even while the tick is stopped.
    dynticks: Cell<u64>,
    snapshot: Cell<u64>,
    /// Its thread, and whether it has work.
    thread: RefCell<Option<Rc<Kthread>>>,
    has_work: Cell<bool>,
}

impl Local {
    fn change(&self, change: impl FnOnce(&mut Segments)) {
        let mut segments = self.segments.get();
        change(&mut segments);
        self.segments.set(segments);
    }
}

/// RCU of one machine.
pub(crate) struct Rcu {
    placement: Placement,
    core: u64,
    callback: u64,
    tree: Tree,
    locals: Vec<Local>,
    stats: Cell<RcuStats>,
}

impl Rcu {
    pub(crate) fn new(rules: &RcuRules, locks: LockRules, cpus: usize) -> Self {
        let first = tree::FIRST;
        let local = |_| Local {
            line: Here::place(Line(Field::new(0))),
            completed: Cell::new(first),
            gpnum: Cell::new(first),
            passed: Cell::new(None),
            owes: Cell::new(false),
            segments: Cell::default(),
            callbacks: RefCell::default(),
            dynticks: Cell::new(1),
            snapshot: Cell::new(0),
            thread: RefCell::default(),
            has_work: Cell::new(false),
        };
        Self {
            placement: rules.placement,
            core: ps(rules.core_ns),
            callback: ps(rules.callback_ns),
            tree: Tree::new(locks, cpus),
            locals: (0..cpus).map(local).collect(),
            stats: Cell::default(),
        }
    }

    fn here(&self) -> &Local {
        &self.locals[Here::cpu()]
    }

    fn count(&self, change: impl FnOnce(&mut RcuStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// This CPU is in a quiescent state: a note for itself, which a later report uses.
    pub(crate) fn note_quiescent_state(&self) {
        let local = self.here();
        local.line.write(0);
        local.passed.set(Some(local.gpnum.get() - 1));
    }

    /// This CPU stops its tick, or starts it again: who looks sees that it is quiescent.
    pub(crate) fn note_tick_stopped(&self, cpu: usize, stopped: bool) {
        let count = &self.locals[cpu].dynticks;
        if count.get().is_multiple_of(2) != stopped {
            count.set(count.get() + 1);
        }
    }

    /// Whether this CPU has callbacks, so that it must keep its tick.
    pub(crate) fn needs_tick(&self) -> bool {
        !self.here().callbacks.borrow().is_empty()
    }

    /// Whether `local` waits for a grace period while none is on its way.
    fn needs_grace_period(&self, local: &Local) -> bool {
        local.segments.get().waiting() > 0 && !self.tree.in_progress()
    }

    /// Whether this CPU has core processing to do (`rcu_pending`).
    fn pending(&self, jiffies: u64) -> bool {
        let local = self.here();
        local.line.read();
        if local.owes.get() && local.passed.get().is_some() {
            self.count(|stats| stats.report_qs += 1);
            return true;
        }
        let (completed, gpnum) = self.tree.seen_by(Here::cpu());
        local.segments.get().done > 0
            || self.needs_grace_period(local)
            || completed != local.completed.get()
            || gpnum != local.gpnum.get()
            || (self.tree.in_progress() && self.tree.force_at() < jiffies)
    }
}

impl Sched {
    /// Runs `callback` on this CPU after a grace period: when every section without preemption that
    /// runs now has ended. Nothing happens in a kernel without RCU but that the callback runs at
    /// once.
    pub(crate) fn call_rcu(&self, callback: Callback) {
        let Some(rcu) = &self.rcu else { return callback(self) };
        Smp::irq_save();
        let local = rcu.here();
        local.line.write(0);
        local.callbacks.borrow_mut().push_back(callback);
        local.change(|segments| segments.next += 1);
        rcu.count(|stats| stats.queued += 1);
        Smp::irq_restore(());
    }

    /// An object that others may look at is freed after a grace period; in a kernel without RCU
    /// its price is part of the path.
    pub(crate) fn free_rcu(&self) {
        if self.rcu.is_some() {
            self.call_rcu(Box::new(|_| ()));
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn rcu_stats(&self) -> RcuStats {
        self.rcu.as_ref().map(|rcu| rcu.stats.get()).unwrap_or_default()
    }

    /// Opens the softirq and makes the threads; before the machine runs.
    pub(crate) fn start_rcu(&self) {
        let Some(rcu) = &self.rcu else { return };
        if rcu.placement != Placement::Thread {
            self.open_softirq(Vector::Rcu, Rc::new(Self::rcu_softirq));
        }
        if rcu.placement == Placement::Softirq {
            return;
        }
        for (cpu, local) in rcu.locals.iter().enumerate() {
            let policy = Policy::Fifo { priority: THREAD_PRIORITY };
            let name = format!("rcuc{cpu}");
            let body = Box::new(Self::rcu_thread);
            let thread = self.kthread_create(&name, Some(cpu), policy, body);
            local.thread.replace(Some(thread.expect("room for the RCU threads")));
        }
    }

    /// At the tick, in the timer interrupt (`rcu_check_callbacks`).
    pub(crate) fn tick_rcu(&self, user: bool) {
        let Some(rcu) = &self.rcu else { return };
        if user || self.rq.this().is_idle() {
            rcu.note_quiescent_state();
        }
        let late = rcu.tree.in_progress() && rcu.tree.force_at() < self.rq.jiffies() + 1;
        if late && rcu.here().owes.get() && rcu.here().passed.get().is_none() {
            self.rq.this().need_resched.set(true);
        }
        if rcu.pending(self.rq.jiffies()) {
            self.invoke_rcu_core(rcu);
        }
    }

    fn invoke_rcu_core(&self, rcu: &Rcu) {
        match rcu.placement {
            Placement::Thread => self.wake_rcu_thread(rcu),
            _ => self.raise_softirq(Vector::Rcu),
        }
    }

    fn wake_rcu_thread(&self, rcu: &Rcu) {
        let local = rcu.here();
        local.has_work.set(true);
        let thread = local.thread.borrow().clone();
        let thread = thread.expect("made at the start");
        if self.kthread_wake(&thread) {
            rcu.count(|stats| stats.thread_wakeups += 1);
        }
    }

    /// The softirq RCU.
    fn rcu_softirq(&self) {
        let rcu = self.rcu.as_ref().expect("opened with it");
        self.rcu_core(rcu);
        if rcu.here().segments.get().done == 0 {
            return;
        }
        match rcu.placement {
            Placement::CallbacksInThread => self.wake_rcu_thread(rcu),
            _ => self.rcu_batch(rcu),
        }
    }

    /// The body of `rcucN`.
    fn rcu_thread(&self) {
        let rcu = self.rcu.as_ref().expect("made with it");
        loop {
            self.sleep_unless(|| rcu.here().has_work.get());
            Self::local_bh_disable();
            if rcu.here().has_work.replace(false) {
                if rcu.placement == Placement::Thread {
                    self.rcu_core(rcu);
                }
                self.rcu_batch(rcu);
            }
            self.local_bh_enable();
        }
    }

    /// Invokes callbacks whose grace period is over (`rcu_do_batch`).
    fn rcu_batch(&self, rcu: &Rcu) {
        let local = rcu.here();
        for _ in 0..BATCH {
            if local.segments.get().done == 0 {
                return;
            }
            local.change(|segments| segments.done -= 1);
            let callback = local.callbacks.borrow_mut().pop_front();
            Here::pass(rcu.callback);
            rcu.count(|stats| stats.invoked += 1);
            callback.expect("as many callbacks as the segments say")(self);
        }
        local.line.write(0);
        if local.segments.get().done > 0 {
            self.invoke_rcu_core(rcu);
        }
    }

    /// Core processing of this CPU (`__rcu_process_callbacks`).
    fn rcu_core(&self, rcu: &Rcu) {
        rcu.count(|stats| stats.core += 1);
        Here::pass(rcu.core);
        if rcu.tree.in_progress() && rcu.tree.force_at() < self.rq.jiffies() {
            self.force_quiescent_states(rcu);
        }
        rcu.note_end();
        rcu.check_quiescent_state(self.rq.jiffies());
        if rcu.needs_grace_period(rcu.here()) {
            rcu.start(self.rq.jiffies());
        }
    }

    /// Looks at the CPUs that the grace period still waits for (`force_quiescent_state`): the first
    /// time it notes whether their ticks are stopped, from then on it reports those that are or
    /// were idle and makes the others reschedule.
    fn force_quiescent_states(&self, rcu: &Rcu) {
        let late = rcu.force(self.rq.jiffies());
        for cpu in late {
            self.rq.resched(cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_wait_for_a_whole_grace_period() {
        let mut segments = Segments { next: 3, ..Segments::default() };
        segments.ready();
        segments.next = 1;
        segments.advance();
        assert_eq!((segments.done, segments.wait, segments.next_ready), (0, 3, 1));
        segments.advance();
        assert_eq!((segments.done, segments.wait), (3, 1));
        segments.next = 2;
        segments.begin();
        assert_eq!((segments.done, segments.wait, segments.waiting()), (3, 3, 3));
    }
}
