//! The threads of RCU that are not callback threads: those that boost readers, and those that stop
//! CPUs for expedited grace periods.

use crate::sched::kthread::state::Kthread;
use crate::sched::task::Policy;
use convoy_machine::{Here, Sim, Smp};
use convoy_sync::TicketLock;
use convoy_sync::rcu::{Barrier, Expedited};
use core::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// Back-off of a concurrent attempt to stop all CPUs, per attempt and CPU: 1 us.
const PAUSE_PS: u64 = 1_000_000;

/// The boosting threads of the leaves, and their boosts.
#[derive(Default)]
pub(crate) struct Boosts {
    pub(super) leaves: OnceCell<Vec<Leaf>>,
}

/// One leaf: its thread, the lock of the boost (`wait_lock`), and the reader's original policy.
pub(super) struct Leaf {
    pub(super) thread: Rc<Kthread>,
    pub(super) lock: Sim<TicketLock<Smp>>,
    pub(super) before: Cell<Option<Policy>>,
}

impl Boosts {
    pub(super) fn leaf(&self, number: usize) -> &Leaf {
        &self.leaves.get().expect("made at the start")[number]
    }
}

pub(super) type Count = Rc<Sim<Barrier<Smp>>>;

/// The thread of a CPU that others run there, to know that no other task runs.
pub(super) struct Stopper {
    pub(super) thread: Rc<Kthread>,
    pub(super) wanted: RefCell<Option<Count>>,
}

/// What expedited grace periods need.
pub(super) struct Stoppers {
    pub(super) expedited: Sim<Expedited<Smp>>,
    /// A task is stopping CPUs.
    pub(super) busy: Cell<bool>,
    /// The same of readers that may be preempted (`sync_rcu_preempt_exp_mutex`).
    pub(super) readers: Sim<Expedited<Smp>>,
    pub(super) busy_readers: Cell<bool>,
    pub(super) by_cpu: Vec<Rc<Stopper>>,
}

impl Stoppers {
    /// The pause after try `number` met another one.
    pub(super) fn pause(&self, number: u32) {
        Here::compute(u64::from(number) * self.by_cpu.len() as u64 * PAUSE_PS);
    }
}
