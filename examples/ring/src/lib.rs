//! A ring of two items for one producer and one consumer.

#[cfg(feature = "checked")]
use convoy_checker::program as platform;
#[cfg(not(feature = "checked"))]
use std as platform;

use platform::cell::UnsafeCell;
use platform::sync::atomic::{AtomicUsize, Ordering};

/// Number of items.
const LENGTH: usize = 2;

/// The ring. One thread calls `push`, and one calls `pop`.
pub struct Ring {
    items: [UnsafeCell<u32>; LENGTH],
    /// Number of items pushed.
    tail: AtomicUsize,
    /// Number of items popped.
    head: AtomicUsize,
    /// Ordering of the store that publishes an item.
    publish: Ordering,
}

// SAFETY: an item is accessed by its producer before `tail` passes it, and then by its consumer
// before `head` does.
#[cfg(not(feature = "checked"))]
unsafe impl Sync for Ring {}

impl Ring {
    /// Returns an empty ring that publishes items with `publish`: `Ordering::Release`, unless you
    /// want to see what else does.
    pub fn new(publish: Ordering) -> Self {
        Self {
            items: [UnsafeCell::new(0), UnsafeCell::new(0)],
            tail: AtomicUsize::new(0),
            head: AtomicUsize::new(0),
            publish,
        }
    }

    /// Appends an item. Returns whether there was room for it.
    pub fn push(&self, item: u32) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail - self.head.load(Ordering::Acquire) == LENGTH {
            return false;
        }
        // SAFETY: the consumer has popped the previous item in this place.
        unsafe { *self.items[tail % LENGTH].get() = item };
        self.tail.store(tail + 1, self.publish);
        true
    }

    /// Removes the oldest item.
    pub fn pop(&self) -> Option<u32> {
        let head = self.head.load(Ordering::Relaxed);
        if self.tail.load(Ordering::Acquire) == head {
            return None;
        }
        // SAFETY: the producer has published the item.
        let item = unsafe { *self.items[head % LENGTH].get() };
        self.head.store(head + 1, Ordering::Release);
        Some(item)
    }
}
