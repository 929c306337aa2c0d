//! Readers as tasks, and those that were preempted in a critical section, by leaf.

use crate::TaskId;
use core::cell::Cell;
use std::rc::Rc;

/// A task as a reader. Its task uses it, and others under the lock of the leaf where it is queued.
#[derive(Debug)]
pub struct Reader {
    task: TaskId,
    /// Sections that it is in, one inside the other (`rcu_read_lock_nesting`).
    pub(super) depth: Cell<u32>,
    /// The leaf at which it is queued.
    pub(super) queued: Cell<Option<usize>>,
    /// A tick found it in a section on a CPU that owes a quiescent state.
    pub(super) hurried: Cell<bool>,
    pub(super) boosted: Cell<bool>,
}

impl Reader {
    /// Returns a reader for `task`, outside of critical sections.
    #[must_use]
    pub fn new(task: TaskId) -> Rc<Self> {
        Rc::new(Self {
            task,
            depth: Cell::new(0),
            queued: Cell::new(None),
            hurried: Cell::new(false),
            boosted: Cell::new(false),
        })
    }

    /// Returns its task.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Returns whether it is in a section.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.depth.get() > 0
    }

    /// Returns whether it was named to be hurried, and has not ended its section since.
    #[must_use]
    pub fn is_boosted(&self) -> bool {
        self.boosted.get()
    }

    /// Ends its boost.
    pub fn end_boost(&self) {
        self.boosted.set(false);
    }

    /// A section begins.
    pub fn enter(&self) {
        self.depth.set(self.depth.get() + 1);
    }
}

/// Readers of a leaf that were preempted in a critical section. Guarded by its lock.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// The present grace period waits for these, the oldest first (`gp_tasks`).
    pub(super) owed: Vec<Rc<Reader>>,
    /// The next one will.
    pub(super) later: Vec<Rc<Reader>>,
    /// When `owed` may be hurried, and whether they are.
    boost_at: u64,
    pub(super) boosting: bool,
}

impl Blocked {
    /// A grace period begins.
    pub(super) fn begin(&mut self, boost_at: u64) {
        self.owed.append(&mut self.later);
        self.boost_at = boost_at;
        self.boosting = false;
    }

    pub(super) fn is_owed(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Returns the next reader to boost.
    pub(super) fn next_boost(&self) -> Option<&Rc<Reader>> {
        self.owed.first().filter(|_| self.boosting)
    }

    /// The leaf's CPUs have all passed. Whether its readers are to be hurried from now on.
    pub(super) fn boosts_at(&mut self, jiffies: u64) -> bool {
        let begins = self.is_owed() && !self.boosting && jiffies >= self.boost_at;
        self.boosting |= begins;
        begins
    }

    /// Removes `reader`. Returns whether the present grace period waited for it last.
    pub(super) fn remove(&mut self, reader: &Rc<Reader>) -> bool {
        let mine = |other: &Rc<Reader>| Rc::ptr_eq(other, reader);
        let place = self.owed.iter().position(mine);
        match place {
            Some(place) => drop(self.owed.remove(place)),
            None => self.later.retain(|other| !mine(other)),
        }
        place.is_some() && self.owed.is_empty()
    }
}
