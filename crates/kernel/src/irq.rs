//! Interrupts of devices and the timer wheel: what is to happen on a CPU at a time.

use crate::sched::scheduler::Sched;
use convoy_machine::Here;
use core::cell::RefCell;
use std::collections::BTreeMap;

/// What a device's interrupt does, on its CPU and with interrupts disabled; what a timer does, in
/// the TIMER softirq.
pub type IrqHandler = Box<dyn FnOnce(&Sched)>;

/// What is still to come, by time and order of request.
#[derive(Default)]
struct Agenda(RefCell<BTreeMap<(u64, u64), IrqHandler>>);

impl Agenda {
    /// The first one at `now` or before.
    fn take(&self, now: u64) -> Option<IrqHandler> {
        let mut all = self.0.borrow_mut();
        let first = all.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn next(&self) -> Option<u64> {
        self.0.borrow().first_key_value().map(|(&(at, _), _)| at)
    }
}

/// The device interrupts (in picoseconds) and timers (in nanoseconds) of one CPU.
#[derive(Default)]
pub(crate) struct Agendas {
    devices: Agenda,
    timers: Agenda,
}

impl Agendas {
    /// Whether anything is still to come.
    pub(crate) fn are_empty(&self) -> bool {
        self.devices.next().is_none() && self.timers.next().is_none()
    }

    /// When the first timer expires, in nanoseconds.
    pub(crate) fn first_timer(&self) -> Option<u64> {
        self.timers.next()
    }
}

impl Sched {
    /// A device will interrupt `cpu` at `at_ps` picoseconds.
    pub fn interrupt_at(&self, cpu: usize, at_ps: u64, handler: IrqHandler) {
        let key = (at_ps, self.next_sequence());
        self.agendas[cpu].devices.0.borrow_mut().insert(key, handler);
        Here::kick(cpu, at_ps);
    }

    /// Handles the device interrupts that are due. The machine holds one pending interrupt for each
    /// CPU, so the next one is asked for again.
    pub(crate) fn device_interrupts(&self) {
        let cpu = Here::cpu();
        let devices = &self.agendas[cpu].devices;
        while let Some(handler) = devices.take(Here::now_ps()) {
            handler(self);
        }
        if let Some(at) = devices.next() {
            Here::kick(cpu, at);
        }
    }

    /// `handler` runs in the TIMER softirq of this CPU, at its first tick from `at_ns` on.
    pub fn timer_at(&self, at_ns: u64, handler: IrqHandler) {
        let key = (at_ns, self.next_sequence());
        self.agendas[Here::cpu()].timers.0.borrow_mut().insert(key, handler);
    }

    /// The TIMER softirq.
    pub(crate) fn timer_softirq(&self) {
        while let Some(handler) = self.agendas[Here::cpu()].timers.take(Here::now_ns()) {
            handler(self);
        }
    }
}
