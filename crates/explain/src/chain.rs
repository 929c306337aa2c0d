//! The critical chain: the path of wakeups that led to a point in time.
//!
//! Every task carries the account of the path that led to its current work. A task that is woken
//! takes over the path of its waker, because it could not have continued earlier; a task that a
//! timer wakes keeps its path. So the path of the task that ends last is the longest chain of
//! dependences of the run, found in one pass and in constant memory.

use crate::label::Label;

/// Number of hops that a path remembers. Its sums cover all hops.
pub(crate) const HOPS: usize = 12;

/// Why a task could continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// It acquired the lock of this class, or was woken to try.
    Lock(u32),
    /// Another task ended its wait in this system call.
    Call(&'static str),
}

/// One hop of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) at: u64,
    pub(crate) from: Label,
    pub(crate) to: Label,
    pub(crate) via: Via,
}

/// Time of a path by kind, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) user: u64,
    pub(crate) system: u64,
    pub(crate) spin: u64,
    /// On a run queue while it owned a lock that others wanted.
    pub(crate) queued_owner: u64,
    /// On a run queue otherwise.
    pub(crate) queued: u64,
    /// Asleep until a timer.
    pub(crate) slept: u64,
}

/// The path that led to a point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) shares: Shares,
    pub(crate) hops: u64,
    pub(crate) lock_hops: u64,
    last: [Option<Hop>; HOPS],
}

impl Path {
    /// Records that the path continues in another task.
    pub(crate) fn hop(&mut self, hop: Hop) {
        self.last[(self.hops % HOPS as u64) as usize] = Some(hop);
        self.hops += 1;
        self.lock_hops += u64::from(matches!(hop.via, Via::Lock(_)));
    }

    /// Returns the last hops, in chronological order.
    pub(crate) fn last(&self) -> Vec<Hop> {
        let start = (self.hops % HOPS as u64) as usize;
        (start..HOPS).chain(0..start).filter_map(|index| self.last[index]).collect()
    }
}
