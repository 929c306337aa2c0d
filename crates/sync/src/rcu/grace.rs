//! Grace periods: how one begins, is noted by each CPU, and ends.

use super::segments::Segments;
use super::tree::{NodeHot, Signaled};
use super::{FORCE_TICKS, Local, Rcu};
use crate::{Access, Atomic, Platform, RawLock};
use core::sync::atomic::Ordering::Relaxed;

impl<P: Platform, C> Rcu<P, C> {
    /// Checks whether the grace period that this CPU knows has ended: its callbacks move on then.
    /// Another CPU that holds the leaf's lock delays it to the next time.
    pub(super) fn note_end(&self) {
        let (leaf, bit) = self.tree.leaf_of(P::cpu() as usize);
        let hot = self.tree.nodes[leaf].hot();
        let local = self.here();
        if local.completed.get() == hot.completed.load(Relaxed) {
            return;
        }
        let flags = P::irq_save();
        if hot.lock.try_lock() {
            Self::end_for(local, hot, bit);
            hot.lock.unlock();
        }
        P::irq_restore(flags);
    }

    fn end_for(local: &Local<P, C>, hot: &NodeHot<P>, bit: usize) {
        // Relaxed: a node's words are ordered by its lock, the numbers by the root's.
        let completed = hot.completed.load(Relaxed);
        if local.completed.get() == completed {
            return;
        }
        local.touch(Access::Write);
        local.change(Segments::advance);
        local.completed.set(completed);
        // The numbers may wrap.
        if local.gpnum.get().wrapping_sub(completed).cast_signed() < 0 {
            local.gpnum.set(completed);
        }
        if hot.qsmask.peek() & bit == 0 {
            local.owes.set(false);
        }
    }

    /// Informs this CPU of a grace period; the leaf's lock is held. First handles the end of the
    /// previous one, which the CPU may not have noticed: otherwise a callback queued during the new
    /// one would advance at both ends, and be done at the second.
    fn begin_for(local: &Local<P, C>, hot: &NodeHot<P>, bit: usize) {
        let gpnum = hot.gpnum.load(Relaxed);
        if local.gpnum.get() == gpnum {
            return;
        }
        Self::end_for(local, hot, bit);
        local.touch(Access::Write);
        local.gpnum.set(gpnum);
        let owes = hot.qsmask.peek() & bit != 0;
        local.owes.set(owes);
        if owes {
            local.passed.set(false);
        }
    }

    /// Returns whether a grace period has begun that this CPU does not know of. Informs the CPU of
    /// it, unless another CPU holds the leaf's lock: then the next time.
    pub(super) fn note_begin(&self) -> bool {
        let (leaf, bit) = self.tree.leaf_of(P::cpu() as usize);
        let (hot, local) = (self.tree.nodes[leaf].hot(), self.here());
        let news = local.gpnum.get() != self.latest();
        if news {
            let flags = P::irq_save();
            if hot.lock.try_lock() {
                Self::begin_for(local, hot, bit);
                hot.lock.unlock();
            }
            P::irq_restore(flags);
        }
        news
    }

    /// Gets to know of a new grace period, or reports the quiescent state that was seen in the
    /// known one: never both in one go.
    pub(super) fn check_quiescent_state(&self, jiffies: u64) {
        let local = self.here();
        if self.note_begin() || !local.owes.get() || !local.passed.get() {
            return;
        }
        let (leaf, bit) = self.tree.leaf_of(P::cpu() as usize);
        let hot = self.tree.nodes[leaf].hot();
        let flags = hot.lock.lock_irqsave();
        // Relaxed: a node's words are ordered by its lock, the numbers by the root's.
        if local.tag.get() != hot.completed.load(Relaxed) {
            // Seen in another grace period: it proves nothing for this one.
            local.passed.set(false);
            hot.lock.unlock();
        } else if hot.qsmask.load(Relaxed) & bit == 0 {
            hot.lock.unlock();
        } else {
            local.owes.set(false);
            local.change(Segments::ready);
            if self.tree.report(leaf, bit) {
                self.finish(jiffies);
            }
        }
        P::irq_restore(flags);
    }

    /// Called when the root, which is locked, owes nothing more: the grace period is over, and the
    /// next one begins if this CPU waits for it.
    pub(super) fn finish(&self, jiffies: u64) {
        let numbers = &self.tree.numbers.0;
        // Relaxed: the root's lock orders both.
        numbers.completed.store(numbers.gpnum.load(Relaxed), Relaxed);
        self.count(|stats| stats.grace_periods += 1);
        self.start_locked(jiffies);
    }

    /// Begins a grace period if this CPU needs one.
    pub(super) fn start(&self, jiffies: u64) {
        let flags = P::irq_save();
        self.tree.nodes[0].hot().lock.lock();
        self.start_locked(jiffies);
        P::irq_restore(flags);
    }

