//! Deliberately broken reader/writer locks, in addition to those in the parent module.

use super::word::{WRITER, Word, sleep};
use crate::model::Model;
use convoy_sync::{Atomic, Lock, Platform};
use std::sync::atomic::Ordering::SeqCst;

/// A spinning lock with readers that back off from a writer, wait until it has left, and then count
/// themselves without checking for another writer.
pub(super) struct LateReader(Word);

impl Lock for LateReader {
    fn with_units(_: u32) -> Self {
        Self(Word::new(0))
    }
    fn acquire(&self) {
        while !self.try_acquire() {
            Model::spin_until(&self.0, |state| state == 0);
        }
    }
    fn try_acquire(&self) -> bool {
        self.0.compare_exchange(0, WRITER, SeqCst, SeqCst).is_ok()
    }
    fn release(&self) {
        self.0.fetch_and(!WRITER, SeqCst);
    }
    fn acquire_shared(&self) {
        if self.0.fetch_add(1, SeqCst) & WRITER != 0 {
            self.0.fetch_sub(1, SeqCst);
            Model::spin_until(&self.0, |state| state & WRITER == 0);
            self.0.fetch_add(1, SeqCst);
        }
    }
    fn release_shared(&self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A sleeping lock with writers that steal it past the queue and check only for writers, not for
/// readers that were admitted in the meantime.
pub(super) struct BlindThief(Word);

impl BlindThief {
    fn take(&self, take: impl Fn(u32) -> Option<u32>) {
        loop {
            let seen = self.0.load(SeqCst);
            match take(seen) {
                Some(next) if self.0.compare_exchange(seen, next, SeqCst, SeqCst).is_ok() => return,
                Some(_) => {}
                None => drop(sleep(&self.0, seen, None)),
            }
        }
    }

    fn wake(&self) {
        Model::wake(&raw const self.0, usize::MAX);
    }
}

impl Lock for BlindThief {
    fn with_units(_: u32) -> Self {
        Self(Word::new(0))
    }
    fn acquire(&self) {
        self.take(|seen| (seen & WRITER == 0).then_some(seen | WRITER));
    }
    fn try_acquire(&self) -> bool {
        self.0.compare_exchange(0, WRITER, SeqCst, SeqCst).is_ok()
    }
    fn release(&self) {
        self.0.fetch_and(!WRITER, SeqCst);
        self.wake();
    }
    fn acquire_shared(&self) {
        self.take(|seen| (seen & WRITER == 0).then_some(seen + 1));
    }
    fn release_shared(&self) {
        self.0.fetch_sub(1, SeqCst);
        self.wake();
    }
}
