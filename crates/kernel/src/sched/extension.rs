//! The time-slice extension of restartable sequences (`CONFIG_RSEQ_SLICE_EXTENSION`, Linux 7.0,
//! kernel/rseq.c and `include/linux/rseq_entry.h`): a task that has asked for it and is to be
//! preempted on return from an interrupt to user mode runs on for a short time.
//!
//! The grant takes back the wish to reschedule and sets a timer. The task gives its CPU up by
//! `rseq_slice_yield`; any other system call ends the extension too, before it is executed. When
//! the timer fires, or another interrupt wants to reschedule, the grant is revoked.

use super::queue::RunQueue;
use super::scheduler::Sched;
use super::task::Tcb;
use convoy_machine::{Here, Slice, Smp};
use convoy_sync::Platform;

impl Sched {
    /// The way back from an interrupt to user mode (`exit_to_user_mode_loop`).
    pub(super) fn return_to_user(&self) {
        while Here::need_resched() {
            if !self.extends_slice() {
                self.schedule();
            }
        }
    }

    /// Returns whether the task runs on although a reschedule is wanted.
    fn extends_slice(&self) -> bool {
        let Some(slice) = Here::slice_of(Here::task()) else { return false };
        Smp::irq_save();
        let extends = self.grants(self.rq.this(), slice);
        Smp::irq_restore(());
        extends
    }

    /// `rseq_grant_slice_extension`.
    fn grants(&self, queue: &RunQueue, slice: &Slice) -> bool {
        if queue.extended_until.take().is_some() {
            slice.clear();
            return false;
        }
        if !slice.grant() {
            return false;
        }
        queue.need_resched.set(false);
        self.futexes().pay_slice_timer();
        let until = Here::now_ps() + self.config.slice_extension_ns * 1000;
        queue.extended_until.set(Some(until));
        self.program_timer();
        true
    }

    /// At the entry of a system call (`rseq_syscall_enter_work`): ends an extension of the caller,
    /// and lets the task run that is to have the CPU.
    #[inline]
    pub(crate) fn end_extension(&self) {
        if self.rq.this().extended_until.get().is_some() {
            self.yield_extended();
        }
    }

    #[cold]
    fn yield_extended(&self) {
        Smp::irq_save();
        self.rq.this().extended_until.set(None);
        self.futexes().pay_slice_timer();
        self.program_timer();
        Smp::irq_restore(());
        self.schedule();
        if let Some(slice) = Here::slice_of(Here::task()) {
            slice.clear();
        }
    }

    /// At the switch from `me` to another task: an extension ends. Its timer finds that.
    #[inline]
    pub(super) fn drop_extension(queue: &RunQueue, me: &Tcb) {
        if queue.extended_until.take().is_some()
            && let Some(slice) = Here::slice_of(me.id)
        {
            slice.clear();
        }
    }
}
