//! Tree RCU of 2.6.39 and 3.0: before a writer frees memory that readers may still access, it waits
//! for a *grace period*, in which every CPU has passed a *quiescent state*.
//!
//! [`Rcu::call`] puts a callback on its CPU's list. A grace period begins when a CPU has
//! callbacks that wait for one and none is on its way: the tree's nodes then owe one bit for each
//! CPU. A CPU notes a quiescent state at a context switch and at a tick that finds it in user mode
//! or idle; later, in *core processing*, it reports it: it clears its bit in its leaf, and the CPU
//! that clears the last bit of a node continues in the parent, holding one node's lock at a time.
//! The grace period ends at the root, and the same CPU begins the next one if it needs it.
//!
//! Each tick asks whether its CPU has core processing to do. Where that and the callbacks run is
//! the preset's [`Placement`]; the regression of 3.0-rc is in that choice alone.
//!
//! Readers are sections without preemption, or, with `preemptible`, sections of a task that may
//! lose its CPU in them. Source: `kernel/rcutree.c` and `kernel/rcutree_plugin.h` of 2.6.39 and
//! 3.0. *Not modelled:* hotplug; the flavour `rcu_bh` and calls that wait (`synchronize_rcu`, its
//! expedited form, `rcu_barrier`), which no job uses; reports of grace periods that do not end.

mod boost;
#[cfg(test)]
mod boost_scenes;
pub(crate) mod rules;
#[cfg(test)]
mod scenes;
pub(crate) mod state;
mod threads;

pub use rules::{Placement, RcuRules, ThreadPolicy};
pub use state::Rcu;

use crate::sched::scheduler::Sched;
use crate::sched::task::Policy;
use crate::sched::work::Work;
use crate::softirq::rules::Vector;
use crate::softirq::state::local_bh_disable;
use convoy_machine::Here;
use state::Lists;
use std::rc::Rc;

pub use convoy_sync::rcu::RcuStats;

/// Real-time priority of the threads (`RCU_KTHREAD_PRIO`).
const THREAD_PRIORITY: u8 = 1;
/// After more rounds than this without sleep a thread yields, for at most so many ticks.
const ROUNDS_MOST: u32 = 10;
const YIELD_TICKS: u64 = 2;

impl Rcu<Sched> {
    /// Runs `callback` on this CPU, with bottom halves disabled, after a grace period: when every
    /// section of a reader that runs now has ended.
    pub fn call(&self, callback: Work<Sched>) {
        for late in self.main().call(callback, self.rq.jiffies()) {
            self.rq.resched(late);
        }
    }

    /// Frees an object that readers may still access, after a grace period.
    pub(crate) fn free(&self) {
        self.call(Box::new(|_| ()));
    }

    /// Counters so far, of the flavour that paths of the kernel use.
    #[must_use]
    pub fn stats(&self) -> RcuStats {
        self.main().stats()
    }

    /// Opens the softirq and makes the threads; before the machine runs.
    pub(crate) fn start(&self) {
        if self.placement != Placement::Thread {
            self.softirqs.open(Vector::Rcu, Rc::new(|sched: &Sched| sched.rcu().softirq(sched)));
        }
        self.start_boosts();
        if self.placement == Placement::Softirq {
            return;
        }
        for (cpu, place) in self.threads.iter().enumerate() {
            let policy = match self.thread_policy {
                ThreadPolicy::Fifo => Policy::Fifo { priority: THREAD_PRIORITY },
                ThreadPolicy::Other => Policy::Normal { nice: 0 },
            };
            let name = ("rcuc", Some(cpu as u32));
            let body = Box::new(|sched: &Sched| sched.rcu().run_thread(sched));
            let thread = self.kthreads.create(name, Some(cpu), policy, body);
            place.task.replace(Some(thread.expect("room for the RCU threads")));
        }
    }

