//! Readers that may be preempted, and those that lend them a priority: `rcubN` of 3.0.
//!
//! Such a thread of each node is `SCHED_FIFO`. It boosts a reader that has delayed a grace period
//! for too long to its own priority, as a waiter of a mutex with priority inheritance boosts the
//! owner (`rt_mutex_init_proxy_locked`, `rt_mutex_setprio`), and sleeps until the reader's critical
//! section ends. A reader does not sleep in its critical section, so the boost does not have to be
//! passed on.

use super::state::Rcu;
use super::threads::Leaf;
use crate::sched::scheduler::{Sched, Work};
use crate::sched::task::Policy;
use convoy_machine::{Here, Smp};
use convoy_sync::rcu::Reader;
use convoy_sync::{Platform as _, RawLock as _, TicketLock};
use core::cell::Cell;

/// Real-time priority of the threads that lend theirs (`CONFIG_RCU_BOOST_PRIO`).
const BOOST_PRIORITY: u8 = 1;

impl Sched {
    /// Makes the threads, before the machine runs.
    pub(super) fn start_boosts(&self, rcu: &Rcu<Work>) {
        let (Some(boosts), Some(lists)) = (&rcu.boosts, &rcu.preempt) else { return };
        let leaf = |number| {
            let policy = Policy::Fifo { priority: BOOST_PRIORITY };
            let body = Box::new(move |sched: &Self| sched.boost_thread(number));
            let thread = self.kthread_create(&format!("rcub{number}"), None, policy, body);
            let lock = Here::place(TicketLock::default());
            Here::name(&*lock, "rt_mutex->wait_lock");
            let thread = thread.expect("room for the RCU threads");
            Leaf { thread, lock, before: Cell::new(None) }
        };
        let leaves = (0..lists.leaves()).map(leaf).collect();
        assert!(boosts.leaves.set(leaves).is_ok(), "a machine starts once");
    }

    /// Wakes the threads of leaves with readers that have delayed a grace period for too long.
    pub(super) fn wake_boosts(&self, rcu: &Rcu<Work>) {
        let (Some(boosts), Some(lists)) = (&rcu.boosts, &rcu.preempt) else { return };
        let mut due = lists.take_boosts();
        while due != 0 {
            self.kthread_wake(&boosts.leaf(due.trailing_zeros() as usize).thread);
            due &= due - 1;
        }
    }

    /// The body of `rcubN` (`rcu_boost_kthread`).
    fn boost_thread(&self, number: usize) {
        let rcu = self.rcu.as_ref().expect("made with it");
        let lists = rcu.preempt.as_ref().expect("made with it");
        let leaf = rcu.boosts.as_ref().expect("made with it").leaf(number);
        loop {
            self.sleep_unless(|| lists.is_boosting(number));
            while let Some(reader) = lists.next_boost(number) {
                self.lend(leaf, &reader);
            }
        }
    }

    /// Lends the priority to `reader`, until its section is over.
    fn lend(&self, leaf: &Leaf, reader: &Reader) {
        leaf.lock.lock_irqsave();
        let task = self.rq.tcb(reader.task());
        if reader.is_boosted() && task.rt_priority() < Some(BOOST_PRIORITY) {
            leaf.before.set(Some(task.policy.get()));
            self.set_policy(task.id, Policy::Fifo { priority: BOOST_PRIORITY });
        }
        leaf.lock.unlock();
        Smp::irq_restore(());
        while reader.is_boosted() {
            self.sleep_unless(|| !reader.is_boosted());
        }
    }

    /// Ends the boost of `reader`, the running task, at the end of its critical section
    /// (`rt_mutex_unlock`).
    fn give_back(&self, leaf: &Leaf, reader: &Reader) {
        leaf.lock.lock_irqsave();
        reader.end_boost();
        if let Some(policy) = leaf.before.take() {
            self.set_policy(reader.task(), policy);
        }
        leaf.lock.unlock();
        Smp::irq_restore(());
        self.kthread_wake(&leaf.thread);
    }

    /// A section of a reader begins (`rcu_read_lock`): without preemption, or of the running task.
    pub fn rcu_read_lock(&self) {
        if self.has_preemptible_readers() {
            self.rq.current().reader.enter();
        } else {
            Smp::preempt_disable();
        }
    }

    /// It ends.
    pub fn rcu_read_unlock(&self) {
        let Some((rcu, lists)) =
            self.rcu.as_ref().and_then(|rcu| Some((rcu, rcu.preempt.as_ref()?)))
        else {
            return Smp::preempt_enable();
        };
        let me = self.rq.current();
        if let Some(number) = lists.leave(&me.reader, self.rq.jiffies())
            && let Some(boosts) = &rcu.boosts
        {
            self.give_back(boosts.leaf(number), &me.reader);
        }
    }

    /// A walk begins that nothing but RCU protects. Without preemptible readers it needs no word:
    /// no kernel that walks so preempts in the kernel.
    pub(crate) fn walk_begins(&self) {
        if self.has_preemptible_readers() {
            self.rcu_read_lock();
        }
    }

    /// It ends.
    pub(crate) fn walk_ends(&self) {
        if self.has_preemptible_readers() {
            self.rcu_read_unlock();
        }
    }

    fn has_preemptible_readers(&self) -> bool {
        self.rcu.as_ref().is_some_and(|rcu| rcu.preempt.is_some())
    }
}
