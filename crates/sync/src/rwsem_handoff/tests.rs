//! Handoffs, and readers that steal: the contract suite does not reach them.

use super::*;
use crate::native::Native;

/// The first of the queue has waited too long for a running writer: it is handed the lock, and
/// no newcomer or spinner takes it.
#[test]
fn a_waiter_that_was_late_is_handed_the_lock() {
    let lock = HandoffRwSemaphore::<Native>::new();
    lock.down_write();
    let waiter = new_waiter::<Native>(false);
    lock.lock.lock();
    // SAFETY: the inner lock is held, and the record stays until `take_queued` removes it.
    unsafe { lock.sleepers.push(&waiter) };
    // Relaxed: no other thread uses it, here and below.
    lock.count.fetch_or(WAITERS, Relaxed);
    assert!(!lock.take_queued(&waiter));
    assert_eq!(lock.count.load(Relaxed), WRITER | WAITERS, "it has only just arrived");
    waiter.since.set(waiter.since.get().wrapping_sub(PATIENCE_US + 1));
    assert!(!lock.take_queued(&waiter) && waiter.owed.get());
    lock.lock.unlock();
    lock.up_write();
    // Relaxed, as above.
    assert_eq!(lock.count.load(Relaxed), WAITERS | HANDOFF);
    assert!(!lock.steal() && !lock.down_write_trylock());
    lock.lock.lock();
    assert!(lock.take_queued(&waiter));
    lock.lock.unlock();
    // Relaxed, as above.
    assert_eq!(lock.count.load(Relaxed), WRITER);
}

/// A reader owns a free lock although a writer is queued, as a second one does; a third one
/// queues.
#[test]
fn readers_steal_a_free_lock_but_do_not_follow_each_other() {
    let lock = HandoffRwSemaphore::<Native>::new();
    let writer = new_waiter::<Native>(false);
    lock.lock.lock();
    // SAFETY: the inner lock is held, and the record stays until the end of the test.
    unsafe { lock.sleepers.push(&writer) };
    // Relaxed: no other thread uses it, here and below.
    lock.count.fetch_or(WAITERS, Relaxed);
    lock.lock.unlock();
    lock.down_read();
    assert_eq!(lock.count.load(Relaxed), READER | WAITERS);
    let reader = std::thread::scope(|scope| {
        scope.spawn(|| lock.down_read());
        // Relaxed, as above. It counts the queue once it has given up.
        let queued = || lock.lock.is_locked() || lock.count.load(Relaxed) / READER == 1;
        while !queued() || lock.sleepers_len() < 2 {
            std::thread::yield_now();
        }
        lock.up_read();
        lock.lock.lock();
        let taken = lock.take_queued(&writer);
        lock.lock.unlock();
        lock.up_write();
        taken
    });
    assert!(reader, "the writer comes before a reader that followed another");
    lock.up_read();
    // Relaxed, as above.
    assert_eq!(lock.count.load(Relaxed), 0);
}

impl HandoffRwSemaphore<Native> {
    fn sleepers_len(&self) -> usize {
        self.lock.lock();
        // SAFETY: the inner lock is held.
        let len = unsafe { self.sleepers.len() };
        self.lock.unlock();
        len
    }
}
