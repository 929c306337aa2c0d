//! Expedited grace periods of readers that may be preempted (`synchronize_rcu_expedited`).
//!
//! When every CPU has been made to switch, readers that are still in an earlier critical section
//! have been preempted in it, and are queued at a leaf. These readers are marked; the last marked
//! one of a leaf that ends its section reports for the leaf, and so up the tree. Later readers are
//! not waited for. The user lets one caller at a time do this, as [`Expedited`](super::Expedited)
//! does.

use super::{Access, Line, Rcu, Steps, tree::Tree};
use crate::{Atomic, Platform, RawLock, Sleep};
use core::sync::atomic::Ordering::{Acquire, Release};

impl<P: Platform> Tree<P> {
    /// The word that is one while readers are waited for.
    fn expediting(&self) -> &P::AtomicU32 {
        &self.expediting.get_or_init(|| P::place(Line(Atomic::new(0)))).0
    }

    /// Checks whether an expedited grace period still waits for node `at`. If not, reports that
    /// up the tree. Releases the node's lock, which the caller holds.
    pub(super) fn report_expedited(&self, mut at: usize) {
        loop {
            let node = &self.nodes[at];
            node.touch(Access::Write);
            let done = node.expmask.get() == 0 && !node.blocked.borrow().is_expedited();
            // The child's lock first: never two at a time.
            node.hot().lock.unlock();
            let Some((parent, bit)) = node.parent.filter(|_| done) else {
                if done {
                    // Release pairs with the waiter: the critical sections come before its frees.
                    self.expediting().store(0, Release);
                    P::wake(&raw const *self.expediting(), usize::MAX);
                }
                return;
            };
            let above = &self.nodes[parent];
            above.hot().lock.lock();
            above.expmask.set(above.expmask.get() & !bit);
            at = parent;
        }
    }
}

impl<P: Platform, C, S: Steps> Rcu<P, C, S> {
    /// Marks the readers that were preempted in a critical section, after all CPUs have switched
    /// since the caller unlinked the object that it wants to free. They may be boosted immediately:
    /// ask for [the leaves](Self::take_boosts) before [waiting](Self::wait_expedited).
    pub fn expedite(&self) {
        let tree = &self.tree;
        let flags = tree.begins.0.lock_irqsave();
        // Release: no task reads it before it is one.
        tree.expediting().store(1, Release);
        for inner in &tree.nodes[..tree.leaves().start] {
            inner.hot().lock.lock();
            inner.touch(Access::Write);
            inner.expmask.set(inner.children);
            inner.hot().lock.unlock();
        }
        for (number, at) in tree.leaves().enumerate() {
            let leaf = &tree.nodes[at];
            leaf.hot().lock.lock();
            leaf.touch(Access::Write);
            if S::EXPEDITES && leaf.blocked.borrow_mut().expedite() {
                if tree.boost_delay.get().is_some() {
                    tree.boosts.set(tree.boosts.get() | 1 << number);
                }
                leaf.hot().lock.unlock();
            } else {
                tree.report_expedited(at);
            }
        }
        tree.begins.0.unlock();
        P::irq_restore(flags);
    }

    /// Sleeps until all marked readers have ended their sections.
    pub fn wait_expedited(&self) {
        let waiting = self.tree.expediting();
        // Acquire pairs with the last report.
        while waiting.load(Acquire) != 0 {
            P::wait(waiting, 1, Sleep::Uninterruptible, None);
        }
    }
}
