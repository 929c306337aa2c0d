//! The disk: requests are served one after the other, each in the same time.

use crate::preset::{DiskTime, ps};
use core::cell::Cell;

#[derive(Debug)]
pub(crate) struct Disk {
    latency: u64,
    /// When the last accepted request will be done.
    done: Cell<u64>,
}

impl Disk {
    pub(crate) fn new(time: &DiskTime) -> Self {
        Self { latency: ps(time.latency_ns), done: Cell::new(0) }
    }

    /// Accepts a request at `now`; returns when it will be done.
    pub(crate) fn request(&self, now: u64) -> u64 {
        self.done.set(now.max(self.done.get()) + self.latency);
        self.done.get()
    }
}
