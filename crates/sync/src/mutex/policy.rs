//! What waiters of a [`Mutex`](super::Mutex) do before they sleep: its spin policies.

use crate::mcs::{McsQueue, OneSpinner, SpinQueue, Unqueued};
use crate::platform::{Atomic, Platform, TaskId};

/// No task: the owner of a free mutex.
pub(super) const NOBODY: TaskId = TaskId::MAX;

/// What waiters of a [`Mutex`](super::Mutex) do before they sleep.
pub trait SpinPolicy: 'static {
    /// The owner of the mutex, for spinners.
    type Owner<P: Platform>: Owner<P>;
    /// The queue that selects spinning waiters.
    type Queue<P: Platform>: SpinQueue<P>;

    /// Whether any does.
    const SPINS: bool = true;

    /// Whether a spinner reads the count and tries to take the mutex only when it is free, and a
    /// waiter that holds the inner lock swaps -1 into the count only if [`Self::marks`] returns
    /// true: a negative count already makes the owner wake a waiter.
    const READS_FIRST: bool = true;

    /// Returns whether such a waiter swaps -1 into a count of `count`.
    #[inline]
    fn marks(count: i32) -> bool {
        count >= 0
    }

    /// Called each time a spinner is about to watch an owner. Returns whether it may.
    #[inline]
    fn may_spin<P: Platform>() -> bool {
        true
    }
}

/// Where a mutex keeps its owner, if it does.
pub trait Owner<P: Platform> {
    /// Returns no owner.
    fn new() -> Self;
    /// Returns the word.
    fn word(&self) -> Option<&P::AtomicU32>;
}

/// A mutex that does not know its owner.
impl<P: Platform> Owner<P> for () {
    fn new() -> Self {}
    #[inline]
    fn word(&self) -> Option<&P::AtomicU32> {
        None
    }
}

/// A task's number.
#[derive(Debug)]
#[repr(transparent)]
pub struct OwnerWord<P: Platform>(P::AtomicU32);

impl<P: Platform> Owner<P> for OwnerWord<P> {
    fn new() -> Self {
        Self(P::AtomicU32::new(NOBODY))
    }
    #[inline]
    fn word(&self) -> Option<&P::AtomicU32> {
        Some(&self.0)
    }
}

/// Linux 2.6.16 to 2.6.28: waiters sleep immediately.
#[derive(Clone, Copy, Debug)]
pub struct NoSpin;

impl SpinPolicy for NoSpin {
    type Owner<P: Platform> = ();
    type Queue<P: Platform> = ();
    const SPINS: bool = false;
    const READS_FIRST: bool = false;
}

/// Linux 2.6.29 to 3.9: waiters spin on the owner, and every spinner tries again and again with a
/// locked operation.
#[derive(Clone, Copy, Debug)]
pub struct SpinOnOwner;

impl SpinPolicy for SpinOnOwner {
    type Owner<P: Platform> = OwnerWord<P>;
    type Queue<P: Platform> = Unqueued;
    const READS_FIRST: bool = false;
}

/// [`SpinOnOwner`] with fewer locked operations (commit 0dc8c730c98a, 3.10): read first.
#[derive(Clone, Copy, Debug)]
pub struct SpinReadFirst;

impl SpinPolicy for SpinReadFirst {
    type Owner<P: Platform> = OwnerWord<P>;
    type Queue<P: Platform> = Unqueued;
}

/// [`SpinReadFirst`], and no spinning at high load (third patch of the first series of April 2013,
/// never merged): not with two other tasks that want this CPU, and with one only while at most
/// twice as many tasks as CPUs are active.
#[derive(Clone, Copy, Debug)]
pub struct SpinAtLowLoad;

impl SpinPolicy for SpinAtLowLoad {
    type Owner<P: Platform> = OwnerWord<P>;
    type Queue<P: Platform> = Unqueued;

    fn may_spin<P: Platform>() -> bool {
        load_allows(P::runnable_here(), P::active_tasks(), P::cpus())
    }
}

/// [`SpinReadFirst`], and one spinner for each mutex (second patch of the first series of April
/// 2013, never merged): a task that arrives while another one spins goes to sleep. It is known from
/// its title and cover letter, which say that a field of the mutex is added; that the field is read
/// once, before the spinning, is our interpretation.
#[derive(Clone, Copy, Debug)]
pub struct SpinOne;

impl SpinPolicy for SpinOne {
    type Owner<P: Platform> = OwnerWord<P>;
    type Queue<P: Platform> = OneSpinner<P>;
}

/// [`SpinReadFirst`], and one spinner at a time (commit 2bd2c92cf07c, 3.10): the others wait in an
/// MCS queue, unless the owner does not run when they arrive.
#[derive(Clone, Copy, Debug)]
pub struct SpinMcs;

impl SpinPolicy for SpinMcs {
    type Owner<P: Platform> = OwnerWord<P>;
    type Queue<P: Platform> = McsQueue<P>;
}

/// The rule of [`SpinAtLowLoad`]; `runnable` contains the spinner itself.
fn load_allows(runnable: u32, active: u64, cpus: u32) -> bool {
    match runnable {
        0 | 1 => true,
        2 => active <= 2 * u64::from(cpus),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_the_third_patch() {
        for (runnable, active, cpus, spins) in
            [(1, 1000, 80, true), (2, 160, 80, true), (2, 161, 80, false), (3, 3, 80, false)]
        {
            assert_eq!(load_allows(runnable, active, cpus), spins, "{runnable} {active}");
        }
    }
}
