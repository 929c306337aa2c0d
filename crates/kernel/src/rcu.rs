//! Tree RCU of 2.6.39 and 3.0: before a writer frees memory that readers may still access, it waits
//! for a *grace period*, in which every CPU has passed a *quiescent state*.
//!
//! [`Sched::call_rcu`] puts a callback on its CPU's list. A grace period begins when a CPU has
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
//! lose its CPU in them; of the flavour `rcu_bh`, sections with bottom halves disabled. No path of
//! the jobs queues callbacks of that one or waits for an expedited grace period. Source:
//! `kernel/rcutree.c` and `kernel/rcutree_plugin.h` of 2.6.39 and 3.0. *Not modelled:* hotplug,
//! a thread that yields after ten rounds of work.

mod boost;
#[cfg(test)]
mod boost_scenes;
mod files;
pub(crate) mod rules;
#[cfg(test)]
mod scenes;
pub(crate) mod state;
mod threads;
mod wait;

pub use rules::{Placement, RcuRules, ThreadPolicy};

use crate::sched::scheduler::{Sched, Work};
use crate::sched::task::Policy;
use crate::softirq::Vector;
use convoy_machine::Here;
use state::{Lists, Rcu};
use std::rc::Rc;

pub use convoy_sync::rcu::RcuStats;

/// Real-time priority of the threads (`RCU_KTHREAD_PRIO`).
const THREAD_PRIORITY: u8 = 1;

impl Sched {
    /// Runs `callback` on this CPU, with bottom halves disabled, after a grace period: when every
    /// section of a reader that runs now has ended. In a kernel without RCU it runs immediately.
    pub fn call_rcu(&self, callback: Work) {
        let Some(rcu) = &self.rcu else { return callback(self) };
        self.call_flavour(rcu.main(), callback);
    }

    /// The same after every section without preemption, also where readers may be preempted.
    pub fn call_rcu_sched(&self, callback: Work) {
        let Some(rcu) = &self.rcu else { return callback(self) };
        self.call_flavour(&rcu.lists, callback);
    }

    /// The same for readers that disable bottom halves.
    pub fn call_rcu_bh(&self, callback: Work) {
        let Some(rcu) = &self.rcu else { return callback(self) };
        self.call_flavour(rcu.bh(), callback);
    }

    fn call_flavour(&self, lists: &Lists<Work>, callback: Work) {
        for late in lists.call(callback, self.rq.jiffies()) {
            self.rq.resched(late);
        }
    }

    /// A handler of a software interrupt has ended: a quiescent state of `rcu_bh`.
    pub(crate) fn note_bottom_half(&self) {
        self.rcu.iter().for_each(Rcu::note_bottom_half);
    }

    /// Frees an object that readers may still access after a grace period; in a kernel without RCU
    /// its price is part of the path.
    pub(crate) fn free_rcu(&self) {
        if self.rcu.is_some() {
            self.call_rcu(Box::new(|_| ()));
        }
    }

    /// Counters so far, of the flavour that paths of the kernel use.
    #[must_use]
    pub fn rcu_stats(&self) -> RcuStats {
        self.rcu.as_ref().map(|rcu| rcu.main().stats()).unwrap_or_default()
    }

    /// Opens the softirq and makes the threads; before the machine runs.
    pub(crate) fn start_rcu(&self) {
        let Some(rcu) = &self.rcu else { return };
        if rcu.placement != Placement::Thread {
            self.open_softirq(Vector::Rcu, Rc::new(Self::rcu_softirq));
        }
        self.start_boosts(rcu);
        if rcu.placement == Placement::Softirq {
            return;
        }
        for (cpu, place) in rcu.threads.iter().enumerate() {
            let policy = match rcu.thread_policy {
                ThreadPolicy::Fifo => Policy::Fifo { priority: THREAD_PRIORITY },
                ThreadPolicy::Other => Policy::Normal { nice: 0 },
            };
            let name = format!("rcuc{cpu}");
            let body = Box::new(Self::rcu_thread);
            let thread = self.kthread_create(&name, Some(cpu), policy, body);
            place.task.replace(Some(thread.expect("room for the RCU threads")));
        }
    }

    /// At the tick, in the timer interrupt (`rcu_check_callbacks`).
    pub(crate) fn tick_rcu(&self, user: bool) {
        let Some(rcu) = &self.rcu else { return };
        let jiffies = self.rq.jiffies();
        let idle = self.rq.this().is_idle();
        rcu.note_tick(user || idle, &self.rq.current().reader);
        self.log_stalls(rcu);
        if rcu.flavours().any(|(_, lists)| lists.is_late(jiffies + 1)) {
            self.rq.this().need_resched.set(true);
        }
        if rcu.flavours().any(|(_, lists)| lists.pending(jiffies)) {
            self.invoke_rcu_core(rcu);
        }
    }

    fn invoke_rcu_core(&self, rcu: &Rcu<Work>) {
        match rcu.placement {
            Placement::Thread => self.wake_rcu_thread(rcu),
            _ => self.raise_softirq(Vector::Rcu),
        }
    }

    fn wake_rcu_thread(&self, rcu: &Rcu<Work>) {
        rcu.thread().work.give();
        let task = rcu.thread().task.borrow().clone();
        if self.kthread_wake(&task.expect("made at the start")) {
            rcu.main().count(|stats| stats.thread_wakeups += 1);
        }
    }

    /// The softirq RCU.
    fn rcu_softirq(&self) {
        let rcu = self.rcu.as_ref().expect("opened with it");
        self.rcu_core(rcu);
        if rcu.done() == 0 {
            return;
        }
        match rcu.placement {
            Placement::CallbacksInThread => self.wake_rcu_thread(rcu),
            _ => self.rcu_batch(rcu),
        }
    }

    /// The body of `rcucN`.
    fn rcu_thread(&self) {
        let rcu = self.rcu.as_ref().expect("made with it");
        loop {
            self.sleep_unless(|| rcu.thread().work.is_given());
            Self::local_bh_disable();
            rcu.thread().work.round(|| {
                if rcu.placement == Placement::Thread {
                    self.rcu_core(rcu);
                }
                if rcu.done() == 0 {
                    rcu.main().count(|stats| stats.idle_rounds += 1);
                }
                self.rcu_batch(rcu);
            });
            self.local_bh_enable();
        }
    }

    /// Invokes the callbacks of completed grace periods (`rcu_do_batch`).
    fn rcu_batch(&self, rcu: &Rcu<Work>) {
        for (_, lists) in rcu.flavours() {
            self.flavour_batch(rcu, lists);
        }
    }

    fn flavour_batch(&self, rcu: &Rcu<Work>, lists: &Lists<Work>) {
        for _ in 0..lists.batch() {
            let Some(callback) = lists.take_done() else { return };
            Here::pass(rcu.callback);
            callback(self);
        }
        lists.end_batch();
        if lists.done() > 0 {
            self.invoke_rcu_core(rcu);
        }
    }

    /// Core processing of this CPU (`__rcu_process_callbacks`).
    fn rcu_core(&self, rcu: &Rcu<Work>) {
        for (_, lists) in rcu.flavours() {
            Here::pass(rcu.core);
            for late in lists.core(self.rq.jiffies()) {
                self.rq.resched(late);
            }
        }
        self.wake_boosts(rcu);
    }
}
