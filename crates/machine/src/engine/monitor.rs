//! Memory of a monitor of critical sections: the count, and the marks of each task that has taken a
//! lock which asks for them. The operating system counts.

use crate::memory::{Region, Sim};
use crate::word::Word;
use convoy_sync::{Atomic, Marks, Monitor, TaskId};
use core::cell::OnceCell;
use std::rc::Rc;

/// A word on a separate line.
#[repr(C, align(64))]
struct Alone(Word<u32>);

/// The marks of a task, placed at its first request.
type TaskMarks = OnceCell<Sim<Marks<Word<u32>>>>;

/// The memory, placed at the first request.
pub(crate) struct Marked {
    preempted: OnceCell<Sim<Alone>>,
    /// By task.
    marks: Box<[TaskMarks]>,
}

impl Marked {
    pub(super) fn new(tasks: usize) -> Self {
        let marks = (0..tasks).map(|_| OnceCell::new()).collect();
        Self { preempted: OnceCell::new(), marks }
    }

    /// Returns the monitor with the marks of `task`, which has marks in `region` from now on.
    pub(crate) fn of(&self, task: TaskId, region: &Rc<Region>) -> Monitor<'_, Word<u32>> {
        let marks = || Sim::place(region, Marks::new(|| Word::new(0)));
        let preempted = || Sim::place(region, Alone(Word::new(0)));
        Monitor {
            preempted: &self.preempted.get_or_init(preempted).0,
            marks: self.marks[task as usize].get_or_init(marks),
        }
    }

    /// Returns whether some task has marks.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.preempted.get().is_some()
    }

    /// Returns the monitor with the marks of `task`, if it has marks.
    pub(crate) fn get(&self, task: TaskId) -> Option<Monitor<'_, Word<u32>>> {
        let marks = self.marks[task as usize].get()?;
        Some(Monitor { preempted: &self.preempted.get()?.0, marks })
    }
}
