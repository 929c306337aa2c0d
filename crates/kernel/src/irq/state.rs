//! Events that are due on a CPU at a given time, generic over the event.

use core::cell::RefCell;
use std::collections::BTreeMap;

/// Pending events, by time and order of request.
pub(super) struct Agenda<T>(RefCell<BTreeMap<(u64, u64), T>>);

impl<T> Agenda<T> {
    /// Adds `what` at `at`, after earlier requests; `sequence` is the order of requests.
    pub(super) fn add(&self, at: u64, sequence: u64, what: T) {
        self.0.borrow_mut().insert((at, sequence), what);
    }

    /// The first one at `now` or before.
    pub(super) fn take(&self, now: u64) -> Option<T> {
        let mut all = self.0.borrow_mut();
        let first = all.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the first one is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.0.borrow().first_key_value().map(|(&(at, _), _)| at)
    }
}

/// The device interrupts (in picoseconds) and timers (in nanoseconds) of one CPU.
pub(crate) struct Agendas<T> {
    pub(super) devices: Agenda<T>,
    pub(super) timers: Agenda<T>,
}

impl<T> Default for Agendas<T> {
    fn default() -> Self {
        Self { devices: Agenda(RefCell::default()), timers: Agenda(RefCell::default()) }
    }
}

impl<T> Agendas<T> {
    /// Whether anything is still to come.
    pub(crate) fn are_empty(&self) -> bool {
        self.devices.next().is_none() && self.timers.next().is_none()
    }

    /// When the first timer expires, in nanoseconds.
    pub(crate) fn first_timer(&self) -> Option<u64> {
        self.timers.next()
    }
}
