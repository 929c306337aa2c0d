//! Readers that may be preempted (`CONFIG_TREE_PREEMPT_RCU`): their state, the grace periods that
//! wait for them, and readers to be boosted.
//!
//! A reader that leaves its CPU inside a section is queued at its CPU's leaf; the CPU itself has
//! passed. If the present grace period still waited for that CPU, it waits for the reader from now
//! on, else the next one does. The last such reader of a leaf on which all CPUs have passed reports
//! for the leaf. After a delay the readers that hold a grace period up are named to the machine,
//! one after the other, so that it can lend them a priority (`rcu_initiate_boost`, `rcu_boost`).

use super::{Access, Rcu, Reader, tree::Tree};
use crate::{Atomic, Platform, RawLock};
use core::sync::atomic::Ordering::Relaxed;
use std::rc::Rc;

impl<P: Platform> Tree<P> {
    /// Returns whether readers at `node` delay the grace period. The caller holds the node's lock.
    pub(super) fn is_held(&self, node: usize) -> bool {
        self.nodes[node].blocked.borrow().is_owed()
    }
}

impl<P: Platform, C> Rcu<P, C> {
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

    /// Ends a section of `reader`. If it was marked for boosting, returns its leaf: the
    /// machine ends the boost.
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
        let is_last = node.blocked.borrow_mut().remove(reader);
        // Relaxed: a node's words are ordered by its lock.
        let over = is_last && node.hot().qsmask.load(Relaxed) == 0;
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
                self.tree.report(parent, bit)
            }
        };
        if ended {
            self.finish(jiffies);
        }
    }

    /// Returns the leaves with readers to boost since the last call, a bit each.
    pub fn take_boosts(&self) -> u64 {
        self.tree.boosts.take()
    }

    /// Returns whether readers at that leaf are to be hurried.
    pub fn is_boosting(&self, leaf: usize) -> bool {
        let blocked = self.leaf(leaf).blocked.borrow();
        blocked.boosting && blocked.is_owed()
    }

    /// Returns the next of them. The machine lends it a priority and waits until
    /// [`leave`](Self::leave) has said that the section is over, then [clears](Reader::end_boost)
    /// it.
    pub fn next_boost(&self, leaf: usize) -> Option<Rc<Reader>> {
        let node = self.leaf(leaf);
        let flags = node.hot().lock.lock_irqsave();
        node.touch(Access::Write);
        let blocked = node.blocked.borrow();
        let reader = blocked.next_boost().cloned();
        if let Some(reader) = &reader {
            reader.boosted.set(true);
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
