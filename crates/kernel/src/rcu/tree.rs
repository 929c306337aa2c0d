//! The tree of nodes, and the grace periods that go over it.
//!
//! Locks: `onoff` or `force` may be held while a node's lock is taken; of the nodes' locks one at a
//! time, all with interrupts off. The numbers of the last grace period that has begun and of the
//! last that has ended are guarded by the root's lock; a grace period is on its way while they
//! differ.

use super::{FORCE_TICKS, Local, Rcu};
use crate::lock_rules::LockRules;
use crate::locks::{Field, Line, Spin};
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::{Platform, RawLock, TicketLock};
use core::cell::Cell;
use core::ops::Range;

/// CPUs of a leaf (`RCU_FANOUT_LEAF`), and children of an inner node (`CONFIG_RCU_FANOUT`).
const LEAF_FANOUT: usize = 16;
const INNER_FANOUT: usize = 64;
/// The first number of a grace period: early enough to see it wrap.
pub(super) const FIRST: i64 = -300;

/// What a look at late CPUs does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signaled {
    /// Notes which ticks are stopped.
    SaveDynticks,
    /// Reports those that were, makes the others reschedule.
    ForceQs,
}

/// One node in simulated memory: a line of its own.
struct NodeHot {
    lock: TicketLock<Smp>,
    gpnum: Field<i64>,
    completed: Field<i64>,
    /// Children that the grace period waits for.
    qsmask: Field<u64>,
}

struct Node {
    hot: Sim<Line<NodeHot>>,
    /// All children.
    children: u64,
    /// Its parent, and its bit there.
    parent: Option<(usize, u64)>,
    cpus: Range<usize>,
}

impl Node {
    fn new(cpus: Range<usize>, children: usize, parent: Option<(usize, u64)>) -> Self {
        let hot = Here::place(Line(NodeHot {
            lock: TicketLock::default(),
            gpnum: Field::new(FIRST),
            completed: Field::new(FIRST),
            qsmask: Field::new(0),
        }));
        Here::name(&hot.lock, "rcu_node->lock");
        Self { hot, children: u64::MAX >> (64 - children), parent, cpus }
    }
}

/// `rcu_state`, with the nodes.
pub(super) struct Tree {
    /// The root first, then the leaves; one node is both.
    nodes: Vec<Node>,
    gpnum: Sim<Line<Field<i64>>>,
    completed: Cell<i64>,
    signaled: Cell<Signaled>,
    force_at: Cell<u64>,
    /// Held while a grace period begins, and while late CPUs are looked at.
    onoff: Sim<Line<Spin>>,
    force: Sim<Line<TicketLock<Smp>>>,
    forcing: Cell<bool>,
    /// A grace period was wanted meanwhile.
    wanted: Cell<bool>,
}

impl Tree {
    pub(super) fn new(locks: LockRules, cpus: usize) -> Self {
        let leaves = cpus.div_ceil(LEAF_FANOUT);
        assert!(leaves <= INNER_FANOUT, "{cpus} CPUs; at most {}", LEAF_FANOUT * INNER_FANOUT);
        let span = |leaf: usize| leaf * LEAF_FANOUT..((leaf + 1) * LEAF_FANOUT).min(cpus);
        let mut nodes = Vec::new();
        if leaves > 1 {
            nodes.push(Node::new(0..cpus, leaves, None));
        }
        for leaf in 0..leaves {
            let parent = (leaves > 1).then_some((0, 1 << leaf));
            nodes.push(Node::new(span(leaf), span(leaf).len(), parent));
        }
        let onoff = Here::place(Line(locks.spin()));
        let force = Here::place(Line(TicketLock::default()));
        Here::name(&*onoff, "rcu onofflock");
        Here::name(&*force, "rcu fqslock");
        Self {
            nodes,
            gpnum: Here::place(Line(Field::new(FIRST))),
            completed: Cell::new(FIRST),
            signaled: Cell::new(Signaled::SaveDynticks),
            force_at: Cell::new(u64::MAX),
            onoff,
            force,
            forcing: Cell::new(false),
            wanted: Cell::new(false),
        }
    }

