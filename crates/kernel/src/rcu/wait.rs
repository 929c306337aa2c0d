//! Synchronous waits for grace periods and callbacks.

use super::state::Rcu;
use super::threads::{Count, Stopper, Stoppers};
use crate::sched::scheduler::Sched;
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

impl Rcu<Sched> {
    /// Waits until every section without preemption has ended that runs now.
    pub fn synchronize_sched(&self) {
        let done = count();
        let inner = Rc::clone(&done);
        self.call_sched(Box::new(move |_| inner.leave()));
        done.wait();
    }

    /// The same without delay: every CPU is made to run a thread of the highest priority. Without
    /// room for the threads it waits as the other one.
    pub fn synchronize_sched_expedited(&self) {
        let Some(stoppers) = self.stoppers() else { return self.synchronize_sched() };
        if !stoppers.expedited.wait(|| self.stop_cpus(stoppers), |number| stoppers.pause(number)) {
            self.synchronize_sched();
        }
    }

    /// Waits until every section has ended that has begun by now (`synchronize_rcu`).
    pub fn synchronize(&self) {
        let done = count();
        let inner = Rc::clone(&done);
        self.call(Box::new(move |_| inner.leave()));
        done.wait();
    }

    /// The same without waiting for ticks (`synchronize_rcu_expedited`). If readers may be
    /// preempted, every CPU is made to switch, and then readers that were preempted in a critical
    /// section are waited for; they are boosted immediately if the kernel has boosting.
    pub fn synchronize_expedited(&self) {
        let Some(lists) = &self.preempt else { return self.synchronize_sched_expedited() };
        let Some(stoppers) = self.stoppers() else { return self.synchronize() };
        let stop = || {
            if stoppers.busy_readers.replace(true) {
                return false;
            }
            self.synchronize_sched_expedited();
            lists.expedite();
            self.wake_boosts();
            lists.wait_expedited();
            stoppers.busy_readers.set(false);
            true
        };
        if !stoppers.readers.wait(stop, |number| stoppers.pause(number)) {
            self.synchronize();
        }
    }

    /// The threads that stop CPUs, made when they are first wanted; none without room for them.
    fn stoppers(&self) -> Option<&Stoppers> {
        if self.stoppers.get().is_none() {
            let stoppers = self.new_stoppers()?;
            let _somebody_was_first = self.stoppers.set(stoppers);
        }
        self.stoppers.get()
    }

    /// Waits until all callbacks are through that any CPU has queued before (`rcu_barrier`).
    pub fn barrier(&self) {
        let done = count();
        let at = Here::now_ps() + self.rq.costs.ipi;
        for cpu in 0..self.rq.queues.len() {
            done.join();
            let inner = Rc::clone(&done);
            let callback = Box::new(move |_: &Sched| inner.leave());
            let call = Box::new(move |sched: &Sched| sched.rcu().call(callback));
            self.agendas.interrupt_at(cpu, at, call);
            Here::pass(self.rq.costs.send);
        }
        done.leave();
        done.wait();
    }

    fn new_stoppers(&self) -> Option<Stoppers> {
        let stopper = |cpu| {
            let name = ("migration/", Some(cpu as u32));
            let policy = Policy::Fifo { priority: STOPPER_PRIORITY };
            let body = Box::new(move |sched: &Sched| sched.rcu().run_stopper(sched, cpu));
            let thread = self.kthreads.create(name, Some(cpu), policy, body)?;
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
    fn run_stopper(&self, sched: &Sched, cpu: usize) {
        let me = Rc::clone(&self.stoppers.get().expect("woken by them").by_cpu[cpu]);
        loop {
            sched.sleep_unless(|| me.wanted.borrow().is_some());
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
            self.kthreads.wake(&stopper.thread);
        }
        done.leave();
        done.wait();
        stoppers.busy.set(false);
        true
    }

    /// Runs `section` as a reader; `name` appears in reports of stalls.
    pub fn read<T>(&self, name: &'static str, section: impl FnOnce() -> T) -> T {
        let before = self.rq.current().section.replace(Some(name));
        self.read_lock();
        let result = section();
        self.read_unlock();
        self.rq.current().section.set(before);
        result
    }
}
