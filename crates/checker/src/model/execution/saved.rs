//! A saved point of an execution, and the return to it. To execute a second order with the same
//! prefix, the search returns to the last common point instead of starting from the beginning.
//!
//! The state of tasks that share one object ([`Instance::of`]) consists only of memory at fixed
//! addresses: the object, the stacks, the registers in the coroutines, and the task states of the
//! execution. A copy of this memory is a saved point.
//!
//! [`Instance::of`]: crate::model::Instance::of

use super::place::Words;
use super::tasks::{Status, Task};
use super::{Execution, Routine};
use crate::model::cycles::Slots;
use crate::model::memory::Storage;
use core::mem::MaybeUninit;
use core::ptr;

/// See the module documentation.
#[derive(Default)]
pub(in crate::model) struct Saved {
    tasks: Vec<Task>,
    sequence: u64,
    hurries: bool,
    tail: (Slots, bool),
    storage: Storage,
    last: Option<usize>,
    step: usize,
    /// The bits of each coroutine. They do not own its resources: the coroutine does.
    routines: Vec<MaybeUninit<Option<Routine>>>,
    /// The words of the object, then of the stacks of the tasks that have not ended.
    words: Words,
}

impl Saved {
    /// Saves the current state of `execution` in the memory of `self`. Returns `None` if its tasks
    /// share more than one object.
    pub(super) fn with(
        mut self,
        execution: &Execution,
        routines: &[Option<Routine>],
        last: Option<usize>,
        step: usize,
    ) -> Option<Self> {
        let placed = execution.placed.as_ref()?;
        let live = || execution.tasks.iter().filter(|task| task.status.get() != Status::Done);
        self.words.clear();
        placed.save(&mut self.words);
        live().for_each(|task| task.save_stack(&mut self.words));
        // SAFETY: bits that are not used as a coroutine are copied.
        let bits = |routine: &Option<Routine>| unsafe {
            ptr::from_ref(routine).cast::<MaybeUninit<_>>().read()
        };
        self.routines.clear();
        self.routines.extend(routines.iter().map(bits));
        self.tasks.clear();
        self.tasks.extend_from_slice(&execution.tasks);
        self.storage.clone_from(&execution.storage.borrow());
        let (sequence, hurries) = (execution.sequence.get(), execution.hurries.get());
        Some(Self { sequence, hurries, tail: execution.tail.get(), last, step, ..self })
    }

    /// Restores this point of the same execution. Returns the task that ran last and the number of
    /// the next step.
    pub(super) fn restore(
        &self,
        execution: &Execution,
        routines: &mut [Option<Routine>],
    ) -> (Option<usize>, usize) {
        execution.sequence.set(self.sequence);
        execution.hurries.set(self.hurries);
        execution.tail.set(self.tail);
        execution.storage.borrow_mut().clone_from(&self.storage);
        execution.current.set(self.last);
        let placed = execution.placed.as_ref().expect("a moment of this execution");
        let mut words = placed.put(&self.words);
        for (task, saved) in execution.tasks.iter().zip(&self.tasks) {
            task.put(saved);
            if saved.status.get() != Status::Done {
                words = task.put_stack(words);
            }
        }
        for (routine, saved) in routines.iter_mut().zip(&self.routines) {
            // SAFETY: as above.
            let bits = unsafe { ptr::read(saved) };
            // SAFETY: these are the bits of the same coroutine at a point whose stack was just
            // restored. It had the same stack then, and so has the coroutine that is overwritten
            // without being dropped.
            unsafe { ptr::from_mut(routine).cast::<MaybeUninit<_>>().write(bits) };
        }
        (self.last, self.step)
    }
}
