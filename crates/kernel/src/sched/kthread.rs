//! Kernel threads: created asleep, woken, bound to a CPU, parked, stopped.

pub(crate) mod state;

use super::record;
use super::scheduler::Sched;
use convoy_machine::Here;
use convoy_sync::TaskId;
use core::cell::Cell;

pub use super::task::Policy;
pub use state::{Kthread, Kthreads};

impl Kthread {
    /// The whole life of the kernel thread `task`, on its own stack. While the body runs the stack
    /// owns nothing but the body.
    pub(super) fn run(sched: &Sched, task: TaskId) {
        record::kthread(task);
        sched.kthreads.start(task)(sched);
        sched.kthreads.end(task);
    }

    /// For the thread itself, when [`Self::should_park`]: sleeps until it is unparked.
    pub fn park_me(&self, sched: &Sched) {
        self.parked.set(true);
        sched.kthreads.notify(self);
        while self.should_park.get() {
            sched.sleep_unless(|| !self.should_park.get());
        }
        self.parked.set(false);
    }

    /// Waits until it has parked itself.
    pub fn park(&self, sched: &Sched) {
        self.should_park.set(true);
        self.wait(sched, &self.parked);
    }

    /// Waits until it has ended.
    pub fn stop(&self, sched: &Sched) {
        self.should_stop.set(true);
        self.wait(sched, &self.ended);
    }

    fn wait(&self, sched: &Sched, done: &Cell<bool>) {
        self.waiter.set(Some(Here::task()));
        sched.kthreads.wake(self);
        while !done.get() {
            sched.sleep_unless(|| done.get());
        }
        self.waiter.set(None);
    }
}
