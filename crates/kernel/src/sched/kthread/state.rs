//! State of kernel threads.

use crate::sched::queue::RunQueues;
use crate::sched::task::{Policy, State, Tcb};
use crate::sched::wake::Wakeups;
use crate::sched::work::Work;
use convoy_machine::Here;
use convoy_sync::{Sleep, TaskId};
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A kernel thread, and its body until it starts.
type Entry<S> = (Rc<Kthread>, Option<Work<S>>);

/// All kernel threads of a machine.
pub struct Kthreads<S> {
    rq: Rc<RunQueues>,
    wakeups: Rc<Wakeups>,
    all: RefCell<BTreeMap<TaskId, Entry<S>>>,
}

impl<S> Kthreads<S> {
    pub(in crate::sched) fn new(rq: Rc<RunQueues>, wakeups: Rc<Wakeups>) -> Self {
        Self { rq, wakeups, all: RefCell::default() }
    }

    /// A kernel thread that sleeps until its first [`Self::wake`], named by kind and number; with
    /// a `cpu` it never runs elsewhere. It ends when `body` returns. `None` if the machine has no
    /// free stack for another task.
    pub fn create(
        &self,
        (kind, number): (&'static str, Option<u32>),
        cpu: Option<usize>,
        policy: Policy,
        body: Work<S>,
    ) -> Option<Rc<Kthread>> {
        let id = Here::spawn_kthread()?;
        let tcb = self.rq.adopt(id, cpu.unwrap_or_else(Here::cpu));
        tcb.state.set(State::Asleep(Sleep::Uninterruptible));
        tcb.bound.set(cpu.is_some());
        tcb.policy.set(policy);
        if let Policy::Normal { nice } = policy {
            tcb.entity.set_nice(nice);
        }
        let kthread = Rc::new(Kthread::new(kind, number, tcb, policy));
        self.all.borrow_mut().insert(id, (Rc::clone(&kthread), Some(body)));
        Some(kthread)
    }

    /// The thread `task`, which starts, and its body.
    pub(super) fn start(&self, task: TaskId) -> (Rc<Kthread>, Work<S>) {
        let mut all = self.all.borrow_mut();
        let (thread, body) = all.get_mut(&task).expect("a kernel thread");
        (Rc::clone(thread), body.take().expect("a kernel thread starts once"))
    }

    /// The thread `task` has ended: wakes the task that waits for this.
    pub(super) fn end(&self, task: TaskId) {
        let kthread = self.all.borrow_mut().remove(&task);
        if let Some((kthread, _)) = kthread {
            kthread.ended.set(true);
            if let Some(waiter) = kthread.waiter.get() {
                self.wakeups.try_to_wake_up(&self.rq.tcb(waiter), false);
            }
        }
    }

    /// Wakes `kthread`; whether it was asleep.
    pub fn wake(&self, kthread: &Kthread) -> bool {
        self.wakeups.try_to_wake_up(&kthread.tcb, false)
    }
}

/// A kernel thread.
pub struct Kthread {
    pub(super) kind: &'static str,
    pub(super) number: Option<u32>,
    tcb: Rc<Tcb>,
    policy: Policy,
    pub(super) should_stop: Cell<bool>,
    pub(super) ended: Cell<bool>,
    /// The task that waits in `stop`.
    pub(super) waiter: Cell<Option<TaskId>>,
}

impl Kthread {
    /// The kernel thread that the task of `tcb` is.
    fn new(kind: &'static str, number: Option<u32>, tcb: Rc<Tcb>, policy: Policy) -> Self {
        Self {
            kind,
            number,
            tcb,
            policy,
            should_stop: Cell::new(false),
            ended: Cell::new(false),
            waiter: Cell::new(None),
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        let number = self.number.map_or_else(String::new, |number| number.to_string());
        format!("{}{number}", self.kind)
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

    /// Returns whether its body was requested to return.
    pub fn should_stop(&self) -> bool {
        self.should_stop.get()
    }
}
