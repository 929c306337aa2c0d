//! State of RCU.

use super::rules::{Placement, RcuRules, ThreadPolicy};
use super::threads::Boosts;
use crate::irq::Agendas;
use crate::sched::kthread::state::{Kthread, Kthreads};
use crate::sched::queue::RunQueues;
use crate::sched::work::Work;
use crate::softirq::state::Softirqs;
use convoy_machine::{Here, Smp, ps};
use convoy_sync::rcu::{self, FIRST, Reader};
use core::cell::{Cell, RefCell};
use std::rc::Rc;

/// The lists and grace periods of one flavour.
pub(super) type Lists<S> = rcu::Rcu<Smp, Work<S>>;

/// RCU of one machine: the flavours of `convoy-sync`, and where their work runs.
pub struct Rcu<S> {
    pub(super) rq: Rc<RunQueues>,
    pub(super) kthreads: Rc<Kthreads<S>>,
    pub(super) softirqs: Rc<Softirqs<S>>,
    pub(super) agendas: Rc<Agendas<S>>,
    pub(super) placement: Placement,
    pub(super) thread_policy: ThreadPolicy,
    pub(super) core: u64,
    pub(super) callback: u64,
    /// `rcu_sched`: readers forbid preemption.
    pub(super) lists: Lists<S>,
    /// `rcu_preempt`: readers may be preempted.
    pub(super) preempt: Option<Lists<S>>,
    /// Boosts of readers that delay its grace periods, if the kernel has them.
    pub(super) boosts: Option<Boosts>,
    pub(super) threads: Vec<Thread>,
}

/// The thread of one CPU, where there is one, and whether it has work.
#[derive(Default)]
pub(super) struct Thread {
    pub(super) task: RefCell<Option<Rc<Kthread>>>,
    pub(super) work: rcu::Work,
    /// How often it has yielded.
    pub(super) turn: Cell<u64>,
}

fn lists<S>(cpus: usize) -> Lists<S> {
    let lists = Lists::new(cpus, FIRST);
    lists.locks(Here::name);
    lists
}

impl<S> Rcu<S> {
    pub(crate) fn new(
        rules: &RcuRules,
        rq: Rc<RunQueues>,
        kthreads: Rc<Kthreads<S>>,
        softirqs: Rc<Softirqs<S>>,
        agendas: Rc<Agendas<S>>,
    ) -> Self {
        let cpus = rq.queues.len();
        let preempt = rules.preemptible.then(|| lists(cpus));
        let boosts = preempt.as_ref().zip(rules.boost_ms).map(|(lists, ms)| {
            lists.boost_after(rq.ticks_of_ms(ms));
            Boosts::default()
        });
        Self {
            preempt,
            boosts,
            placement: rules.placement,
            thread_policy: rules.thread,
            core: ps(rules.core_ns),
            callback: ps(rules.callback_ns),
            lists: lists(cpus),
            threads: (0..cpus).map(|_| Thread::default()).collect(),
            rq,
            kthreads,
            softirqs,
            agendas,
        }
    }

    /// The flavours that the kernel has.
    pub(super) fn flavours(&self) -> impl Iterator<Item = &Lists<S>> {
        [&self.lists].into_iter().chain(&self.preempt)
    }

    /// The flavour that paths of the kernel use.
    pub(super) fn main(&self) -> &Lists<S> {
        self.preempt.as_ref().unwrap_or(&self.lists)
    }

    /// The thread of this CPU.
    pub(super) fn thread(&self) -> &Thread {
        &self.threads[Here::cpu()]
    }

    /// Number of this CPU's callbacks with completed grace periods.
    pub(super) fn done(&self) -> usize {
        self.flavours().map(Lists::done).sum()
    }

    /// `reader` leaves this CPU: a quiescent state of `rcu_sched`, and of the other flavour if it
    /// is in no section.
    pub(crate) fn note_switch(&self, reader: &Rc<Reader>) {
        self.lists.note_quiescent_state();
        if let Some(lists) = &self.preempt {
            lists.note_switch(reader);
        }
    }

    /// A tick of this CPU, which found it `outside` the kernel or idle, with that task on it
    /// (`rcu_check_callbacks`).
    pub(super) fn note_tick(&self, outside: bool, reader: &Reader) {
        if let Some(lists) = &self.preempt {
            lists.note_tick(reader);
        }
        if outside {
            self.lists.note_quiescent_state();
        }
    }

    /// `cpu` stops its tick, or starts it again.
    pub(crate) fn note_tick_stopped(&self, cpu: usize, stopped: bool) {
        self.flavours().for_each(|lists| lists.note_tick_stopped(cpu, stopped));
    }

    /// Whether this CPU has callbacks, so that it must keep its tick.
    pub(crate) fn needs_tick(&self) -> bool {
        self.flavours().any(Lists::needs_tick)
    }
}
