//! The state of an execution as one number: two executions with equal states continue alike.
//!
//! A suspended task is its stack, and the tasks of [`Instance::of`] share nothing but the stacks
//! and one object. So the state is the contents of the stacks and the object, and the task states
//! of the execution, with its memory model. Dead words, which are not read again, split one state
//! into two. This costs executions but hides no state. The memory below the stack of a task is
//! cleared after each step, since the frames of its next calls would keep its contents.
//!
//! Stacks, object and tasks have the same addresses in all executions of a search, and the
//! operations of the checker leave nothing on the stacks. So equal states are equal bytes, wherever
//! the kernel has mapped the process, and no word has to be interpreted: two processes find the
//! same states.
//!
//! [`Instance::of`]: crate::model::Instance::of

use super::place::{Placed, word};
use super::tasks::{Status, Task, Tasks};
use crate::model::memory::Storage;

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

    fn sum(&self) -> u128 {
        let [one, other] = self.0;
        u128::from(one) << 64 | u128::from(other)
    }
}

/// A state of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct State {
    /// Everything on which the future depends.
    pub(in crate::model) whole: u128,
    /// The same without the order of `SeqCst` operations, which grows in a loop. Steps that are not
    /// stale are possible after any such order, and lead to the same values.
    pub(in crate::model) values: u128,
}

/// Returns the state of `tasks` that share only `placed`; `other` is the rest of it.
pub(super) fn state(placed: &Placed, tasks: &Tasks, storage: &Storage, other: u64) -> State {
    let mut digest = Digest([1, 2]);
    placed.changes().for_each(|word| digest.add(word));
    digest.add(other);
    storage.digest(&mut |word| digest.add(word));
    for task in tasks.iter() {
        let status = task.status.get();
        digest.add(status as u64);
        if status == Status::Done {
            continue;
        }
        let flags =
            [task.deadline.get(), task.interrupted.get(), task.killed.get(), task.unwanted.get()];
        let flags = flags.iter().fold(0, |all, &flag| all << 1 | u64::from(flag));
        digest.add(flags << 16 | (task.sleep.get() as u64) << 8 | task.wake.get() as u64);
        let (preempt, irq) = task.disabled.get();
        digest.add((preempt as u64) << 32 ^ irq as u64);
        if status == Status::Asleep {
            let asleep = |other: &&Task| other.status.get() == Status::Asleep;
            let earlier = |other: &&Task| other.asleep_since.get() < task.asleep_since.get();
            digest.add(task.asleep_on.get() as u64);
            digest.add(tasks.iter().filter(asleep).filter(earlier).count() as u64);
        }
        (task.low()..task.stack.1).step_by(8).for_each(|at| digest.add(word(at)));
    }
    let values = digest.sum();
    storage.digest_order(&mut |word| digest.add(word));
    State { whole: digest.sum(), values }
}
