//! [`Monitor`]: counts of the scheduler that a lock reads, and marks of a task that the scheduler
//! reads.
//!
//! The scheduler of a platform with a monitor reads the marks of a task that it takes off a CPU
//! although the task could run on. If they say that the task is in a critical section, it adds one
//! to the count, and subtracts it when the task is back on a CPU.

use core::cell::Cell;

/// What a task says about itself: one line, which the scheduler reads. A task waits in at most one
/// queue, so its record is also the node of that queue.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Marks<W> {
    /// Critical sections that the task is in, or about to enter.
    pub(crate) sections: Cell<u32>,
    /// Its place in the queue of a lock.
    pub(crate) place: W,
    /// The task behind it in the queue.
    pub(crate) next: W,
}

impl<W> Marks<W> {
    /// Returns the marks of a task outside of any critical section, with words that hold 0.
    pub fn new(word: impl Fn() -> W) -> Self {
        Self { sections: Cell::new(0), place: word(), next: word() }
    }
}

/// The count of the scheduler and the marks of one task.
#[derive(Debug)]
pub struct Monitor<'a, W> {
    /// Tasks that lost their CPU in a marked critical section and are not back on one.
    pub preempted: &'a W,
    /// The marks of the task.
    pub marks: &'a Marks<W>,
}
