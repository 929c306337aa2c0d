//! The state of an execution as one number: two executions with equal states continue alike.
//!
//! A suspended task is its stack, and the tasks of [`Instance::of`] share nothing but the stacks
//! and one object. So the state is the contents of the stacks and the object, and the task states
//! of the execution. Dead words, which are not read again, split one state into two. This costs
//! executions but hides no state. The memory below the stack of a task is cleared after each step,
//! since the frames of its next calls would keep its contents.
//!
//! Stacks, object and tasks have the same addresses in all executions of a search, and the
//! operations of the checker leave nothing on the stacks. So equal states are equal bytes, wherever
//! the kernel has mapped the process, and no word has to be interpreted: two processes find the
//! same states.
//!
//! [`Instance::of`]: crate::model::Instance::of

use super::place::{Words, copy_from, copy_to, word};
use super::stack::{CLEARED, clear};
use super::{Execution, Status, Task};
use std::mem::MaybeUninit;
use std::ptr;

/// Hash of a sequence of words.
struct Digest([u64; 2]);

impl Digest {
    #[inline]
    fn add(&mut self, word: u64) {
        let [one, other] = self.0;
        self.0 = [
            (one ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29),
            (other.rotate_left(23) ^ word).wrapping_mul(0xc2b2_ae3d_27d4_eb4f),
        ];
    }
}

impl Execution {
    /// Clears the memory below the stack of the task that was just suspended.
    pub(super) fn suspended(&self, task: usize) {
        clear(self.low(&self.tasks[task]) - CLEARED, CLEARED);
    }

    /// Returns the lowest address of its stack that the suspended task uses.
    fn low(&self, task: &Task) -> usize {
        (task.frame.get() & !15) - self.below
    }

    /// Returns the number of words on the stack of the suspended task.
    fn height(&self, task: &Task) -> usize {
        (task.stack.1 - self.low(task)) / 8
    }

    /// Appends the words on the stack of the suspended task to `words`.
    pub(super) fn save_stack(&self, task: &Task, words: &mut Words) {
        copy_from(self.low(task), self.height(task), words);
    }

    /// Overwrites the stack with the first of `words`, clears the memory below it as when the task
    /// was suspended, and returns the rest.
    pub(super) fn put_stack<'a>(
        &self,
        task: &Task,
        words: &'a [MaybeUninit<u64>],
    ) -> &'a [MaybeUninit<u64>] {
        let (own, rest) = words.split_at(self.height(task));
        clear(self.low(task) - CLEARED, CLEARED);
        copy_to(self.low(task), own);
        rest
    }

    /// Returns the address of the object that the tasks share.
    pub(in crate::model) fn object(&self) -> *const () {
        self.placed.as_ref().map_or(ptr::null(), |placed| placed.start.cast_const().cast())
    }

    /// Returns the state if the tasks share only one object. Pass the task that ran last only where
    /// it makes a difference.
    pub(in crate::model) fn state(&self, last: Option<usize>) -> Option<u128> {
        let placed = self.placed.as_ref()?;
        let mut digest = Digest([1, 2]);
        placed.changes().for_each(|word| digest.add(word));
        digest.add(last.map_or(0, |last| 1 + last as u64) << 1 | u64::from(self.hurries.get()));
        for task in &self.tasks {
            let status = task.status.get();
            digest.add(status as u64);
            if status == Status::Done {
                continue;
            }
            let flags = [
                task.deadline.get(),
                task.interrupted.get(),
                task.killed.get(),
                task.unwanted.get(),
            ];
            let flags = flags.iter().fold(0, |all, &flag| all << 1 | u64::from(flag));
            digest.add(flags << 16 | (task.sleep.get() as u64) << 8 | task.wake.get() as u64);
            let (preempt, irq) = task.disabled.get();
            digest.add((preempt as u64) << 32 ^ irq as u64);
            if status == Status::Asleep {
                let asleep = |other: &&Task| other.status.get() == Status::Asleep;
                let earlier = |other: &&Task| other.asleep_since.get() < task.asleep_since.get();
                digest.add(task.asleep_on.get() as u64);
                digest.add(self.tasks.iter().filter(asleep).filter(earlier).count() as u64);
            }
            (self.low(task)..task.stack.1).step_by(8).for_each(|at| digest.add(word(at)));
        }
        let [one, other] = digest.0;
        Some(u128::from(one) << 64 | u128::from(other))
    }

    /// Returns whether the choices depend on the task that ran last.
    pub(in crate::model) fn has_pause(&self) -> bool {
        self.tasks.iter().any(|task| task.status.get() == Status::Pausing)
    }
}
