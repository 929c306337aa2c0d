//! Kernel threads: created asleep, woken, bound to a CPU, parked, stopped.

pub(crate) mod state;

use super::record;
use super::scheduler::{Sched, Work};
use super::task::State;
use convoy_machine::Here;
use convoy_sync::{Sleep, TaskId};
use core::cell::Cell;
use std::rc::Rc;

pub use super::task::Policy;
pub use state::Kthread;

impl Sched {
    /// A kernel thread that sleeps until its first [`Self::kthread_wake`]; with a `cpu` it never
    /// runs elsewhere. It ends when `body` returns. `None` if the machine has no free stack for
    /// another task.
    pub fn kthread_create(
        &self,
        name: &str,
        cpu: Option<usize>,
        policy: Policy,
        body: Work,
    ) -> Option<Rc<Kthread>> {
        let id = Here::spawn_kthread()?;
        let tcb = self.rq.adopt(id, cpu.unwrap_or_else(Here::cpu));
        tcb.state.set(State::Asleep(Sleep::Uninterruptible));
        tcb.bound.set(cpu.is_some());
        tcb.policy.set(policy);
        if let Policy::Normal { nice } = policy {
            tcb.entity.set_nice(nice);
        }
        let kthread = Rc::new(Kthread::new(name, tcb, policy));
        self.kthreads.borrow_mut().insert(id, (Rc::clone(&kthread), Some(body)));
        Some(kthread)
    }

    /// The whole life of the kernel thread `task`, on its own stack. While the body runs the stack
    /// owns nothing but the body.
    pub(crate) fn kthread_main(&self, task: TaskId) {
        record::kthread(task);
        let body = self.kthreads.borrow_mut().get_mut(&task).and_then(|(_, body)| body.take());
        body.expect("a kernel thread starts once")(self);
        let kthread = self.kthreads.borrow_mut().remove(&task);
        if let Some((kthread, _)) = kthread {
            kthread.ended.set(true);
            self.kthread_notify(&kthread);
        }
    }

    /// Wakes `kthread`; whether it was asleep.
    pub fn kthread_wake(&self, kthread: &Kthread) -> bool {
        self.wakeups.try_to_wake_up(&kthread.tcb, false)
    }

    /// Sleeps until woken, unless `ready`. The caller is a task; a wakeup from the moment on that
    /// this is called is not lost. Returns at any wakeup: the caller looks again.
    pub fn sleep_unless(&self, ready: impl Fn() -> bool) {
        self.rq.current().state.set(State::Asleep(Sleep::Uninterruptible));
        if !ready() {
            self.schedule();
        }
        self.rq.current().state.set(State::Running);
    }

    /// For the thread itself, when [`Kthread::should_park`]: sleeps until it is unparked.
    pub fn kthread_parkme(&self, kthread: &Kthread) {
        kthread.parked.set(true);
        self.kthread_notify(kthread);
        while kthread.should_park.get() {
            self.sleep_unless(|| !kthread.should_park.get());
        }
        kthread.parked.set(false);
    }

    /// Waits until `kthread` has parked itself.
    pub fn kthread_park(&self, kthread: &Kthread) {
        kthread.should_park.set(true);
        self.kthread_wait(kthread, &kthread.parked);
    }

    /// Lets a parked thread continue.
    pub fn kthread_unpark(&self, kthread: &Kthread) {
        kthread.should_park.set(false);
        self.kthread_wake(kthread);
    }

    /// Waits until `kthread` has ended.
    pub fn kthread_stop(&self, kthread: &Kthread) {
        kthread.should_stop.set(true);
        self.kthread_wait(kthread, &kthread.ended);
    }

    fn kthread_wait(&self, kthread: &Kthread, done: &Cell<bool>) {
        kthread.waiter.set(Some(Here::task()));
        self.kthread_wake(kthread);
        while !done.get() {
            self.sleep_unless(|| done.get());
        }
        kthread.waiter.set(None);
    }

    fn kthread_notify(&self, kthread: &Kthread) {
        if let Some(waiter) = kthread.waiter.get() {
            self.wakeups.try_to_wake_up(&self.rq.tcb(waiter), false);
        }
    }
}