    /// Whether a grace period is on its way; looks without a lock.
    pub(super) fn in_progress(&self) -> bool {
        self.gpnum.read() != self.completed.get()
    }

    /// Tick from which on late CPUs are looked at.
    pub(super) fn force_at(&self) -> u64 {
        self.force_at.get()
    }

    fn leaf_of(&self, cpu: usize) -> (usize, u64) {
        let first = usize::from(self.nodes.len() > 1);
        (first + cpu / LEAF_FANOUT, 1 << (cpu % LEAF_FANOUT))
    }

    fn leaves(&self) -> Range<usize> {
        usize::from(self.nodes.len() > 1)..self.nodes.len()
    }

    /// The last grace periods that have ended and begun as the leaf of `cpu` knows; looks without
    /// its lock.
    pub(super) fn seen_by(&self, cpu: usize) -> (i64, i64) {
        let hot = &self.nodes[self.leaf_of(cpu).0].hot;
        (hot.completed.read(), hot.gpnum.peek())
    }

    /// Clears `bits` in `node`, whose lock the caller holds, and goes up as long as a node owes
    /// nothing more. Releases the lock; whether the grace period is over, and then the root is
    /// locked.
    fn report(&self, node: usize, bits: u64) -> bool {
        let (mut at, mut bits) = (node, bits);
        loop {
            let node = &self.nodes[at];
            let mask = &node.hot.qsmask;
            if mask.read() & bits == 0 {
                node.hot.lock.unlock();
                return false;
            }
            mask.write(mask.peek() & !bits);
            if mask.peek() != 0 {
                node.hot.lock.unlock();
                return false;
            }
            let Some((parent, bit)) = node.parent else { return true };
            // The child's lock first: never two at a time.
            node.hot.lock.unlock();
            self.nodes[parent].hot.lock.lock();
            (at, bits) = (parent, bit);
        }
    }
}

impl Rcu {
    /// Whether the grace period that this CPU knows has ended: its callbacks move on. Another CPU
    /// that holds the leaf's lock delays it to the next time.
    pub(super) fn note_end(&self) {
        let (leaf, bit) = self.tree.leaf_of(Here::cpu());
        let hot = &self.tree.nodes[leaf].hot;
        let local = self.here();
        if local.completed.get() == hot.completed.read() {
            return;
        }
        Smp::irq_save();
        if hot.lock.try_lock() {
            Self::end_for(local, hot, bit);
            hot.lock.unlock();
        }
        Smp::irq_restore(());
    }

    fn end_for(local: &Local, hot: &NodeHot, bit: u64) {
        let completed = hot.completed.read();
        if local.completed.get() == completed {
            return;
        }
        local.line.write(0);
        local.change(super::Segments::advance);
        local.completed.set(completed);
        if local.gpnum.get() < completed {
            local.gpnum.set(completed);
        }
        if hot.qsmask.peek() & bit == 0 {
            local.owes.set(false);
        }
    }

    /// The leaf's lock is held: this CPU gets to know of a grace period.
    fn begin_for(local: &Local, hot: &NodeHot, bit: u64) {
        let gpnum = hot.gpnum.read();
        if local.gpnum.get() == gpnum {
            return;
        }
        local.line.write(0);
        local.gpnum.set(gpnum);
        let owes = hot.qsmask.peek() & bit != 0;
        local.owes.set(owes);
        if owes {
            local.passed.set(None);
        }
    }

    /// Gets to know of a new grace period, or reports the quiescent state that was seen in the
    /// known one: never both in one go.
    pub(super) fn check_quiescent_state(&self, jiffies: u64) {
        let (leaf, bit) = self.tree.leaf_of(Here::cpu());
        let hot = &self.tree.nodes[leaf].hot;
        let local = self.here();
        if local.gpnum.get() != self.tree.gpnum.read() {
            Smp::irq_save();
            hot.lock.lock();
            Self::begin_for(local, hot, bit);
            hot.lock.unlock();
            Smp::irq_restore(());
            return;
        }
        let Some(passed) = local.passed.get().filter(|_| local.owes.get()) else { return };
        Smp::irq_save();
        hot.lock.lock();
        if passed != hot.completed.read() {
            // Seen in another grace period: it proves nothing for this one.
            local.passed.set(None);
            hot.lock.unlock();
        } else if hot.qsmask.read() & bit == 0 {
            hot.lock.unlock();
        } else {
            local.owes.set(false);
            local.change(super::Segments::ready);
            if self.tree.report(leaf, bit) {
                self.finish(jiffies);
            }
        }
        Smp::irq_restore(());
    }

