//! Kernel threads: created asleep, woken, bound to a CPU, stopped.

pub(crate) mod state;

use super::record;
use super::scheduler::Sched;
use convoy_machine::Here;
use convoy_sync::TaskId;

pub use super::task::Policy;
pub use state::{Kthread, Kthreads};

impl Kthread {
    /// The whole life of the kernel thread `task`, on its own stack. While the body runs the stack
    /// owns nothing but the body.
    pub(super) fn run(sched: &Sched, task: TaskId) {
        let (thread, body) = sched.kthreads.start(task);
        record::kthread(thread.kind, thread.number, thread.policy());
        drop(thread);
        body(sched);
        sched.kthreads.end(task);
    }

    /// Waits until it has ended.
    pub fn stop(&self, sched: &Sched) {
        self.should_stop.set(true);
        self.waiter.set(Some(Here::task()));
        sched.kthreads.wake(self);
        while !self.ended.get() {
            sched.sleep_unless(|| self.ended.get());
        }
    }
}
