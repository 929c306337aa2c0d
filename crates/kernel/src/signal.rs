//! Signals: sending, catching, delivery on the way back to user mode.

pub(crate) mod rules;

use crate::process::Process;
use crate::processes::Life;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::{Exit, Pid, Signal, Sys};

impl Process {
    /// `signal(signal, handler)`.
    pub(crate) fn catch_signal(&self, signal: Signal) -> Sys<()> {
        if signal == Signal::Kill {
            return Err(Errno::EINVAL);
        }
        Here::pass(self.world.costs.signal_install);
        self.me.hot.signals.hold_irq(|_| {
            let set = self.handlers.caught_set.get();
            self.handlers.caught_set.set(set | 1 << signal.number());
            self.handlers.caught.set(0);
        });
        Ok(())
    }

    /// `kill`.
    pub(crate) fn send_signal(&self, pid: Pid, signal: Signal) -> Sys<()> {
        Here::pass(self.world.costs.kill);
        let target = self.world.processes.find(pid).ok_or(Errno::ESRCH)?;
        if target.life.get() != Life::Alive {
            // A zombie takes any signal and does nothing.
            return Ok(());
        }
        target.hot.signals.hold_irq(|pending| {
            let new = pending.peek() >> signal.number() & 1 == 0;
            if new {
                self.world.processes.signal_queued();
            }
            pending.write(pending.peek() | 1 << signal.number());
            // A task that has not started looks at its signals when it does; one that ends looks at
            // none.
            if let Some(task) = target.task.get() {
                self.world.sched.sleepers.post_signal(task, signal == Signal::Kill);
            }
        });
        Ok(())
    }

    /// Delivers pending signals; does not return if one of them ends the process.
    #[cold]
    pub(crate) fn deliver_signals(&self) {
        let signals = &self.me.hot.signals;
        while signals.unlocked().peek() != 0 {
            Here::pass(self.world.costs.signal_deliver);
            let number = signals.hold_irq(|pending| {
                let set = pending.read();
                let number = set.trailing_zeros();
                pending.write(set & set.wrapping_sub(1));
                self.world.processes.signal_taken();
                if set & set.wrapping_sub(1) == 0 {
                    self.world.sched.rq.current().clear_signal();
                }
                number
            });
            if self.handlers.caught_set.get() >> number & 1 == 0 {
                self.die(Exit::Signal(number as i32));
            }
            self.handlers.caught.set(self.handlers.caught.get() + 1);
            // The return from the handler is a system call.
            self.enter("sigreturn");
        }
    }

    /// Discards pending signals, when the process exits.
    pub(crate) fn clear_all_signals(&self) {
        let signals = &self.me.hot.signals;
        if signals.unlocked().peek() != 0 {
            signals.hold_irq(|pending| pending.write(0));
            self.world.sched.rq.current().clear_signal();
        }
    }
}
