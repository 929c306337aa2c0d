//! Events that the scheduler reports to the recorder of the machine.

use super::task::{Policy, State, Tcb};
use convoy_machine::{Event, Here, Leave};
use convoy_sync::TaskId;

/// `task` was made for the run queue of `cpu`.
pub(super) fn born(task: TaskId, cpu: usize) {
    Here::tell(Event::Born { task, cpu: Some(cpu) });
}

/// `task` is the idle task of `cpu`.
pub(super) fn idle(task: TaskId, cpu: usize) {
    debug_assert_eq!(task as usize, cpu, "idle tasks are made first, in the order of the CPUs");
    Here::tell(Event::Born { task, cpu: None });
}

/// `me` is about to leave its CPU, for ever if it `dies`.
pub(super) fn leave(me: &Tcb, dies: bool) {
    let asleep = matches!(me.state.get(), State::Asleep(_)) && !me.preempted.get();
    let why = match (dies, asleep) {
        (true, _) => Leave::Dead,
        (false, true) => Leave::Asleep,
        (false, false) => Leave::Runnable,
    };
    Here::tell(Event::Leave(why));
}

/// `task` becomes runnable.
pub(super) fn wake(task: &Tcb) {
    Here::tell(Event::Wake { task: task.id, cpu: task.cpu.get() });
}

/// A change of tasks begins or ends on this CPU.
pub(super) fn schedule(begins: bool) {
    Here::tell(Event::Schedule(begins));
}

/// A kernel thread begins.
pub(super) fn kthread(kind: &'static str, number: Option<u32>, policy: Policy) {
    Here::tell(Event::Kthread { kind, number, priority: policy.shown() });
}

/// A vector, by number and name, becomes pending on this CPU.
pub(crate) fn raise(vector: u32, name: &'static str) {
    Here::tell(Event::Raise(vector, name));
}

/// The handler of a vector, by number and name, begins on this CPU; or it ends.
pub(crate) fn softirq(vector: Option<(u32, &'static str)>) {
    Here::tell(Event::Softirq(vector));
}
