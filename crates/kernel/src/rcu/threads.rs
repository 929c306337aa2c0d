//! The threads that boost readers.

use crate::sched::kthread::state::Kthread;
use crate::sched::task::Policy;
use convoy_machine::{Sim, Smp};
use convoy_sync::TicketLock;
use core::cell::{Cell, OnceCell};
use std::rc::Rc;

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