    /// The same with the root locked, which is released.
    fn start_locked(&self, jiffies: u64) {
        let tree = &self.tree;
        let (root, numbers) = (tree.nodes[0].hot(), &tree.numbers.0);
        let local = self.here();
        if !self.needs_grace_period(local) || tree.forcing.get() {
            if tree.forcing.get() {
                tree.wanted.set(true);
            }
            // Relaxed: a node's words are ordered by its lock, the numbers by the root's.
            let lags = root.completed.load(Relaxed) != numbers.completed.peek();
            root.lock.unlock();
            if lags {
                self.tell_end();
            }
            return;
        }
        let gpnum = numbers.gpnum.peek().wrapping_add(1);
        // Relaxed: a node's words are ordered by its lock, the numbers by the root's.
        numbers.gpnum.store(gpnum, Relaxed);
        tree.signaled.set(Signaled::SaveDynticks);
        tree.force_at.set(jiffies + FORCE_TICKS);
        root.lock.unlock();
        let (mine, bit) = tree.leaf_of(P::cpu() as usize);
        // The grace period cannot end in the meantime: this CPU owes, with interrupts off.
        tree.begins.0.lock();
        for (number, node) in tree.nodes.iter().enumerate() {
            let hot = node.hot();
            hot.lock.lock();
            hot.qsmask.store(node.children, Relaxed);
            hot.gpnum.store(gpnum, Relaxed);
            // Relaxed: a node's words are ordered by its lock, the numbers by the root's.
            hot.completed.store(numbers.completed.peek(), Relaxed);
            let boost_at = jiffies + tree.boost_delay.get().unwrap_or(0);
            node.blocked.borrow_mut().begin(boost_at);
            if number == mine {
                Self::end_for(local, hot, bit);
                local.change(Segments::begin);
                Self::begin_for(local, hot, bit);
            }
            hot.lock.unlock();
        }
        tree.begins.0.unlock();
    }

    /// Records in every node that a grace period has ended and that none starts.
    fn tell_end(&self) {
        for node in &self.tree.nodes {
            let hot = node.hot();
            hot.lock.lock();
            hot.completed.store(self.tree.numbers.0.completed.peek(), Relaxed);
            hot.lock.unlock();
        }
    }

    /// Checks late CPUs. Returns those that must reschedule.
    pub(super) fn force(&self, jiffies: u64) -> Vec<usize> {
        let tree = &self.tree;
        let mut late = Vec::new();
        let flags = P::irq_save();
        if tree.force.0.try_lock() {
            let root = tree.nodes[0].hot();
            root.lock.lock();
            tree.force_at.set(jiffies + FORCE_TICKS);
            let due = tree.in_progress();
            tree.forcing.set(due);
            root.lock.unlock();
            tree.count_force(|forces| {
                forces.all += 1;
                forces.in_vain += u64::from(!due);
            });
            if due {
                self.count(|stats| stats.forced += 1);
                self.look_at_late(jiffies, &mut late);
                root.lock.lock();
                tree.signaled.set(Signaled::ForceQs);
                tree.forcing.set(false);
                if tree.wanted.replace(false) {
                    self.start_locked(jiffies);
                } else {
                    root.lock.unlock();
                }
            }
            tree.force.0.unlock();
        } else {
            tree.count_force(|forces| forces.beaten += 1);
        }
        P::irq_restore(flags);
        late
    }

    fn look_at_late(&self, jiffies: u64, late: &mut Vec<usize>) {
        let tree = &self.tree;
        for number in tree.leaves() {
            let node = &tree.nodes[number];
            let hot = node.hot();
            hot.lock.lock();
            // Relaxed: a node's words are ordered by its lock, the numbers by the root's.
            let (mask, mut quiet) = (hot.qsmask.load(Relaxed), 0);
            for (place, cpu) in node.cpus.clone().enumerate() {
                if mask & 1 << place == 0 {
                    continue;
                }
                let local = &self.locals[cpu];
                let count = local.dynticks.get();
                let stopped = count.is_multiple_of(2);
                if tree.signaled.get() == Signaled::SaveDynticks {
                    local.snapshot.set(count);
                } else if !stopped && count - local.snapshot.get() < 2 {
                    local.count(|counts| counts.hurried += 1);
                    late.push(cpu);
                    continue;
                }
                if stopped || tree.signaled.get() == Signaled::ForceQs {
                    local.count(|counts| counts.stopped += 1);
                    quiet |= 1 << place;
                }
            }
            if mask == 0 && tree.boost_delay.get().is_some() {
                let begins = node.blocked.borrow_mut().boosts_at(jiffies);
                let leaf = number - tree.leaves().start;
                tree.boosts.set(tree.boosts.get() | u64::from(begins) << leaf);
            }
            if quiet == 0 {
                hot.lock.unlock();
            } else if tree.report(number, quiet) {
                self.finish(jiffies);
            }
        }
    }
}
