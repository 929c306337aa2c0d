//! State of software interrupts, and the context of a CPU, encoded in its preemption count.

use super::rules::{SoftirqRules, Vector};
use crate::sched::kthread::state::{Kthread, Kthreads};
use crate::sched::queue::RunQueues;
use crate::sched::work::Handler;
use convoy_machine::{Context, Here, Mode};
use core::cell::{Cell, RefCell};
use std::rc::Rc;

/// One running bottom half in the preemption count.
pub(super) const SOFTIRQ: u32 = 1 << 8;
/// One `local_bh_disable` in the preemption count: even, so that bit 8 marks a running handler.
pub(super) const BH_DISABLED: u32 = 2 * SOFTIRQ;
const SOFTIRQ_MASK: u32 = 0xff00;
/// One interrupt in the preemption count.
pub(super) const HARDIRQ: u32 = 1 << 16;

/// Returns the context of the caller, from its preemption count.
#[inline]
#[must_use]
pub fn context() -> Context {
    let count = Here::preempt_depth();
    Context {
        hardirq: count >= HARDIRQ,
        softirq: count & SOFTIRQ != 0,
        bh_off: count & SOFTIRQ_MASK != 0,
        irqs_off: Here::irqs_disabled(),
    }
}

/// From here on no software interrupt runs on this CPU, and the caller may not sleep.
pub fn local_bh_disable() {
    add_to_count(BH_DISABLED);
}

/// An interrupt starts on this CPU.
pub(crate) fn irq_enter() {
    add_to_count(HARDIRQ);
}

pub(super) fn add_to_count(part: u32) {
    Here::set_preempt_depth(Here::preempt_depth() + part);
}

pub(super) fn take_from_count(part: u32) {
    Here::set_preempt_depth(Here::preempt_depth() - part);
}

/// One CPU's part.
#[derive(Default)]
pub(super) struct Local {
    /// One bit for each vector, by its place in [`SoftirqRules::vectors`].
    pub(super) pending: Cell<u32>,
    /// Runs of each handler.
    pub(super) counts: RefCell<Vec<u64>>,
    /// Time in handlers outside `ksoftirqd`, without interrupts during it, in picoseconds.
    pub(super) time: Cell<u64>,
    pub(super) ksoftirqd: RefCell<Option<Rc<Kthread>>>,
}

/// The software interrupts of one kernel.
pub struct Softirqs<S> {
    pub(super) rules: SoftirqRules,
    pub(super) rq: Rc<RunQueues>,
    pub(super) kthreads: Rc<Kthreads<S>>,
    handlers: RefCell<Vec<Option<Handler<S>>>>,
    locals: Vec<Local>,
}

impl<S> Softirqs<S> {
    pub(crate) fn new(rules: &SoftirqRules, rq: Rc<RunQueues>, kthreads: Rc<Kthreads<S>>) -> Self {
        let vectors = rules.vectors.len();
        let local = || Local { counts: RefCell::new(vec![0; vectors]), ..Local::default() };
        Self {
            rules: rules.clone(),
            handlers: RefCell::new(rules.vectors.iter().map(|_| None).collect()),
            locals: rq.queues.iter().map(|_| local()).collect(),
            rq,
            kthreads,
        }
    }

    /// Sets what `vector` does.
    ///
    /// # Panics
    ///
    /// If this kernel does not have the vector.
    pub fn open(&self, vector: Vector, handler: Handler<S>) {
        self.handlers.borrow_mut()[self.place(vector)] = Some(handler);
    }

    fn place(&self, vector: Vector) -> usize {
        let found = self.rules.vectors.iter().position(|&known| known == vector);
        found.unwrap_or_else(|| panic!("this kernel has no softirq {}", vector.name()))
    }

    /// Makes `vector` pending on this CPU; its number.
    pub(super) fn set_pending(&self, vector: Vector) -> u32 {
        let (pending, place) = (&self.local().pending, self.place(vector));
        pending.set(pending.get() | 1 << place);
        place as u32
    }

    /// Returns the handler of the vector at `place` of the rules.
    pub(super) fn handler(&self, place: usize) -> Option<Handler<S>> {
        self.handlers.borrow()[place].clone()
    }

    /// The part of this CPU.
    pub(super) fn local(&self) -> &Local {
        &self.locals[Here::cpu()]
    }

    fn bits(&self, vectors: &[Vector]) -> u32 {
        let known = self.rules.vectors.iter().enumerate();
        known.filter(|(_, vector)| vectors.contains(vector)).map(|(place, _)| 1 << place).sum()
    }

    /// Whether `pending` waits for this CPU's `ksoftirqd`, which is about to run.
    pub(super) fn left_to_ksoftirqd(&self, pending: u32) -> bool {
        self.rules.defer_to_ksoftirqd
            && pending & self.bits(&[Vector::Hi, Vector::Tasklet]) == 0
            && self.local().ksoftirqd.borrow().as_ref().is_some_and(|it| it.is_runnable())
    }

    /// How often each vector has run on `cpu`, in the order of the preset's vectors.
    #[must_use]
    pub fn counts(&self, cpu: usize) -> Vec<(Vector, u64)> {
        let counts = self.locals[cpu].counts.borrow();
        self.rules.vectors.iter().copied().zip(counts.iter().copied()).collect()
    }

    /// Time of `cpu` in software interrupts outside `ksoftirqd`, picoseconds: the softirq column of
    /// `/proc/stat`. The machine accounts it as [`Mode::System`] and [`Mode::Spin`]; the irq column
    /// is [`Mode::Interrupt`].
    #[must_use]
    pub fn time_ps(&self, cpu: usize) -> u64 {
        self.locals[cpu].time.get()
    }
}

/// Measures a period on this CPU without the interrupts during it.
pub(super) struct Account {
    start: u64,
    interrupts: u64,
}

impl Account {
    pub(super) fn start() -> Self {
        Self { start: Here::now_ps(), interrupts: Self::interrupts() }
    }

    fn interrupts() -> u64 {
        Here::times(Here::cpu())[Mode::Interrupt as usize]
    }

    pub(super) fn end(&self) -> u64 {
        Here::now_ps() - self.start - (Self::interrupts() - self.interrupts)
    }
}
