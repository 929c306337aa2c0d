//! Counting what moves between the lists and the zone.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Number, sum and sum of squares of the observed values; protected by the adjacent lock, and free
/// of cost on the virtual machine.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    events: AtomicU64,
    sum: AtomicU64,
    squares: AtomicU64,
}

impl Tally {
    pub(crate) fn add(&self, value: u32) {
        let value = u64::from(value);
        for (sum, term) in [(&self.events, 1), (&self.sum, value), (&self.squares, value * value)] {
            sum.store(sum.load(Relaxed) + term, Relaxed);
        }
    }

    pub(crate) fn moments(&self) -> Moments {
        let read = |word: &AtomicU64| word.load(Relaxed);
        Moments { events: read(&self.events), sum: read(&self.sum), squares: read(&self.squares) }
    }
}

/// Number, sum and sum of squares of a series of whole numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// How many there were.
    pub events: u64,
    /// Their sum.
    pub sum: u64,
    /// The sum of their squares.
    pub squares: u64,
}

impl Moments {
    /// Their mean; 0 if there were none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / (self.events as f64).max(1.0)
    }

    /// The standard deviation of all of them.
    pub fn sd(&self) -> f64 {
        let mean = self.mean();
        (self.squares as f64 / (self.events as f64).max(1.0) - mean * mean).max(0.0).sqrt()
    }

    /// Returns the difference to `earlier`, a state of the same series.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            events: self.events - earlier.events,
            sum: self.sum - earlier.sum,
            squares: self.squares - earlier.squares,
        }
    }

    /// Both series together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }
}

/// What moved between the lists and the zone so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pages of each `rmqueue_bulk`: the filling of a list.
    pub refills: Moments,
    /// Pages of each `free_pages_bulk`: a list returns a batch, or (as in 2.6.16) one block is
    /// freed.
    pub drains: Moments,
    /// Order that was asked for, of each time the zone was asked: fillings and single blocks.
    pub requested: Moments,
    /// Order of the free block that each page or block was taken from.
    pub found: Moments,
    /// Order of the blocks that each `free_pages_bulk` freed.
    pub freed: Moments,
}

impl Stats {
    /// What moved in this zone and in `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            refills: self.refills.and(other.refills),
            drains: self.drains.and(other.drains),
            requested: self.requested.and(other.requested),
            found: self.found.and(other.found),
            freed: self.freed.and(other.freed),
        }
    }

    /// What moved after `earlier`, a state of the same zone.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            refills: self.refills.since(earlier.refills),
            drains: self.drains.since(earlier.drains),
            requested: self.requested.since(earlier.requested),
            found: self.found.since(earlier.found),
            freed: self.freed.since(earlier.freed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation() {
        let (tally, other) = (Tally::default(), Tally::default());
        assert_eq!((tally.moments().mean(), tally.moments().sd()), (0.0, 0.0));
        for value in [2, 4, 4] {
            tally.add(value);
        }
        for value in [4, 5, 5, 7, 9] {
            other.add(value);
        }
        let all = tally.moments().and(other.moments());
        assert_eq!((all.events, all.mean(), all.sd()), (8, 5.0, 2.0));
        assert_eq!(all.since(tally.moments()), other.moments());
    }
}
