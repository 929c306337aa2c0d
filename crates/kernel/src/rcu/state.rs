//! State of RCU.

use super::rules::{Placement, RcuRules, ThreadPolicy};
use super::threads::Boosts;
use crate::irq::Agendas;
use crate::sched::kthread::state::{Kthread, Kthreads};
use crate::sched::queue::RunQueues;
use crate::sched::work::Work;
use crate::softirq::state::{Softirqs, context};
use convoy_machine::{Here, Smp, ps};
use convoy_sync::rcu::{self, FIRST, Reader, Stall};
use core::cell::{Cell, OnceCell, RefCell};
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
    pub(super) stall_s: u64,
    /// `rcu_sched`: readers forbid preemption.
    pub(super) lists: Lists<S>,
    /// `rcu_bh`: readers disable bottom halves. Made at its first callback; until then it has
    /// nothing to do, and no price.
    bh: OnceCell<Lists<S>>,
    /// `rcu_preempt`: readers may be preempted.
    pub(super) preempt: Option<Lists<S>>,
    /// Boosts of readers that delay its grace periods, if the kernel has them.
    pub(super) boosts: Option<Boosts>,
    pub(super) threads: Vec<Thread>,
    pub(super) stalls: RefCell<Vec<String>>,
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
            stall_s: rules.stall_s,
            lists: lists(cpus),
            bh: OnceCell::new(),
            threads: (0..cpus).map(|_| Thread::default()).collect(),
            stalls: RefCell::default(),
            rq,
            kthreads,
            softirqs,
            agendas,
        }
    }

    /// The flavours that have been used, with the names that the kernel prints.
    pub(super) fn flavours(&self) -> impl Iterator<Item = (&'static str, &Lists<S>)> {
        let bh = self.bh.get().map(|lists| ("rcu_bh", lists));
        let preempt = self.preempt.as_ref().map(|lists| ("rcu_preempt", lists));
        [("rcu_sched", &self.lists)].into_iter().chain(bh).chain(preempt)
    }

    /// The flavour that paths of the kernel use.
    pub(super) fn main(&self) -> &Lists<S> {
        self.preempt.as_ref().unwrap_or(&self.lists)
    }

    /// The flavour with readers that disable bottom halves.
    pub(super) fn bh(&self) -> &Lists<S> {
        self.bh.get_or_init(|| {
            let bh = lists(self.threads.len());
            for cpu in 0..self.threads.len() {
                bh.note_tick_stopped(cpu, self.lists.is_tick_stopped(cpu));
            }
            bh
        })
    }

    /// The thread of this CPU.
    pub(super) fn thread(&self) -> &Thread {
        &self.threads[Here::cpu()]
    }

    /// Number of this CPU's callbacks with completed grace periods.
    pub(super) fn done(&self) -> usize {
        self.flavours().map(|(_, lists)| lists.done()).sum()
    }

    /// `reader` leaves this CPU: a quiescent state of `rcu_sched`, and of the other flavour if it
    /// is in no section.
    pub(crate) fn note_switch(&self, reader: &Rc<Reader>) {
        self.lists.note_quiescent_state();
        if let Some(lists) = &self.preempt {
            lists.note_switch(reader);
        }
    }

    /// No bottom half runs on this CPU, and none is disabled.
    pub(crate) fn note_bottom_half(&self) {
        if let Some(bh) = self.bh.get() {
            bh.note_quiescent_state();
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
        if outside || !context().bh_off {
            self.note_bottom_half();
        }
    }

    /// `cpu` stops its tick, or starts it again.
    pub(crate) fn note_tick_stopped(&self, cpu: usize, stopped: bool) {
        self.flavours().for_each(|(_, lists)| lists.note_tick_stopped(cpu, stopped));
    }

    /// Whether this CPU has callbacks, so that it must keep its tick.
    pub(crate) fn needs_tick(&self) -> bool {
        self.flavours().any(|(_, lists)| lists.needs_tick())
    }

    /// The grace periods that have just been found to wait for too long, at a tick of this CPU.
    pub(super) fn stalled(&self) -> Vec<(&'static str, Stall)> {
        let (jiffies, hz) = (self.rq.jiffies(), u64::from(self.rq.hz));
        // After the first time, three times as long and 30 s more (`RCU_STALL_RECHECK`).
        let (limit, again) = (self.stall_s * hz, (3 * self.stall_s + 30) * hz);
        let look =
            |(name, lists): (_, &Lists<S>)| Some((name, lists.stall(jiffies, limit, again)?));
        self.flavours().filter_map(look).collect()
    }
}
