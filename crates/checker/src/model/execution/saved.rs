//! An execution at one of its moments, and the return to it. To execute a second order that begins
//! like the first, the search returns to the last common moment instead of starting anew.
//!
//! Tasks that share one object ([`Instance::of`]) are nothing but memory at fixed addresses: the
//! object, the stacks, the registers in the coroutines, and what the execution knows of its tasks.
//! A copy of it all is the moment.
//!
//! [`Instance::of`]: crate::model::Instance::of

use super::place::Words;
use super::{Execution, Routine, Status, Task};
use core::mem::MaybeUninit;
use core::ptr;

/// See the module documentation.
pub(in crate::model) struct Saved {
    tasks: Vec<Task>,
    sequence: u64,
    hurries: bool,
    last: Option<usize>,
    step: usize,
    /// The bits of each coroutine. They own nothing: the coroutine does.
    routines: Vec<MaybeUninit<Option<Routine>>>,
    /// The object, then the stacks of the tasks that have not ended.
    words: Words,
}

impl Saved {
    /// `execution` as it is; `None` if its tasks share more than one object.
    pub(super) fn of(
        execution: &Execution,
        routines: &[Option<Routine>],
        last: Option<usize>,
        step: usize,
    ) -> Option<Self> {
        let placed = execution.placed.as_ref()?;
        let mut words = Vec::with_capacity(1024);
        placed.save(&mut words);
        for task in execution.tasks.iter().filter(|task| task.status.get() != Status::Done) {
            execution.save_stack(task, &mut words);
        }
        // SAFETY: bits that are not used as a coroutine are copied.
        let bits = |routine: &Option<Routine>| unsafe {
            ptr::from_ref(routine).cast::<MaybeUninit<_>>().read()
        };
        Some(Self {
            tasks: execution.tasks.clone(),
            sequence: execution.sequence.get(),
            hurries: execution.hurries.get(),
            last,
            step,
            routines: routines.iter().map(bits).collect(),
            words,
        })
    }

    /// Returns to this moment of the same execution, and the task that ran last and the next step.
    pub(super) fn restore(
        &self,
        execution: &Execution,
        routines: &mut [Option<Routine>],
    ) -> (Option<usize>, usize) {
        execution.sequence.set(self.sequence);
        execution.hurries.set(self.hurries);
        execution.current.set(self.last);
        let placed = execution.placed.as_ref().expect("a moment of this execution");
        let mut words = placed.put(&self.words);
        for (task, saved) in execution.tasks.iter().zip(&self.tasks) {
            task.put(saved);
            if saved.status.get() != Status::Done {
                words = execution.put_stack(task, words);
            }
        }
        for (routine, saved) in routines.iter_mut().zip(&self.routines) {
            // SAFETY: as above.
            let bits = unsafe { ptr::read(saved) };
            // SAFETY: the bits of the same coroutine at a moment whose stack was just put back. It
            // had the same stack, and so has the one that is overwritten without being dropped.
            unsafe { ptr::from_mut(routine).cast::<MaybeUninit<_>>().write(bits) };
        }
        (self.last, self.step)
    }
}
