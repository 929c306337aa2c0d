//! Kernel threads: created asleep, woken, bound to a CPU, parked, stopped.

use super::record;
use super::scheduler::Sched;
pub use super::task::Policy;
use super::task::{State, Tcb};
use convoy_machine::Here;
use convoy_sync::{Sleep, TaskId};
use core::cell::{Cell, RefCell};
use std::rc::Rc;

/// What a kernel thread does; it ends when this returns.
pub type Body = Box<dyn FnOnce(&Sched)>;

/// A kernel thread.
pub struct Kthread {
    name: String,
    tcb: Rc<Tcb>,
    policy: Policy,
    body: RefCell<Option<Body>>,
    should_stop: Cell<bool>,
    should_park: Cell<bool>,
    parked: Cell<bool>,
    ended: Cell<bool>,
    /// The task that waits in [`Sched::kthread_park`] or [`Sched::kthread_stop`].
    waiter: Cell<Option<TaskId>>,
}

impl Kthread {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its task.
    pub fn task(&self) -> TaskId {
        self.tcb.id
    }

    /// How it is scheduled.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether it runs or waits for a CPU.
    pub fn is_runnable(&self) -> bool {
        self.tcb.state.get() == State::Running
    }

    /// Whether somebody wants its body to return.
    pub fn should_stop(&self) -> bool {
        self.should_stop.get()
    }

    /// Whether somebody wants it to call [`Sched::kthread_parkme`].
    pub fn should_park(&self) -> bool {
        self.should_park.get()
    }
}

impl Sched {
    /// A kernel thread that sleeps until its first [`Self::kthread_wake`]; with a `cpu` it never
    /// runs elsewhere. `None` when the machine has no room for another task.
    pub fn kthread_create(
        &self,
        name: &str,
        cpu: Option<usize>,
        policy: Policy,
        body: Body,
    ) -> Option<Rc<Kthread>> {
        let id = Here::spawn_kthread()?;
        let tcb = self.rq.adopt(id, cpu.unwrap_or_else(Here::cpu));
        tcb.state.set(State::Asleep(Sleep::Uninterruptible));
        tcb.bound.set(cpu.is_some());
        tcb.policy.set(policy);
        if let Policy::Normal { nice } = policy {
            tcb.entity.set_nice(nice);
        }
        let kthread = Rc::new(Kthread {
            name: name.to_owned(),
            tcb,
            policy,
            body: RefCell::new(Some(body)),
            should_stop: Cell::new(false),
            should_park: Cell::new(false),
            parked: Cell::new(false),
            ended: Cell::new(false),
            waiter: Cell::new(None),
        });
        self.kthreads.borrow_mut().insert(id, Rc::clone(&kthread));
        Some(kthread)
    }

    /// The kernel thread that `task` is.
    fn kthread_of(&self, task: TaskId) -> Rc<Kthread> {
        let found = self.kthreads.borrow().get(&task).cloned();
        found.unwrap_or_else(|| panic!("task {task} is no kernel thread"))
    }

    /// The whole life of the kernel thread `task`, on its own stack. While the body runs the stack
    /// owns nothing but the body.
    pub(crate) fn kthread_main(&self, task: TaskId) {
        record::kthread(task);
        let body = self.kthread_of(task).body.take();
        body.expect("a kernel thread starts once")(self);
        let kthread = self.kthreads.borrow_mut().remove(&task);
        if let Some(kthread) = kthread {
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

    /// Lets a parked thread go on.
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
