//! What a step of a task does to memory.

use core::sync::atomic::Ordering;

/// Access of a step. Memory models other than sequential consistency need it before the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct Operation {
    pub(in crate::model) kind: Kind,
    pub(in crate::model) word: Cell,
    pub(in crate::model) order: Ordering,
    /// Of an exchange: the value that it replaces. Of private memory: its length.
    pub(in crate::model) expected: u64,
    /// Of an exchange: the ordering of a read that finds another value.
    pub(in crate::model) failure: Ordering,
}

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Kind {
    /// No access to a word.
    Nothing,
    Load,
    Store,
    /// Reads and writes in one step.
    Modify,
    /// Writes if the word has the expected value, and otherwise reads.
    Exchange,
    /// Reads a value that ends the wait of the task.
    Await,
    /// Compares the newest value before a sleep.
    Compare,
    /// Wakes sleepers: a system call.
    Wake,
    Fence,
    /// Reads data that is not atomic.
    Read,
    /// Writes data that is not atomic.
    Write,
    /// Begins to use `expected` bytes of private memory.
    Fresh,
    /// Needs the first value of a word or of data, whose write has the number `expected`.
    First,
    /// Ends data that is not atomic.
    Drop,
    /// Ends a reference, which a word counts: an exchange whose order with others does not matter.
    Leave,
}

impl Operation {
    pub(in crate::model) const NOTHING: Self =
        Self::new(Kind::Nothing, Cell { address: 0, bytes: 0 }, Ordering::Relaxed);

    pub(in crate::model) const fn new(kind: Kind, word: Cell, order: Ordering) -> Self {
        Self { kind, word, order, expected: 0, failure: Ordering::Relaxed }
    }

    /// Returns whether no other task has to be able to run before it.
    pub(in crate::model) fn is_immediate(self) -> bool {
        use Kind::{Drop, Fence, First, Fresh, Leave, Read, Write};
        matches!(self.kind, Fence | Read | Write | Fresh | First | Drop | Leave)
    }
}

/// Returns whether an access with this ordering acquires.
pub(super) fn acquires(order: Ordering) -> bool {
    matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

/// Returns whether an access with this ordering releases.
pub(super) fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

/// A word in memory. Outside of a step it holds the newest value, and during a step the value that
/// the step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct Cell {
    pub(in crate::model) address: usize,
    pub(in crate::model) bytes: u8,
}

impl Cell {
    pub(in crate::model) fn of<T>(word: &T) -> Self {
        let address = core::ptr::from_ref(word).expose_provenance();
        Self { address, bytes: size_of::<T>() as u8 }
    }

    /// Returns the value that the word holds.
    pub(in crate::model) fn get(self) -> u64 {
        let mut value = [0_u8; 8];
        let from = core::ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY: callers pass words of the running execution, all tasks of which are suspended.
        unsafe { from.copy_to_nonoverlapping(value.as_mut_ptr(), usize::from(self.bytes)) };
        u64::from_le_bytes(value)
    }

    /// Makes the word hold `value`.
    pub(super) fn set(self, value: u64) {
        let word = core::ptr::with_exposed_provenance_mut::<u8>(self.address);
        let value = value.to_le_bytes();
        // SAFETY: as above.
        unsafe { word.copy_from_nonoverlapping(value.as_ptr(), usize::from(self.bytes)) };
    }
}

/// Returns the bytes of an integer as a number.
pub(in crate::model) fn bits<T: Copy>(value: T) -> u64 {
    Cell::of(&value).get()
}
