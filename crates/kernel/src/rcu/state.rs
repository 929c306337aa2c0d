//! What the scheduler holds of RCU.

use super::rules::{Placement, RcuRules, ThreadPolicy};
use crate::sched::kthread::state::Kthread;
use convoy_machine::{Here, Smp, ps};
use convoy_sync::rcu::{FIRST, Work};
use core::cell::RefCell;
use std::rc::Rc;

/// RCU of one machine: the lists and grace periods of `convoy-sync`, and where their work runs.
pub(crate) struct Rcu<C> {
    pub(super) placement: Placement,
    pub(super) thread_policy: ThreadPolicy,
    pub(super) core: u64,
    pub(super) callback: u64,
    pub(super) lists: convoy_sync::rcu::Rcu<Smp, C>,
    pub(super) threads: Vec<Thread>,
}

/// The thread of one CPU, where there is one, and whether it has work.
#[derive(Default)]
pub(super) struct Thread {
    pub(super) task: RefCell<Option<Rc<Kthread>>>,
    pub(super) work: Work,
}

impl<C> Rcu<C> {
    pub(crate) fn new(rules: &RcuRules, cpus: usize) -> Self {
        let lists = convoy_sync::rcu::Rcu::new(cpus, FIRST);
        lists.locks(Here::name);
        Self {
            placement: rules.placement,
            thread_policy: rules.thread,
            core: ps(rules.core_ns),
            callback: ps(rules.callback_ns),
            lists,
            threads: (0..cpus).map(|_| Thread::default()).collect(),
        }
    }

    /// The thread of this CPU.
    pub(super) fn thread(&self) -> &Thread {
        &self.threads[Here::cpu()]
    }

    /// This CPU is in a quiescent state.
    pub(crate) fn note_quiescent_state(&self) {
        self.lists.note_quiescent_state();
    }

    /// `cpu` stops its tick, or starts it again.
    pub(crate) fn note_tick_stopped(&self, cpu: usize, stopped: bool) {
        self.lists.note_tick_stopped(cpu, stopped);
    }

    /// Whether this CPU has callbacks, so that it must keep its tick.
    pub(crate) fn needs_tick(&self) -> bool {
        self.lists.needs_tick()
    }
}
