//! Sleeps until a word changes, as the futex of Linux and the crate `atomic-wait`. No sleep ends
//! without a reason.

use super::sync::atomic::AtomicU32;
use crate::model::Model;
use convoy_sync::{Platform, Sleep};

/// Sleeps if the word is `expected`, until it is woken.
#[track_caller]
pub fn wait(word: &AtomicU32, expected: u32) {
    Model::wait(word.reached(), expected, Sleep::Uninterruptible, None);
}

/// Wakes one thread that sleeps on the word at this address.
#[track_caller]
pub fn wake_one(word: *const AtomicU32) {
    Model::wake(AtomicU32::word_at(word), 1);
}

/// Wakes all threads that sleep on the word at this address.
#[track_caller]
pub fn wake_all(word: *const AtomicU32) {
    Model::wake(AtomicU32::word_at(word), usize::MAX);
}
