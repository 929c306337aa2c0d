//! Readers that may be preempted (`CONFIG_TREE_PREEMPT_RCU`): their state, the grace periods that
//! wait for them, and readers to be boosted.
//!
//! A reader that leaves its CPU inside a section is queued at its CPU's leaf; the CPU itself has
//! passed. If the present grace period still waited for that CPU, it waits for the reader from now
//! on, else the next one does. The last such reader of a leaf on which all CPUs have passed reports
//! for the leaf. After a delay the readers that hold a grace period up are named to the machine,
//! one after the other, so that it can lend them a priority (`rcu_initiate_boost`, `rcu_boost`).

use super::{Access, Rcu, Steps, tree::Tree};
use crate::{Atomic, Platform, RawLock, TaskId};
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use std::rc::Rc;

/// A task as a reader. Its task uses it, and others under the lock of the leaf where it is queued.
#[derive(Debug)]
pub struct Reader {
    task: TaskId,
    /// Sections that it is in, one inside the other (`rcu_read_lock_nesting`).
    depth: Cell<u32>,
    /// The leaf at which it is queued.
    queued: Cell<Option<usize>>,
    /// A tick found it in a section on a CPU that owes a quiescent state.
    hurried: Cell<bool>,
    /// An expedited grace period waits for it.
    expedited: Cell<bool>,
    boosted: Cell<bool>,
}

impl Reader {
    /// `task`, in no section.
    #[must_use]
    pub fn new(task: TaskId) -> Rc<Self> {
        Rc::new(Self {
            task,
            depth: Cell::new(0),
            queued: Cell::new(None),
            hurried: Cell::new(false),
            expedited: Cell::new(false),
            boosted: Cell::new(false),
        })
    }

    /// Returns its task.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Whether it is in a section.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.depth.get() > 0
    }

    /// Whether it was named to be hurried, and has not ended its section since.
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
    owed: Vec<Rc<Reader>>,
    /// The next one will.
    later: Vec<Rc<Reader>>,
    /// How many of both an expedited grace period waits for (`exp_tasks`).
    expedited: usize,
    /// When `owed` may be hurried, and whether they are.
    boost_at: u64,
    boosting: bool,
    /// Boosted readers, and those of them that delayed an expedited grace period.
    pub(super) boosts: u64,
    pub(super) expedited_boosts: u64,
}

/// The grace periods for which a leaving reader was the last of its leaf.
struct Last {
    owed: bool,
    expedited: bool,
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

    /// An expedited grace period waits for all that are queued now. Whether there are any.
    pub(super) fn expedite(&mut self) -> bool {
        for reader in self.owed.iter().chain(&self.later) {
            reader.expedited.set(true);
        }
        self.expedited = self.owed.len() + self.later.len();
        self.expedited > 0
    }

    /// Whether an expedited grace period waits for any.
    pub(super) fn is_expedited(&self) -> bool {
        self.expedited > 0
    }

    /// Whether any is queued, and whether those that hold a grace period up are hurried.
    pub(super) fn state(&self) -> (bool, bool) {
        (self.is_owed() || !self.later.is_empty(), self.boosting)
    }

    /// Returns the next reader to boost: readers of an expedited grace period immediately and
    /// first.
    fn next_boost(&self) -> Option<&Rc<Reader>> {
        let mut all = self.owed.iter().chain(&self.later);
        let expedited = all.find(|reader| reader.expedited.get());
        expedited.or_else(|| self.owed.first().filter(|_| self.boosting))
    }

    /// When those that hold a grace period up are hurried, in ticks.
    pub(super) fn boost_at(&self) -> u64 {
        self.boost_at
    }

    /// The leaf's CPUs have all passed. Whether its readers are to be hurried from now on.
    pub(super) fn boosts_at(&mut self, jiffies: u64) -> bool {
        let begins = self.is_owed() && !self.boosting && jiffies >= self.boost_at;
        self.boosting |= begins;
        begins
    }

    /// Those that the grace period waits for.
    pub(super) fn owing(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.owed.iter().map(|reader| reader.task)
    }

    /// Removes `reader`; returns the grace periods for which it was the last.
    fn remove(&mut self, reader: &Rc<Reader>) -> Last {
        let mine = |other: &Rc<Reader>| Rc::ptr_eq(other, reader);
        let expedited = reader.expedited.take();
        self.expedited -= usize::from(expedited);
        let place = self.owed.iter().position(mine);
        match place {
            Some(place) => drop(self.owed.remove(place)),
            None => self.later.retain(|other| !mine(other)),
        }
        Last {
            owed: place.is_some() && self.owed.is_empty(),
            expedited: expedited && self.expedited == 0,
        }
    }
}

impl<P: Platform> Tree<P> {
    /// Returns whether readers at `node`, whose lock the caller holds, delay the grace period.
    pub(super) fn is_held<S: Steps>(&self, node: usize) -> bool {
        S::READERS && self.nodes[node].blocked.borrow().is_owed()
    }
}

