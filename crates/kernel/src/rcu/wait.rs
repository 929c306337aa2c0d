//! Synchronous waits for grace periods and callbacks.

use super::threads::{Count, Stopper, Stoppers};
use crate::sched::scheduler::{Sched, Work};
use crate::sched::task::Policy;
use convoy_machine::Here;
use convoy_sync::rcu::{Barrier, Expedited};
use core::cell::{Cell, RefCell};
use std::rc::Rc;

/// Priority of the threads that stop CPUs, the highest.
const STOPPER_PRIORITY: u8 = 99;
fn count() -> Count {
    Rc::new(Here::place(Barrier::default()))
}

impl Sched {
    /// Waits until every section without preemption has ended that runs now.
    pub fn synchronize_sched(&self) {
        if self.rcu.is_none() {
            return;
        }
        let done = count();
        let inner = Rc::clone(&done);
        self.call_rcu_sched(Box::new(move |_| inner.leave()));
        done.wait();
    }

    /// The same without delay: every CPU is made to run a thread of the highest priority. In a
    /// kernel without RCU it does nothing; without room for the threads it waits as the other one.
    pub fn synchronize_sched_expedited(&self) {
        let Some(rcu) = &self.rcu else { return };
        let Some(stoppers) = self.stoppers(rcu) else { return self.synchronize_sched() };
        if !stoppers.expedited.wait(|| self.stop_cpus(stoppers), |number| stoppers.pause(number)) {
            self.synchronize_sched();
        }
    }

    /// Waits until every section has ended that has begun by now (`synchronize_rcu`).
    pub fn synchronize_rcu(&self) {
        if self.rcu.is_none() {
            return;
        }
        let done = count();
        let inner = Rc::clone(&done);
        self.call_rcu(Box::new(move |_| inner.leave()));
        done.wait();
    }

    /// The same without waiting for ticks (`synchronize_rcu_expedited`). If readers may be
    /// preempted, every CPU is made to switch, and then readers that were preempted in a critical
    /// section are waited for; they are boosted immediately if the kernel has boosting.
    pub fn synchronize_rcu_expedited(&self) {
        let Some((rcu, lists)) =
            self.rcu.as_ref().and_then(|rcu| Some((rcu, rcu.preempt.as_ref()?)))
        else {
            return self.synchronize_sched_expedited();
        };
        let Some(stoppers) = self.stoppers(rcu) else { return self.synchronize_rcu() };
        let stop = || {
            if stoppers.busy_readers.replace(true) {
                return false;
            }
            self.synchronize_sched_expedited();
            lists.expedite();
            self.wake_boosts(rcu);
            lists.wait_expedited();
            stoppers.busy_readers.set(false);
            true
        };
        if !stoppers.readers.wait(stop, |number| stoppers.pause(number)) {
            self.synchronize_rcu();
        }
    }

    /// The threads that stop CPUs, made when they are first wanted; none without room for them.
    fn stoppers<'a>(&self, rcu: &'a super::state::Rcu<Work>) -> Option<&'a Stoppers> {
        if rcu.stoppers.get().is_none() {
            let stoppers = self.new_stoppers()?;
            let _somebody_was_first = rcu.stoppers.set(stoppers);
        }
        rcu.stoppers.get()
    }

    /// Waits until all callbacks are through that any CPU has queued before (`rcu_barrier`).
    pub fn rcu_barrier(&self) {
        if self.rcu.is_none() {
            return;
        }
        let done = count();
        let at = Here::now_ps() + self.rq.costs.ipi;
        for cpu in 0..self.rq.queues.len() {
            done.join();
            let inner = Rc::clone(&done);
            let callback = Box::new(move |_: &Self| inner.leave());
            self.interrupt_at(cpu, at, Box::new(move |sched| sched.call_rcu(callback)));
            Here::pass(self.rq.costs.send);
        }
        done.leave();
        done.wait();
    }

    fn new_stoppers(&self) -> Option<Stoppers> {
        let stopper = |cpu| {
            let name = format!("migration/{cpu}");
            let policy = Policy::Fifo { priority: STOPPER_PRIORITY };
            let body = Box::new(move |sched: &Self| sched.stopper(cpu));
            let thread = self.kthread_create(&name, Some(cpu), policy, body)?;
            Some(Rc::new(Stopper { thread, wanted: RefCell::default() }))
        };
        let by_cpu = (0..self.rq.queues.len()).map(stopper).collect::<Option<_>>()?;
        Some(Stoppers {
            expedited: Here::place(Expedited::default()),
            busy: Cell::new(false),
            readers: Here::place(Expedited::default()),
            busy_readers: Cell::new(false),
            by_cpu,
        })
    }

    /// The body of `migration/N`: that it runs is all it does.
    fn stopper(&self, cpu: usize) {
        let stoppers = self.rcu.as_ref().and_then(|rcu| rcu.stoppers.get()).expect("woken by them");
        let me = Rc::clone(&stoppers.by_cpu[cpu]);
        loop {
            self.sleep_unless(|| me.wanted.borrow().is_some());
            let wanted = me.wanted.take();
            wanted.inspect(|count| count.leave());
        }
    }

    /// Makes every CPU run its stopper; returns false if another task is doing so.
    fn stop_cpus(&self, stoppers: &Stoppers) -> bool {
        if stoppers.busy.replace(true) {
            return false;
        }
        let done = count();
        for stopper in &stoppers.by_cpu {
            done.join();
            stopper.wanted.replace(Some(Rc::clone(&done)));
            self.kthread_wake(&stopper.thread);
        }
        done.leave();
        done.wait();
        stoppers.busy.set(false);
        true
    }

    /// Runs `section` as a reader; `name` appears in reports of stalls.
    pub fn rcu_read<T>(&self, name: &'static str, section: impl FnOnce() -> T) -> T {
        let before = self.note_section(Some(name));
        self.rcu_read_lock();
        let result = section();
        self.rcu_read_unlock();
        self.note_section(before);
        result
    }
}
