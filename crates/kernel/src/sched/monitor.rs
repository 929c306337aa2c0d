//! The monitor of critical sections ([`Platform::monitor`](convoy_sync::Platform::monitor)): a
//! program that each context switch runs, once a task has marked critical sections.
//!
//! It does what the BPF program of `FlexGuard` does at the tracepoint `sched_switch`
//! (src/flexguard.bpf.c of github.com/vlaforet/flexguard): the next task is subtracted from the
//! count if it was added to it; the previous one is added if it could run on and its marks say that
//! it is in a critical section. So a task that goes to sleep is not added, and one that calls
//! `sched_yield` in a critical section is. The marks and the count are in the memory of the
//! machine; the instructions and tables of the program cost `monitor` of `kernels/costs.toml`.

use super::scheduler::Sched;
use super::task::{State, Tcb};
use convoy_machine::{Here, Smp};
use convoy_sync::{Atomic, FlexGuard, TaskId};
use core::sync::atomic::Ordering::Relaxed;

impl Sched {
    /// Counts at the switch from `me` to `next`.
    #[inline]
    pub(super) fn monitor_switch(&self, me: &Tcb, next: TaskId) {
        if Here::has_monitor() {
            self.count_critical(me, next);
        }
    }

    #[cold]
    fn count_critical(&self, me: &Tcb, next: TaskId) {
        self.futexes().pay_monitor();
        if self.rq.tcb(next).counted_critical.take()
            && let Some(monitor) = Here::monitored(next)
        {
            monitor.preempted.fetch_sub(1, Relaxed);
        }
        if me.state.get() == State::Running
            && let Some(monitor) = Here::monitored(me.id)
            && FlexGuard::<Smp>::are_critical(monitor.marks)
        {
            me.counted_critical.set(true);
            monitor.preempted.fetch_add(1, Relaxed);
        }
    }
}
