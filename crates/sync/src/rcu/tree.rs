//! The tree of nodes, and the grace periods that go over it.

use super::{FORCE_TICKS, Line, Local, Rcu, Steps};
use crate::{Access, Atomic, Platform, RawLock, TicketLock};
use core::cell::{Cell, OnceCell, RefCell};
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::readers::Blocked;
use super::segments::Segments;

/// CPUs of a leaf (`RCU_FANOUT_LEAF`), and children of an inner node (`CONFIG_RCU_FANOUT`).
const LEAF_FANOUT: usize = 16;
const INNER_FANOUT: usize = 64;

/// Next step of the check for late CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Signaled {
    /// Notes which ticks are stopped.
    SaveDynticks = 2,
    /// Reports those that were, makes the others reschedule.
    ForceQs = 3,
}

/// Checks for late CPUs.
#[derive(Clone, Copy, Default)]
pub(super) struct Forces {
    pub(super) all: u64,
    /// No grace period was on its way.
    pub(super) in_vain: u64,
    /// Another CPU was doing it; not included in `all`.
    pub(super) beaten: u64,
}

/// One node in the machine's memory: a separate line. Its words are written under its lock and read
/// without it as hints.
pub(super) struct NodeHot<P: Platform> {
    pub(super) lock: TicketLock<P>,
    gpnum: P::AtomicUsize,
    completed: P::AtomicUsize,
    /// Children that the grace period waits for.
    pub(super) qsmask: P::AtomicUsize,
}

pub(super) struct Node<P: Platform> {
    hot: P::Home<Line<NodeHot<P>>>,
    /// All children.
    pub(super) children: usize,
    /// Its parent, and its bit there.
    pub(super) parent: Option<(usize, usize)>,
    pub(super) cpus: Range<usize>,
    /// Of a leaf.
    pub(super) blocked: RefCell<Blocked>,
    /// Children that an expedited grace period waits for. Guarded by the lock.
    pub(super) expmask: Cell<usize>,
}

impl<P: Platform> Node<P> {
    fn new(
        cpus: Range<usize>,
        children: usize,
        parent: Option<(usize, usize)>,
        first: usize,
    ) -> Self {
        let hot = P::place(Line(NodeHot {
            lock: TicketLock::default(),
            gpnum: Atomic::new(first),
            completed: Atomic::new(first),
            qsmask: Atomic::new(0),
        }));
        Self {
            hot,
            children: usize::MAX >> (usize::BITS as usize - children),
            parent,
            cpus,
            blocked: RefCell::default(),
            expmask: Cell::default(),
        }
    }

    /// Charges an access to data protected by its lock that is not a separate word.
    pub(super) fn touch(&self, access: Access) {
        P::touch(&*self.hot, access);
    }

    pub(super) fn hot(&self) -> &NodeHot<P> {
        &self.hot.0
    }
}

/// The numbers of the last grace period that has begun and of the last that has ended: guarded by
/// the root's lock, read without it.
pub(super) struct Numbers<P: Platform> {
    pub(super) gpnum: P::AtomicUsize,
    pub(super) completed: P::AtomicUsize,
}

/// `rcu_state`, with the nodes.
pub(super) struct Tree<P: Platform> {
    /// The root first, then the leaves; one node is both.
    pub(super) nodes: Vec<Node<P>>,
    pub(super) numbers: P::Home<Line<Numbers<P>>>,
    pub(super) signaled: Cell<Signaled>,
    /// When late CPUs are checked, in a grace period.
    pub(super) force_at: Cell<u64>,
    pub(super) forces: Cell<Forces>,
    /// When the last grace period began, and how often it was said to wait too long.
    pub(super) began: Cell<u64>,
    pub(super) stalled: Cell<u64>,
    /// Held during the start of a grace period, and during the check for late CPUs.
    pub(super) begins: P::Home<Line<TicketLock<P>>>,
    force: P::Home<Line<TicketLock<P>>>,
    forcing: Cell<bool>,
    /// A grace period was requested in the meantime.
    wanted: Cell<bool>,
    /// Ticks after which readers that hold a grace period up are hurried, and at which leaves.
    pub(super) boost_delay: Cell<Option<u64>>,
    pub(super) boosts: Cell<u64>,
    /// One while an expedited grace period waits for readers. Allocated by the first of these:
    /// until then it is free of cost.
    pub(super) expediting: OnceCell<P::Home<Line<P::AtomicU32>>>,
}

impl<T> core::ops::Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<P: Platform> Tree<P> {
    pub(super) fn new(cpus: usize, first: usize) -> Self {
        let leaves = cpus.div_ceil(LEAF_FANOUT);
        assert!(leaves <= INNER_FANOUT, "{cpus} CPUs; at most {}", LEAF_FANOUT * INNER_FANOUT);
        let span = |leaf: usize| leaf * LEAF_FANOUT..((leaf + 1) * LEAF_FANOUT).min(cpus);
        let mut nodes = Vec::new();
        if leaves > 1 {
            nodes.push(Node::new(0..cpus, leaves, None, first));
        }
        for leaf in 0..leaves {
            let parent = (leaves > 1).then_some((0, 1 << leaf));
            nodes.push(Node::new(span(leaf), span(leaf).len(), parent, first));
        }
        let numbers = Numbers { gpnum: Atomic::new(first), completed: Atomic::new(first) };
        Self {
            nodes,
            numbers: P::place(Line(numbers)),
            signaled: Cell::new(Signaled::SaveDynticks),
            force_at: Cell::default(),
            forces: Cell::default(),
            began: Cell::default(),
            stalled: Cell::default(),
            begins: P::place(Line(TicketLock::default())),
            force: P::place(Line(TicketLock::default())),
            forcing: Cell::new(false),
            wanted: Cell::new(false),
            boost_delay: Cell::default(),
            boosts: Cell::default(),
            expediting: OnceCell::new(),
        }
    }

