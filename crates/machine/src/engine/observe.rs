//! Observation outside of virtual time.
//!
//! An observer is called by the engine between two of its actions, at the first one that begins at
//! or after each of its times. It takes no virtual time, occupies no CPU and is not part of the
//! schedule, so a run with an observer has the hash of a run without.

use core::cell::{Cell, RefCell};

/// The function that observes. Its argument is the time in picoseconds.
type Look = Box<dyn FnMut(u64)>;

/// The observer of a run, if there is one.
pub(crate) struct Observer {
    /// Its next time, picoseconds; `u64::MAX` without an observer.
    at: Cell<u64>,
    /// From one time to the next, picoseconds.
    every: Cell<u64>,
    look: RefCell<Option<Look>>,
}

impl Default for Observer {
    fn default() -> Self {
        Self { at: Cell::new(u64::MAX), every: Cell::new(0), look: RefCell::new(None) }
    }
}

impl Observer {
    /// Calls `look` every `every` picoseconds, first one interval after `now`.
    pub(crate) fn begin(&self, now: u64, every: u64, look: Look) {
        let every = every.max(1);
        self.at.set(now.saturating_add(every));
        self.every.set(every);
        *self.look.borrow_mut() = Some(look);
    }

    /// Ends the observation and drops its function.
    pub(crate) fn end(&self) {
        self.at.set(u64::MAX);
        self.look.take();
    }

    /// The next time at which it observes.
    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.at.get()
    }

    /// Observes at each of its times up to `now`, at which the next action begins. `clock` shows
    /// that time meanwhile. The function may not use memory of the machine.
    #[cold]
    #[inline(never)]
    pub(super) fn look_until(&self, now: u64, clock: &Cell<u64>) {
        let before = clock.get();
        let mut look = self.look.borrow_mut();
        let Some(look) = look.as_mut() else { return };
        while self.at.get() <= now {
            let at = self.at.get();
            clock.set(at);
            look(at);
            self.at.set(at.saturating_add(self.every.get()));
        }
        clock.set(before);
    }
}