    /// At the tick, in the timer interrupt (`rcu_check_callbacks`).
    pub(crate) fn tick(&self, user: bool) {
        let jiffies = self.rq.jiffies();
        let idle = self.rq.this().is_idle();
        self.note_tick(user || idle, &self.rq.current().reader);
        if self.flavours().any(|lists| lists.is_late(jiffies + 1)) {
            self.rq.this().need_resched.set(true);
        }
        if self.flavours().any(|lists| lists.pending(jiffies)) {
            self.invoke_core();
        }
    }

    fn invoke_core(&self) {
        match self.placement {
            Placement::Thread => self.wake_thread(),
            _ => self.softirqs.raise(Vector::Rcu),
        }
    }

    fn wake_thread(&self) {
        self.thread().work.give();
        let task = self.thread().task.borrow().clone();
        if self.kthreads.wake(&task.expect("made at the start")) {
            self.main().count(|stats| stats.thread_wakeups += 1);
        }
    }

    /// The softirq RCU.
    fn softirq(&self, sched: &Sched) {
        self.core();
        if self.done() == 0 {
            return;
        }
        match self.placement {
            Placement::CallbacksInThread => self.wake_thread(),
            _ => self.batch(sched),
        }
    }

    /// The body of `rcucN`.
    fn run_thread(&self, sched: &Sched) {
        let mut rounds = 0;
        loop {
            sched.sleep_unless(|| self.thread().work.is_given());
            local_bh_disable();
            self.thread().work.round(|| {
                if self.placement == Placement::Thread {
                    self.core();
                }
                if self.done() == 0 {
                    self.main().count(|stats| stats.idle_rounds += 1);
                }
                self.batch(sched);
            });
            self.softirqs.local_bh_enable(sched);
            rounds = if self.thread().work.is_given() { rounds + 1 } else { 0 };
            if rounds > ROUNDS_MOST && self.thread_policy == ThreadPolicy::Fifo {
                self.yield_thread(sched);
                rounds = 0;
            }
        }
    }

    /// `rcu_yield`: `rcucN` lets ordinary tasks go first, until none of its CPU wants to run or for
    /// two ticks. *Simplified:* the timer gives the priority back itself, without the thread of
    /// the node.
    fn yield_thread(&self, sched: &Sched) {
        let (me, turn) = (self.rq.current().id, &self.thread().turn);
        let this = turn.get();
        self.main().count(|stats| stats.yields += 1);
        let fifo = Policy::Fifo { priority: THREAD_PRIORITY };
        let cpu = Here::cpu();
        let until = (self.rq.jiffies() + YIELD_TICKS) * self.rq.tick_ps / 1000;
        let restore = move |sched: &Sched| {
            if sched.rcu().threads[cpu].turn.get() == this {
                sched.rcu().rq.set_policy(me, fifo);
            }
        };
        self.agendas.timer_at(until, Box::new(restore));
        self.rq.set_policy(me, Policy::Normal { nice: 19 });
        sched.schedule();
        turn.set(this + 1);
        self.rq.set_policy(me, fifo);
    }

    /// Invokes the callbacks of completed grace periods (`rcu_do_batch`).
    fn batch(&self, sched: &Sched) {
        for lists in self.flavours() {
            self.flavour_batch(sched, lists);
        }
    }

    fn flavour_batch(&self, sched: &Sched, lists: &Lists<Sched>) {
        for _ in 0..lists.batch() {
            let Some(callback) = lists.take_done() else { return };
            Here::pass(self.callback);
            callback(sched);
        }
        lists.end_batch();
        if lists.done() > 0 {
            self.invoke_core();
        }
    }

    /// Core processing of this CPU (`__rcu_process_callbacks`).
    fn core(&self) {
        for lists in self.flavours() {
            Here::pass(self.core);
            for late in lists.core(self.rq.jiffies()) {
                self.rq.resched(late);
            }
        }
        self.wake_boosts();
    }
}
