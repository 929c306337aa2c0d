//! The tree of nodes that CPUs report to.

use crate::{Access, Atomic, Platform, RawLock, TicketLock};
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use super::blocked::Blocked;

/// CPUs of a leaf (`RCU_FANOUT_LEAF`), and children of an inner node (`CONFIG_RCU_FANOUT`).
const LEAF_FANOUT: usize = 16;
const INNER_FANOUT: usize = 64;

/// A separate cache line.
#[repr(C, align(64))]
pub(super) struct Line<T>(pub(super) T);

impl<T> core::ops::Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

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
    pub(super) gpnum: P::AtomicUsize,
    pub(super) completed: P::AtomicUsize,
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
    /// Held during the start of a grace period, and during the check for late CPUs.
    pub(super) begins: P::Home<Line<TicketLock<P>>>,
    pub(super) force: P::Home<Line<TicketLock<P>>>,
    pub(super) forcing: Cell<bool>,
    /// A grace period was requested in the meantime.
    pub(super) wanted: Cell<bool>,
    /// Ticks after which readers that hold a grace period up are hurried, and at which leaves.
    pub(super) boost_delay: Cell<Option<u64>>,
    pub(super) boosts: Cell<u64>,
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
            begins: P::place(Line(TicketLock::default())),
            force: P::place(Line(TicketLock::default())),
            forcing: Cell::new(false),
            wanted: Cell::new(false),
            boost_delay: Cell::default(),
            boosts: Cell::default(),
        }
    }

    pub(super) fn locks(&self, tell: &mut impl FnMut(&TicketLock<P>, &'static str)) {
        for node in &self.nodes {
            tell(&node.hot().lock, "rcu_node->lock");
        }
        tell(&self.begins.0, "rcu onofflock");
        tell(&self.force.0, "rcu fqslock");
    }

    /// Returns whether a grace period is in progress; reads without a lock.
    pub(super) fn in_progress(&self) -> bool {
        let numbers = &self.numbers.0;
        numbers.gpnum.load(Relaxed) != numbers.completed.peek()
    }

    /// Returns whether a check for late CPUs is due.
    pub(super) fn force_is_due(&self, jiffies: u64) -> bool {
        self.in_progress() && self.force_at.get() < jiffies
    }

    pub(super) fn count_force(&self, change: impl FnOnce(&mut Forces)) {
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

    /// Returns the last grace periods that have ended and begun as the leaf of `cpu` knows; reads
    /// without its lock.
    pub(super) fn seen_by(&self, cpu: usize) -> (usize, usize) {
        let hot = self.nodes[self.leaf_of(cpu).0].hot();
        (hot.completed.load(Relaxed), hot.gpnum.peek())
    }

    /// Clears `bits` in `node` and continues upwards while nodes are complete. The caller holds the
    /// lock of `node`, which is released. Returns whether the grace period is over; the root is
    /// locked then.
    pub(super) fn report(&self, node: usize, bits: usize) -> bool {
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
            if mask & !bits != 0 || self.is_held(at) {
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
