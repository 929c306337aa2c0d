//! Interrupts: the timer, inter-processor interrupts, enabling and disabling.

use super::{Engine, Mode};
use crate::os::Interrupt;

impl Engine {
    #[cold]
    #[inline(never)]
    pub(super) fn interrupt(&self) {
        let cpu = self.this();
        let now = self.clock.get();
        let user = cpu.mode.get() == Mode::User;
        let cause = Interrupt { timer: cpu.timer.get() <= now, ipi: cpu.ipi.get() <= now, user };
        if cause.timer {
            cpu.timer.set(u64::MAX);
        }
        if cause.ipi {
            cpu.ipi.set(u64::MAX);
        }
        let mode = self.set_mode(Mode::Interrupt);
        self.irq_disable();
        self.pass(self.interrupt_price);
        self.os().interrupt(cause);
        cpu.irq_off.set(cpu.irq_off.get() - 1);
        self.limit_interrupt();
        self.set_mode(Mode::System);
        self.os().interrupt_return(mode == Mode::User);
        self.set_mode(mode);
    }

    #[inline]
    pub(crate) fn irq_disable(&self) {
        let cpu = self.this();
        let depth = cpu.irq_off.get();
        cpu.irq_off.set(depth + 1);
        if depth == 0 {
            self.near.set(self.others_near.get());
            self.far.set(self.others_far.get());
        }
    }

    #[inline]
    pub(crate) fn irq_enable(&self) {
        let cpu = self.this();
        cpu.irq_off.set(cpu.irq_off.get() - 1);
        if cpu.irq_off.get() == 0 {
            if self.clock.get() >= Self::next_interrupt(cpu) && !self.yielder.get().is_null() {
                self.interrupt();
            }
            self.limit_interrupt();
        }
    }

    /// Sets the timer of the running CPU to fire at `at` picoseconds; `u64::MAX` stops it.
    pub(crate) fn set_timer(&self, at: u64) {
        self.this().timer.set(at);
        self.limit_interrupt();
    }

    /// Sends an inter-processor interrupt that arrives at `at`.
    pub(crate) fn kick(&self, cpu: usize, at: u64) {
        let target = &self.cpus[cpu];
        target.ipi.set(target.ipi.get().min(at));
        if cpu == self.cpu.get() {
            self.limit_interrupt();
        } else if target.blocked.get() && target.irq_off.get() == 0 {
            let key = self.tree.key(cpu).min(at.max(target.clock.get()));
            self.set_other(cpu, key);
        }
    }
}
