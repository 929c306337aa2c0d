//! The word of a deliberately broken lock, and sleeping on it.

use crate::model::Model;
use convoy_sync::{Cancel, Platform, Sleep, WaitError, Wake};

/// An atomic word. The checker interleaves its operations.
pub(super) type Word = <Model as Platform>::AtomicU32;

pub(super) const WRITER: u32 = 1 << 31;

/// Sleeps while `word` holds `value`, in a wait that `cancel` may end.
pub(super) fn sleep(word: &Word, value: u32, cancel: Option<Cancel>) -> Result<(), WaitError> {
    let (sleep, deadline) = match cancel {
        None => (Sleep::Uninterruptible, None),
        Some(Cancel::Signal) => (Sleep::Interruptible, None),
        Some(Cancel::Kill) => (Sleep::Killable, None),
        Some(Cancel::After(timeout)) => (Sleep::Uninterruptible, Some(timeout)),
    };
    match Model::wait(word, value, sleep, deadline) {
        Wake::Woken => Ok(()),
        Wake::Interrupted => Err(WaitError::Interrupted),
        Wake::TimedOut => Err(WaitError::TimedOut),
    }
}
