//! Interrupts of devices: each has a CPU, a time and a handler.

use crate::sched::Sched;
use convoy_machine::Here;
use core::cell::RefCell;
use std::collections::BTreeMap;

/// What a device's interrupt does, on its CPU and with interrupts disabled.
pub type IrqHandler = Box<dyn FnOnce(&Sched)>;

/// The device interrupts that are still to come, by CPU, then by time and order of request.
pub(crate) struct Devices {
    due: Vec<RefCell<BTreeMap<(u64, u64), IrqHandler>>>,
}

impl Devices {
    pub(crate) fn new(cpus: usize) -> Self {
        Self { due: (0..cpus).map(|_| RefCell::default()).collect() }
    }

    /// The next one of `cpu` at `now` or before.
    fn take(&self, cpu: usize, now: u64) -> Option<IrqHandler> {
        let mut due = self.due[cpu].borrow_mut();
        let first = due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn next(&self, cpu: usize) -> Option<u64> {
        self.due[cpu].borrow().first_key_value().map(|(&(at, _), _)| at)
    }
}

impl Sched {
    /// A device will interrupt `cpu` at `at_ps` picoseconds.
    pub fn interrupt_at(&self, cpu: usize, at_ps: u64, handler: IrqHandler) {
        let key = (at_ps, self.next_sequence());
        self.devices.due[cpu].borrow_mut().insert(key, handler);
        Here::kick(cpu, at_ps);
    }

    /// Handles the device interrupts that are due. The machine holds one pending interrupt for each
    /// CPU, so the next one is asked for again.
    pub(crate) fn device_interrupts(&self) {
        let cpu = Here::cpu();
        while let Some(handler) = self.devices.take(cpu, Here::now_ps()) {
            handler(self);
        }
        if let Some(at) = self.devices.next(cpu) {
            Here::kick(cpu, at);
        }
    }
}
