//! The parts of a CPU's list of callbacks.

/// Lengths of the parts, oldest callbacks first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segments {
    /// Their grace period is over.
    pub(super) done: usize,
    /// They wait for the present one,
    pub(super) wait: usize,
    /// for the next one,
    pub(super) next_ready: usize,
    /// and for a grace period that starts after they have been seen.
    pub(super) next: usize,
}

impl Segments {
    pub(super) fn waiting(&self) -> usize {
        self.wait + self.next_ready + self.next
    }

    /// A grace period is over.
    pub(super) fn advance(&mut self) {
        self.done += self.wait;
        self.wait = self.next_ready;
        self.next_ready = self.next;
        self.next = 0;
    }

    /// Called when the current grace period cannot end before this CPU has reported: queued
    /// callbacks may use the next one.
    pub(super) fn ready(&mut self) {
        self.next_ready += self.next;
        self.next = 0;
    }

    /// A grace period begins that has seen all that is there.
    pub(super) fn begin(&mut self) {
        self.wait += self.next_ready + self.next;
        self.next_ready = 0;
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_wait_for_a_whole_grace_period() {
        let mut segments = Segments { next: 3, ..Segments::default() };
        segments.ready();
        segments.next += 1;
        segments.advance();
        assert_eq!((segments.done, segments.wait, segments.next_ready), (0, 3, 1));
        segments.advance();
        assert_eq!((segments.done, segments.wait), (3, 1));
        segments.next = 2;
        segments.begin();
        assert_eq!((segments.done, segments.wait, segments.waiting()), (3, 3, 3));
    }
}