    pub(super) fn locks(&self, tell: &mut impl FnMut(&TicketLock<P>, &'static str)) {
        for node in &self.nodes {
            tell(&node.hot().lock, "rcu_node->lock");
        }
        tell(&self.begins.0, "rcu onofflock");
        tell(&self.force.0, "rcu fqslock");
    }

    /// Whether a grace period is on its way; looks without a lock.
    pub(super) fn in_progress(&self) -> bool {
        let numbers = &self.numbers.0;
        numbers.gpnum.load(Relaxed) != numbers.completed.peek()
    }

    /// Returns whether a check for late CPUs is due.
    pub(super) fn force_is_due(&self, jiffies: u64) -> bool {
        self.in_progress() && self.force_at.get() < jiffies
    }

    fn count_force(&self, change: impl FnOnce(&mut Forces)) {
        let mut forces = self.forces.get();
        change(&mut forces);
        self.forces.set(forces);
    }

    pub(super) fn leaf_of(&self, cpu: usize) -> (usize, usize) {
        let first = usize::from(self.nodes.len() > 1);
        (first + cpu / LEAF_FANOUT, 1 << (cpu % LEAF_FANOUT))
    }

    pub(super) fn leaves(&self) -> Range<usize> {
        usize::from(self.nodes.len() > 1)..self.nodes.len()
    }

    /// The last grace periods that have ended and begun as the leaf of `cpu` knows; looks without
    /// its lock.
    pub(super) fn seen_by(&self, cpu: usize) -> (usize, usize) {
        let hot = self.nodes[self.leaf_of(cpu).0].hot();
        (hot.completed.load(Relaxed), hot.gpnum.peek())
    }

    /// Clears `bits` in `node`, whose lock the caller holds, and continues upwards while nodes are
    /// complete. Releases the lock; whether the grace period is over, and then the root is locked.
    pub(super) fn report<S: Steps>(&self, node: usize, bits: usize) -> bool {
        let (mut at, mut bits) = (node, bits);
        loop {
            let node = &self.nodes[at];
            let hot = node.hot();
            // Relaxed, as all words of a node: its lock orders them.
            let mask = hot.qsmask.load(Relaxed);
            if mask & bits == 0 {
                hot.lock.unlock();
                return false;
            }
            hot.qsmask.store(mask & !bits, Relaxed);
            if (mask & !bits != 0 || self.is_held::<S>(at)) && S::ENDS_LAST {
                hot.lock.unlock();
                return false;
            }
            let Some((parent, bit)) = node.parent else { return true };
            // The child's lock first: never two at a time.
            hot.lock.unlock();
            self.nodes[parent].hot().lock.lock();
            (at, bits) = (parent, bit);
        }
    }
}

impl<P: Platform, C, S: Steps> Rcu<P, C, S> {
    /// Whether the grace period that this CPU knows has ended: its callbacks move on. Another CPU
    /// that holds the leaf's lock delays it to the next time.
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
        if Self::before(local.gpnum.get(), completed) {
            local.gpnum.set(completed);
        }
        if hot.qsmask.peek() & bit == 0 {
            local.owes.set(false);
        }
    }

    /// The leaf's lock is held: this CPU gets to know of a grace period. First handles the end of
    /// the previous one, which the CPU may not have noticed: else a callback queued during the new
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
        if owes && S::TAGS {
            local.passed.set(false);
        }
    }

    /// Whether a grace period has begun that this CPU does not know of. Gets to know of it, unless
    /// another CPU holds the leaf's lock: then the next time.
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
        if S::TAGS && S::LOOKS_AGAIN && local.tag.get() != hot.completed.load(Relaxed) {
            // Seen in another grace period: it proves nothing for this one.
            local.passed.set(false);
            hot.lock.unlock();
        } else if hot.qsmask.load(Relaxed) & bit == 0 {
            hot.lock.unlock();
        } else {
            local.owes.set(false);
            local.change(Segments::ready);
            if self.tree.report::<S>(leaf, bit) {
                self.finish(jiffies);
            }
        }
        P::irq_restore(flags);
    }

    /// The root, which is locked, owes nothing more: the grace period is over, and the next one
    /// begins if this CPU waits for it.
    pub(super) fn finish(&self, jiffies: u64) {
        let numbers = &self.tree.numbers.0;
        // Release pairs with who polls; Relaxed: the root's lock orders the rest.
        numbers.completed.store(numbers.gpnum.load(Relaxed), Release);
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
        tree.began.set(jiffies);
        tree.stalled.set(0);
        root.lock.unlock();
        let (mine, bit) = tree.leaf_of(P::cpu() as usize);
        // The grace period cannot end while this goes on: this CPU owes, with interrupts off.
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

    /// Checks late CPUs; returns those that must reschedule.
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
            } else if tree.report::<S>(number, quiet) {
                self.finish(jiffies);
            }
        }
    }
}
