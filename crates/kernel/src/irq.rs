//! Device interrupts and the timer wheel: work that is due on a CPU at a given time.

use crate::sched::work::Work;
use convoy_machine::Here;
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Pending work, by time and order of request.
struct Agenda<S>(RefCell<BTreeMap<(u64, u64), Work<S>>>);

impl<S> Agenda<S> {
    fn new() -> Self {
        Self(RefCell::default())
    }

    /// Takes the first work that is due at `now` or before.
    fn take(&self, now: u64) -> Option<Work<S>> {
        let mut all = self.0.borrow_mut();
        let first = all.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the first one is due.
    fn next(&self) -> Option<u64> {
        self.0.borrow().first_key_value().map(|(&(at, _), _)| at)
    }
}

/// The device interrupts (in picoseconds) and timers (in nanoseconds) of each CPU.
pub struct Agendas<S> {
    devices: Vec<Agenda<S>>,
    timers: Vec<Agenda<S>>,
    sequence: Cell<u64>,
}

impl<S> Agendas<S> {
    pub(crate) fn new(cpus: usize) -> Self {
        let all = || (0..cpus).map(|_| Agenda::new()).collect();
        Self { devices: all(), timers: all(), sequence: Cell::new(0) }
    }

    fn add(&self, agenda: &Agenda<S>, at: u64, work: Work<S>) {
        self.sequence.set(self.sequence.get() + 1);
        agenda.0.borrow_mut().insert((at, self.sequence.get()), work);
    }

    /// A device will interrupt `cpu` at `at_ps` picoseconds; `handler` runs on that CPU with
    /// interrupts disabled.
    pub fn interrupt_at(&self, cpu: usize, at_ps: u64, handler: Work<S>) {
        self.add(&self.devices[cpu], at_ps, handler);
        Here::kick(cpu, at_ps);
    }

    /// Handles the device interrupts that are due. The machine holds one pending interrupt for each
    /// CPU, so the next one is asked for again.
    pub(crate) fn run_devices(&self, sched: &S) {
        let devices = &self.devices[Here::cpu()];
        while let Some(handler) = devices.take(Here::now_ps()) {
            handler(sched);
        }
        if let Some(at) = devices.next() {
            Here::kick(Here::cpu(), at);
        }
    }

    /// `handler` runs in the TIMER softirq of this CPU, at its first tick from `at_ns` on.
    pub fn timer_at(&self, at_ns: u64, handler: Work<S>) {
        self.add(&self.timers[Here::cpu()], at_ns, handler);
    }

    /// Runs the timers of this CPU that have expired: the TIMER softirq.
    pub(crate) fn run_timers(&self, sched: &S) {
        while let Some(handler) = self.timers[Here::cpu()].take(Here::now_ns()) {
            handler(sched);
        }
    }

    /// Whether no work is pending on any CPU.
    pub(crate) fn are_empty(&self) -> bool {
        self.devices.iter().chain(&self.timers).all(|agenda| agenda.next().is_none())
    }

    /// When the first timer of `cpu` expires, in nanoseconds.
    pub(crate) fn first_timer(&self, cpu: usize) -> Option<u64> {
        self.timers[cpu].next()
    }
}
