//! The memory that a step accesses, and the orders that are equivalent.
//!
//! Two neighbouring steps of different tasks that access different words, or only read the same
//! word, lead to the same state in either order. [`Asleep`] keeps the search from executing both: a
//! *sleep set* (Godefroid, 1996) holds the steps that were already explored in another branch and
//! on which no later step depended. Data that a lock guards is ignored: its accesses are ordered by
//! the operations on the lock, and the searches without sleep sets check that the lock excludes.

use super::schedule::Choice;

/// The memory that a step accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footprint {
    word: usize,
    writes: bool,
}

impl Footprint {
    /// Only memory of the task itself.
    pub(super) const NOTHING: Self = Self { word: 0, writes: false };
    /// Memory of a step that depends on every other step.
    pub(super) const EVERYTHING: Self = Self { word: usize::MAX, writes: true };

    pub(super) const fn read(word: usize) -> Self {
        Self { word, writes: false }
    }

    pub(super) const fn write(word: usize) -> Self {
        Self { word, writes: true }
    }

    /// Returns whether the order of two steps can matter.
    fn meets(self, other: Self) -> bool {
        if self == Self::EVERYTHING || other == Self::EVERYTHING {
            return true;
        }
        self.word == other.word && self.word != 0 && (self.writes || other.writes)
    }
}

/// A sleep set: a bit for each choice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asleep(u64);

impl Asleep {
    fn bit(choice: Choice) -> u64 {
        1 << choice.slot()
    }

    pub(super) fn contains(self, choice: Choice) -> bool {
        self.0 & Self::bit(choice) != 0
    }

    /// Returns the steps that are asleep in both.
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Updates the sleep set after `taken` was chosen among `choices`: the first of `nodes` that
    /// is not `done`.
    pub(super) fn step(
        &mut self,
        (nodes, done): (&[Choice], usize),
        taken: Choice,
        choices: &[Choice],
        touches: impl Fn(Choice) -> Footprint,
    ) {
        // A step was explored once all its variants were.
        let (done, left) = nodes.split_at(done);
        let left = left.iter().fold(0, |left, &choice| left | Self::bit(choice));
        let done = done.iter().fold(0, |done, &choice| done | Self::bit(choice));
        let explored = self.0 | done & !left;
        if explored == 0 {
            return;
        }
        let touched = touches(taken);
        // A step that cannot be chosen here does not stay asleep.
        let stays = choices.iter().filter(|&&choice| {
            choice.task() != taken.task()
                && explored & Self::bit(choice) != 0
                && !touches(choice).meets(touched)
        });
        self.0 = stays.fold(0, |stay, &choice| stay | Self::bit(choice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_meet_where_one_of_them_writes() {
        let (read, write) = (Footprint::read(8), Footprint::write(8));
        assert!(!read.meets(read) && read.meets(write) && write.meets(write));
        assert!(!write.meets(Footprint::write(16)) && !write.meets(Footprint::NOTHING));
        assert!(!Footprint::NOTHING.meets(Footprint::NOTHING));
        assert!(Footprint::NOTHING.meets(Footprint::EVERYTHING));
    }
}
