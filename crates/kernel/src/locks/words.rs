//! Words of the kernel that are not lock types: bit locks, counts, and fields that a lock protects.

use convoy_machine::{Smp, Word};
use convoy_sync::{Access, Atomic, Platform};
use core::cell::Cell;
use core::sync::atomic::Ordering::SeqCst;

/// A word with bits that are locks (`bit_spin_lock`).
#[derive(Default)]
pub(crate) struct Bits(Word<u32>);

impl Bits {
    /// Reads the word.
    pub(crate) fn read(&self) -> u32 {
        self.0.load(SeqCst)
    }

    /// Takes the lock `bit` if it is free; whether it was.
    pub(crate) fn try_lock(&self, bit: u32) -> bool {
        self.0.fetch_or(bit, SeqCst) & bit == 0
    }

    /// Spins for the lock `bit`.
    pub(crate) fn lock(&self, bit: u32) {
        Smp::preempt_disable();
        while !self.try_lock(bit) {
            Smp::spin_until(&self.0, |bits| bits & bit == 0);
        }
    }

    /// Releases the lock of [`Self::lock`].
    pub(crate) fn unlock(&self, bit: u32) {
        self.clear(bit);
        Smp::preempt_enable();
    }

    /// Releases the lock of [`Self::try_lock`].
    pub(crate) fn clear(&self, bit: u32) {
        self.0.fetch_and(!bit, SeqCst);
    }

    /// Runs `body` under the lock `bit`.
    pub(crate) fn hold(&self, bit: u32, body: impl FnOnce()) {
        self.lock(bit);
        body();
        self.unlock(bit);
    }

    /// Returns whether the lock `bit` is held; free of cost.
    pub(crate) fn is_locked(&self, bit: u32) -> bool {
        self.0.peek() & bit != 0
    }
}

/// A counter in simulated memory that is changed with locked instructions.
#[derive(Default)]
pub(crate) struct Count(Word<u32>);

impl Count {
    pub(crate) fn new(value: u32) -> Self {
        Self(Word::new(value))
    }

    /// Reads it.
    #[inline]
    pub(crate) fn read(&self) -> u32 {
        self.0.load(SeqCst)
    }

    /// Adds one.
    #[inline]
    pub(crate) fn get(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// Adds one unless another CPU changes it concurrently; returns whether it did.
    #[inline]
    pub(crate) fn try_get(&self) -> bool {
        let seen = self.0.load(SeqCst);
        self.0.compare_exchange(seen, seen + 1, SeqCst, SeqCst).is_ok()
    }

    /// Subtracts one unless another CPU changes it concurrently; returns whether zero is left.
    #[inline]
    pub(crate) fn try_put(&self) -> Option<bool> {
        let seen = self.0.load(SeqCst);
        let put = self.0.compare_exchange(seen, seen - 1, SeqCst, SeqCst);
        put.is_ok().then_some(seen == 1)
    }

    /// Subtracts one; whether none is left.
    #[inline]
    pub(crate) fn put(&self) -> bool {
        self.0.fetch_sub(1, SeqCst) == 1
    }

    /// Subtracts one unless it is the last; whether it did.
    #[inline]
    pub(crate) fn put_unless_last(&self) -> bool {
        let mut seen = self.0.load(SeqCst);
        while seen != 1 {
            match self.0.compare_exchange(seen, seen - 1, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

/// A number that is guarded by a lock and lives in simulated memory.
#[derive(Default)]
pub(crate) struct Field<T: Copy>(Cell<T>);

impl<T: Copy> Field<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    /// Reads it, priced.
    #[inline]
    pub(crate) fn read(&self) -> T {
        Smp::touch(&self.0, Access::Read);
        self.0.get()
    }

    /// Writes it, priced.
    #[inline]
    pub(crate) fn write(&self, value: T) {
        Smp::touch(&self.0, Access::Write);
        self.0.set(value);
    }

    /// Changes it, priced as a write; nothing happens between the reading and the writing.
    #[inline]
    pub(crate) fn update(&self, change: impl FnOnce(T) -> T) {
        Smp::touch(&self.0, Access::Write);
        self.0.set(change(self.0.get()));
    }

    /// Reads it free of cost: for values on a line that was just read, and for reports.
    #[inline]
    pub(crate) fn peek(&self) -> T {
        self.0.get()
    }

    /// Writes it without a price: for lines that were just written.
    #[inline]
    pub(crate) fn poke(&self, value: T) {
        self.0.set(value);
    }
}