    /// The root, which is locked, owes nothing more: the grace period is over, and the next one
    /// begins if this CPU waits for it.
    fn finish(&self, jiffies: u64) {
        self.tree.completed.set(self.tree.gpnum.read());
        self.tree.force_at.set(u64::MAX);
        self.count(|stats| stats.grace_periods += 1);
        self.start_locked(jiffies);
    }

    /// Begins a grace period if this CPU needs one.
    pub(super) fn start(&self, jiffies: u64) {
        Smp::irq_save();
        self.tree.nodes[0].hot.lock.lock();
        self.start_locked(jiffies);
        Smp::irq_restore(());
    }

    /// The same with the root locked, which is released.
    fn start_locked(&self, jiffies: u64) {
        let tree = &self.tree;
        let root = &tree.nodes[0].hot;
        let local = self.here();
        if !self.needs_grace_period(local) || tree.forcing.get() {
            if tree.forcing.get() {
                tree.wanted.set(true);
            }
            let lags = root.completed.read() != tree.completed.get();
            root.lock.unlock();
            if lags {
                self.tell_end();
            }
            return;
        }
        tree.gpnum.write(tree.gpnum.peek() + 1);
        tree.signaled.set(Signaled::SaveDynticks);
        tree.force_at.set(jiffies + FORCE_TICKS);
        root.lock.unlock();
        let (mine, bit) = tree.leaf_of(Here::cpu());
        // The grace period cannot end while this goes on: this CPU owes, with interrupts off.
        tree.onoff.hold(|| {
            for (number, node) in tree.nodes.iter().enumerate() {
                node.hot.lock.lock();
                node.hot.qsmask.write(node.children);
                node.hot.gpnum.write(tree.gpnum.peek());
                node.hot.completed.write(tree.completed.get());
                if number == mine {
                    Self::end_for(local, &node.hot, bit);
                    local.change(super::Segments::begin);
                    Self::begin_for(local, &node.hot, bit);
                }
                node.hot.lock.unlock();
            }
        });
    }

    /// Tells every node that a grace period has ended and none begins.
    fn tell_end(&self) {
        for node in &self.tree.nodes {
            node.hot.lock.lock();
            node.hot.completed.write(self.tree.completed.get());
            node.hot.lock.unlock();
        }
    }

    /// Looks at late CPUs; those that must reschedule.
    pub(super) fn force(&self, jiffies: u64) -> Vec<usize> {
        let tree = &self.tree;
        let mut late = Vec::new();
        Smp::irq_save();
        if tree.force.try_lock() {
            let root = &tree.nodes[0].hot;
            root.lock.lock();
            tree.force_at.set(jiffies + FORCE_TICKS);
            let due = tree.in_progress();
            tree.forcing.set(due);
            root.lock.unlock();
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
            tree.force.unlock();
        }
        Smp::irq_restore(());
        late
    }

    fn look_at_late(&self, jiffies: u64, late: &mut Vec<usize>) {
        let tree = &self.tree;
        for number in tree.leaves() {
            let node = &tree.nodes[number];
            node.hot.lock.lock();
            let (mask, mut quiet) = (node.hot.qsmask.read(), 0);
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
                    late.push(cpu);
                    continue;
                }
                if stopped || tree.signaled.get() == Signaled::ForceQs {
                    quiet |= 1 << place;
                }
            }
            if quiet == 0 {
                node.hot.lock.unlock();
            } else if tree.report(number, quiet) {
                self.finish(jiffies);
            }
        }
    }
}