impl<P: Platform, C, S: Steps> Rcu<P, C, S> {
    /// Marks readers that delay a grace period for this many ticks for boosting
    /// (`RCU_BOOST_DELAY_JIFFIES`).
    pub fn boost_after(&self, ticks: u64) {
        self.tree.boost_delay.set(Some(ticks));
    }

    /// `reader` leaves its CPU, with interrupts off; the CPU has passed
    /// (`rcu_preempt_note_context_switch`).
    pub fn note_switch(&self, reader: &Rc<Reader>) {
        if reader.is_inside() && reader.queued.get().is_none() {
            let (leaf, bit) = self.tree.leaf_of(P::cpu() as usize);
            let node = &self.tree.nodes[leaf];
            node.hot().lock.lock();
            node.touch(Access::Write);
            reader.queued.set(Some(leaf));
            let mut blocked = node.blocked.borrow_mut();
            // Relaxed: a node's words are ordered by its lock.
            if node.hot().qsmask.load(Relaxed) & bit == 0 {
                blocked.later.push(Rc::clone(reader));
            } else {
                blocked.owed.push(Rc::clone(reader));
            }
            drop(blocked);
            node.hot().lock.unlock();
        }
        self.note_quiescent_state();
    }

    /// A tick finds `reader` on its CPU (`rcu_preempt_check_callbacks`).
    pub fn note_tick(&self, reader: &Reader) {
        if !reader.is_inside() {
            self.note_quiescent_state();
        } else if self.here().owes.get() {
            reader.hurried.set(true);
        }
    }

    /// A section of `reader` ends. If it was marked for boosting, returns its leaf: the machine
    /// ends the boost.
    pub fn leave(&self, reader: &Rc<Reader>, jiffies: u64) -> Option<usize> {
        reader.depth.set(reader.depth.get() - 1);
        if reader.is_inside() {
            return None;
        }
        let hurried = reader.hurried.take();
        let Some(leaf) = reader.queued.get() else {
            if hurried {
                self.note_quiescent_state();
            }
            return None;
        };
        let flags = P::irq_save();
        self.unblock(reader, leaf, jiffies);
        P::irq_restore(flags);
        reader.is_boosted().then(|| leaf - self.tree.leaves().start)
    }

    /// `reader`, which left its CPU in the section that ends, holds nothing up any more
    /// (`rcu_read_unlock_special`, `rcu_report_unblock_qs_rnp`).
    fn unblock(&self, reader: &Rc<Reader>, leaf: usize, jiffies: u64) {
        let node = &self.tree.nodes[leaf];
        node.hot().lock.lock();
        reader.queued.set(None);
        node.touch(Access::Write);
        let last = node.blocked.borrow_mut().remove(reader);
        // Relaxed: a node's words are ordered by its lock.
        let over = last.owed && S::READERS && node.hot().qsmask.load(Relaxed) == 0;
        let ended = match node.parent {
            _ if !over => {
                node.hot().lock.unlock();
                false
            }
            None => true,
            Some((parent, bit)) => {
                // The child's lock first: never two at a time.
                node.hot().lock.unlock();
                self.tree.nodes[parent].hot().lock.lock();
                self.tree.report::<S>(parent, bit)
            }
        };
        if ended {
            self.finish(jiffies);
        }
        if last.expedited {
            node.hot().lock.lock();
            self.tree.report_expedited(leaf);
        }
    }

    /// Returns the leaves with readers to boost since the last call, a bit each.
    pub fn take_boosts(&self) -> u64 {
        self.tree.boosts.take()
    }

    /// Whether readers at that leaf are to be hurried.
    pub fn is_boosting(&self, leaf: usize) -> bool {
        let blocked = self.leaf(leaf).blocked.borrow();
        (blocked.boosting && blocked.is_owed()) || blocked.is_expedited()
    }

    /// The next of them. The machine lends it a priority and waits until [`leave`](Self::leave)
    /// has said that the section is over, then [clears](Reader::end_boost) it.
    pub fn next_boost(&self, leaf: usize) -> Option<Rc<Reader>> {
        let node = self.leaf(leaf);
        let flags = node.hot().lock.lock_irqsave();
        node.touch(Access::Write);
        let mut blocked = node.blocked.borrow_mut();
        let reader = blocked.next_boost().cloned();
        if let Some(reader) = &reader {
            reader.boosted.set(true);
            blocked.boosts += 1;
            blocked.expedited_boosts += u64::from(reader.expedited.get());
        }
        drop(blocked);
        node.hot().lock.unlock();
        P::irq_restore(flags);
        reader
    }

    /// Leaves of the tree.
    pub fn leaves(&self) -> usize {
        self.tree.leaves().len()
    }

    fn leaf(&self, leaf: usize) -> &super::tree::Node<P> {
        &self.tree.nodes[self.tree.leaves().start + leaf]
    }
}
