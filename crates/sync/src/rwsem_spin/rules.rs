//! Which writers of a [`SpinRwSemaphore`](crate::SpinRwSemaphore) spin, and how, in the kernels
//! from 3.16 to 5.1.

use crate::mcs::{McsQueue, SpinQueue};
use crate::osq::SpinnerQueue;
use crate::platform::Platform;

/// Which writers spin, and how.
pub trait WriterSpin<P: Platform>: 'static {
    /// Whether readers write the owner, writers spin though no owner is visible and also after the
    /// owner has changed, and a release leaves the wakeup to a spinner.
    const READERS_OWN: bool;

    /// The queue of spinners.
    type Spinners: WriterQueue;
}

/// The queue of the writers that spin.
pub trait WriterQueue {
    /// No task spins.
    fn new() -> Self;

    /// Runs `body` as the head; `None` if the CPU was wanted before.
    fn run_at_head(&self, body: impl FnOnce() -> bool) -> Option<bool>;

    /// Returns whether tasks spin; a snapshot, where it is known.
    fn is_used(&self) -> bool;
}

/// The rules of 3.16 to 4.0.
#[derive(Clone, Copy, Debug)]
pub struct Spin316;

/// The rules of 4.20 to 5.1.
#[derive(Clone, Copy, Debug)]
pub struct Spin50;

impl<P: Platform> WriterSpin<P> for Spin316 {
    const READERS_OWN: bool = false;
    type Spinners = SpinnerQueue<P>;
}

impl<P: Platform> WriterSpin<P> for Spin50 {
    const READERS_OWN: bool = true;
    type Spinners = McsQueue<P>;
}

impl<P: Platform> WriterQueue for SpinnerQueue<P> {
    fn new() -> Self {
        Self::new()
    }

    fn run_at_head(&self, body: impl FnOnce() -> bool) -> Option<bool> {
        self.at_head(body)
    }

    fn is_used(&self) -> bool {
        false
    }
}

impl<P: Platform> WriterQueue for McsQueue<P> {
    fn new() -> Self {
        <Self as SpinQueue<P>>::new()
    }

    fn run_at_head(&self, body: impl FnOnce() -> bool) -> Option<bool> {
        Some(self.at_head(body))
    }

    fn is_used(&self) -> bool {
        !self.is_empty()
    }
}
