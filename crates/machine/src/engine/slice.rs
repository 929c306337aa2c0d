//! Memory with which tasks in user mode ask for a longer time slice and the operating system grants
//! it, as `slice_ctrl` of `struct rseq` in Linux 7.0.

use crate::memory::{Region, Sim};
use crate::word::Word;
use convoy_sync::{Atomic, TaskId};
use core::cell::{Cell, OnceCell};
use core::sync::atomic::Ordering::Relaxed;
use std::rc::Rc;

/// Request and grant of a task, on a separate line. The task and the operating system use them
/// on one CPU, so their order is the program's.
#[repr(C, align(64))]
pub struct Slice {
    request: Word<u8>,
    granted: Word<u8>,
    /// Requests that the task has not taken back.
    depth: Cell<u32>,
}

impl Slice {
    /// The task asks for an extension.
    pub(crate) fn ask(&self) {
        let depth = self.depth.replace(self.depth.get() + 1);
        if depth == 0 {
            self.request.store(1, Relaxed);
        }
    }

    /// The task takes one request back. Returns whether it was the last, and an extension was
    /// granted.
    pub(crate) fn take_back(&self) -> bool {
        // Another task may have acquired what this one releases.
        let Some(depth) = self.depth.get().checked_sub(1) else { return false };
        self.depth.set(depth);
        if depth > 0 {
            return false;
        }
        self.request.store(0, Relaxed);
        self.granted.load(Relaxed) != 0
    }

    /// Grants an extension if the task asks for one; returns whether it does.
    pub fn grant(&self) -> bool {
        let asks = self.request.load(Relaxed) != 0;
        if asks {
            self.request.store(0, Relaxed);
            self.granted.store(1, Relaxed);
        }
        asks
    }

    /// Ends request and grant.
    pub fn clear(&self) {
        self.request.store(0, Relaxed);
        self.granted.store(0, Relaxed);
    }
}

/// The record of each task that has asked, placed at its first request.
pub(crate) struct Slices(Box<[OnceCell<Sim<Slice>>]>);

impl Slices {
    pub(super) fn new(tasks: usize) -> Self {
        Self((0..tasks).map(|_| OnceCell::new()).collect())
    }

    /// Returns the record of `task`, which has one in `region` from now on.
    pub(crate) fn of(&self, task: TaskId, region: &Rc<Region>) -> &Slice {
        let [request, granted] = [0, 0].map(Word::new);
        let new = || Sim::place(region, Slice { request, granted, depth: Cell::new(0) });
        self.0[task as usize].get_or_init(new)
    }

    /// Returns the record of `task`, if it has asked before.
    #[inline]
    pub(crate) fn get(&self, task: TaskId) -> Option<&Slice> {
        self.0[task as usize].get().map(|slice| &**slice)
    }
}
