//! Readers that may be preempted, and those that lend them a priority: `rcubN` of 3.0.
//!
//! Such a thread of each node is `SCHED_FIFO`. It boosts a reader that has delayed a grace period
//! for too long to its own priority, as a waiter of a mutex with priority inheritance boosts the
//! owner (`rt_mutex_init_proxy_locked`, `rt_mutex_setprio`), and sleeps until the reader's critical
//! section ends. A reader does not sleep in its critical section, so the boost does not have to be
//! passed on.

use super::state::Rcu;
use super::threads::Leaf;
use crate::sched::scheduler::Sched;
use crate::sched::task::Policy;
use convoy_machine::{Here, Smp};
use convoy_sync::rcu::Reader;
use convoy_sync::{Platform as _, RawLock as _, TicketLock};
use core::cell::Cell;

/// Real-time priority of the threads that lend theirs (`CONFIG_RCU_BOOST_PRIO`).
const BOOST_PRIORITY: u8 = 1;

impl Rcu<Sched> {
    /// Makes the threads, before the machine runs.
    pub(super) fn start_boosts(&self) {
        let (Some(boosts), Some(lists)) = (&self.boosts, &self.preempt) else { return };
        let leaf = |number| {
            let policy = Policy::Fifo { priority: BOOST_PRIORITY };
            let body = Box::new(move |sched: &Sched| sched.rcu().run_boosts(sched, number));
            let thread = self.kthreads.create(("rcub", Some(number as u32)), None, policy, body);
            let lock = Here::place(TicketLock::default());
            Here::name(&*lock, "rt_mutex->wait_lock");
            let thread = thread.expect("room for the RCU threads");
            Leaf { thread, lock, before: Cell::new(None) }
        };
        let leaves = (0..lists.leaves()).map(leaf).collect();
        assert!(boosts.leaves.set(leaves).is_ok(), "a machine starts once");
    }

    /// Wakes the threads of leaves with readers that have delayed a grace period for too long.
    pub(super) fn wake_boosts(&self) {
        let (Some(boosts), Some(lists)) = (&self.boosts, &self.preempt) else { return };
        let mut due = lists.take_boosts();
        while due != 0 {
            self.kthreads.wake(&boosts.leaf(due.trailing_zeros() as usize).thread);
            due &= due - 1;
        }
    }

    /// The body of `rcubN` (`rcu_boost_kthread`).
    fn run_boosts(&self, sched: &Sched, number: usize) {
        let lists = self.preempt.as_ref().expect("made with it");
        let leaf = self.boosts.as_ref().expect("made with it").leaf(number);
        loop {
            sched.sleep_unless(|| lists.is_boosting(number));
            while let Some(reader) = lists.next_boost(number) {
                self.lend(sched, leaf, &reader);
            }
        }
    }

    /// Lends the priority to `reader`, until its section is over.
    fn lend(&self, sched: &Sched, leaf: &Leaf, reader: &Reader) {
        leaf.lock.lock_irqsave();
        let task = self.rq.tcb(reader.task());
        if reader.is_boosted() && task.rt_priority() < Some(BOOST_PRIORITY) {
            leaf.before.set(Some(task.policy.get()));
            self.rq.set_policy(task.id, Policy::Fifo { priority: BOOST_PRIORITY });
        }
        leaf.lock.unlock();
        Smp::irq_restore(());
        while reader.is_boosted() {
            sched.sleep_unless(|| !reader.is_boosted());
        }
    }

    /// Ends the boost of `reader`, the running task, at the end of its critical section
    /// (`rt_mutex_unlock`).
    fn give_back(&self, leaf: &Leaf, reader: &Reader) {
        leaf.lock.lock_irqsave();
        reader.end_boost();
        if let Some(policy) = leaf.before.take() {
            self.rq.set_policy(reader.task(), policy);
        }
        leaf.lock.unlock();
        Smp::irq_restore(());
        self.kthreads.wake(&leaf.thread);
    }

    /// A section of a reader begins (`rcu_read_lock`): without preemption, or of the running task.
    pub fn read_lock(&self) {
        if self.preempt.is_some() {
            self.rq.current().reader.enter();
        } else {
            Smp::preempt_disable();
        }
    }

    /// It ends.
    pub fn read_unlock(&self) {
        let Some(lists) = &self.preempt else { return Smp::preempt_enable() };
        let me = self.rq.current();
        if let Some(number) = lists.leave(&me.reader, self.rq.jiffies())
            && let Some(boosts) = &self.boosts
        {
            self.give_back(boosts.leaf(number), &me.reader);
        }
    }

    /// Runs `section` as a reader.
    pub fn read<T>(&self, section: impl FnOnce() -> T) -> T {
        self.read_lock();
        let result = section();
        self.read_unlock();
        result
    }

    /// A walk begins that nothing but RCU protects. Without preemptible readers it needs no word:
    /// no kernel that walks so preempts in the kernel.
    pub(crate) fn walk_begins(&self) {
        if self.preempt.is_some() {
            self.read_lock();
        }
    }

    /// It ends.
    pub(crate) fn walk_ends(&self) {
        if self.preempt.is_some() {
            self.read_unlock();
        }
    }
}
