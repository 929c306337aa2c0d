//! Instances whose tasks share one object.

use super::execution::{place, with};
use super::scenario::{End, Failure, Instance};
use std::rc::Rc;

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
        // SAFETY: as in `body`.
        let object = move || unsafe { &(*start).object };
        let tasks = (0..tasks).map(|_| -> Box<dyn FnOnce()> { Box::new(body::<T>) }).collect();
        Self { tasks, verdict: Box::new(move |end| verdict(object(), end)) }
    }

    /// Returns an instance of `tasks` tasks that call `task` with their number and share `object`.
    /// `verdict` judges the end.
    pub fn sharing<T: 'static>(
        object: T,
        tasks: usize,
        task: impl Fn(&T, usize) + Copy + 'static,
        verdict: impl Fn(&T, &End) -> Result<(), Failure> + 'static,
    ) -> Self {
        let object = Rc::new(object);
        let tasks = (0..tasks).map(|number| -> Box<dyn FnOnce()> {
            let object = Rc::clone(&object);
            Box::new(move || task(&object, number))
        });
        Self { tasks: tasks.collect(), verdict: Box::new(move |end| verdict(&object, end)) }
    }
}
