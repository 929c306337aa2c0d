//! Instances whose tasks share one object.

use super::execution::{place, with};
use super::scenario::{End, Failure, Instance};

/// An object and the function that each task calls.
struct Held<T> {
    object: T,
    body: fn(&T, usize),
}

/// The body of each task. It captures no variables, so it needs no memory on the heap.
fn body<T>() {
    let (start, task) = with(|execution| (execution.object(), execution.current()))
        .expect("a task runs in an execution");
    // SAFETY: `Instance::of` has put a `Held<T>` there, which lives as long as the tasks.
    let held = unsafe { &*start.cast::<Held<T>>() };
    (held.body)(&held.object, task as usize);
}

impl Instance {
    /// Returns an instance of `tasks` tasks that call `task` with their number and share only
    /// `object`, which owns no heap memory. `verdict` judges the end.
    ///
    /// # Panics
    ///
    /// Panics if the object is larger than 64 KiB.
    pub fn of<T: 'static>(
        object: T,
        tasks: usize,
        task: fn(&T, usize),
        verdict: fn(&T, &End) -> Result<(), Failure>,
    ) -> Self {
        let start = place::put(Held { object, body: task });
        let verdict = move |end: &End| {
            // SAFETY: as in `body`.
            let held = unsafe { &*start };
            verdict(&held.object, end)
        };
        let tasks = (0..tasks).map(|_| -> Box<dyn FnOnce()> { Box::new(body::<T>) }).collect();
        Self { tasks, verdict: Box::new(verdict) }
    }
}
