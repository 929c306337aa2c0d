//! Device interrupts and the timer wheel: events that are due on a CPU at a given time.

pub(crate) mod state;

use crate::sched::scheduler::{Sched, Work};
use convoy_machine::Here;

impl Sched {
    /// A device will interrupt `cpu` at `at_ps` picoseconds; `handler` runs on that CPU with
    /// interrupts disabled.
    pub fn interrupt_at(&self, cpu: usize, at_ps: u64, handler: Work) {
        self.agendas[cpu].devices.add(at_ps, self.next_sequence(), handler);
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
    pub fn timer_at(&self, at_ns: u64, handler: Work) {
        self.agendas[Here::cpu()].timers.add(at_ns, self.next_sequence(), handler);
    }

    /// The TIMER softirq.
    pub(crate) fn timer_softirq(&self) {
        while let Some(handler) = self.agendas[Here::cpu()].timers.take(Here::now_ns()) {
            handler(self);
        }
    }
}
