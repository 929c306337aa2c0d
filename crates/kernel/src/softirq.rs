//! Software interrupts: pending masks, the pass at the end of an interrupt, `ksoftirqd`.
//!
//! An interrupt handler that has more to do than it should do with interrupts off raises a vector
//! on its own CPU. Pending softirqs run, lowest vector first, with interrupts enabled and bottom
//! halves disabled: when the outermost interrupt ends, when bottom halves are enabled again, and in
//! the CPU's `ksoftirqd`. Softirqs that handlers raise run in another pass, up to a limit; the rest
//! is left to `ksoftirqd`, which competes for the CPU like any task.
//!
//! As in the kernel the preemption count of a CPU encodes the context: bits 0 to 7 count sections
//! without preemption, bits 8 to 15 bottom halves disabled or running, bits 16 and up interrupts.
//! Bookkeeping of the mask is local to its CPU and is not priced: the cost of a pass beyond its
//! handlers is part of the price of the tick or the device's interrupt.

pub(crate) mod rules;
pub(crate) mod state;

pub use rules::{SoftirqRules, Vector};
pub(crate) use state::irq_enter;
pub use state::{Softirqs, context, local_bh_disable};

use crate::sched::record;
use crate::sched::scheduler::Sched;
use crate::sched::task::Policy;
use convoy_machine::{Context, Here, Smp};
use convoy_sync::Platform;
use state::{Account, BH_DISABLED, HARDIRQ, SOFTIRQ, add_to_count, take_from_count};
use std::rc::Rc;

/// Priority of `ksoftirqd` where it runs all software interrupts (3.0-rt).
const THREAD_PRIORITY: u8 = 1;

impl Softirqs<Sched> {
    /// Makes `vector` pending on this CPU. In a handler it runs before the interrupt returns;
    /// elsewhere `ksoftirqd` is woken to run it.
    pub fn raise(&self, vector: Vector) {
        record::raise(self.set_pending(vector), vector.name());
        if !context().in_interrupt() {
            self.wake_ksoftirqd();
        }
    }

    /// Ends one [`local_bh_disable`]; the outermost one runs pending softirqs.
    pub fn local_bh_enable(&self, sched: &Sched) {
        let Context { hardirq, irqs_off, .. } = context();
        assert!(!hardirq && !irqs_off, "bottom halves enabled with interrupts off");
        // Preemption stays disabled until the handlers have run.
        take_from_count(BH_DISABLED - 1);
        if !context().in_interrupt() {
            self.run_pending(sched);
        }
        Smp::preempt_enable();
    }

    /// Called when the interrupt's handler is done: the outermost one runs pending softirqs.
    pub(crate) fn irq_exit(&self, sched: &Sched) {
        take_from_count(HARDIRQ);
        if !context().in_interrupt() {
            self.run_pending(sched);
        }
    }

    fn run_pending(&self, sched: &Sched) {
        match self.local().pending.get() {
            0 => {}
            _ if self.rules.threaded => self.wake_ksoftirqd(),
            pending if self.left_to_ksoftirqd(pending) => {}
            _ => self.run(sched),
        }
    }

    /// `__do_softirq`: runs passes until no softirq is pending or a limit is reached.
    fn run(&self, sched: &Sched) {
        let local = self.local();
        let rules = &self.rules;
        add_to_count(SOFTIRQ);
        let account = Account::start();
        let end = self.rq.jiffies() + self.rq.ticks_of_ms(rules.limit_ms);
        let mut passes = rules.passes;
        loop {
            let pending = local.pending.replace(0);
            self.run_handlers(sched, pending);
            passes -= 1;
            if local.pending.get() == 0 {
                break;
            }
            let over = rules.limit_ms > 0 && (self.rq.jiffies() >= end || Here::need_resched());
            if passes == 0 || over {
                self.wake_ksoftirqd();
                break;
            }
        }
        let in_ksoftirqd =
            local.ksoftirqd.borrow().as_ref().is_some_and(|it| it.task() == Here::task());
        if !in_ksoftirqd {
            local.time.set(local.time.get() + account.end());
        }
        take_from_count(SOFTIRQ);
    }

    fn run_handlers(&self, sched: &Sched, pending: u32) {
        let mut left = pending;
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            self.local().counts.borrow_mut()[place] += 1;
            let handler = self.handler(place);
            let count = Here::preempt_depth();
            let name = self.rules.vectors[place].name();
            record::softirq(Some((place as u32, name)));
            if let Some(handler) = handler {
                handler(sched);
            }
            record::softirq(None);
            assert_eq!(Here::preempt_depth(), count, "softirq {name} left its preemption count");
        }
    }

    /// Wakes this CPU's `ksoftirqd`, which exists from the first time on.
    fn wake_ksoftirqd(&self) {
        let local = self.local();
        let known = local.ksoftirqd.borrow().clone();
        let kthread = known.unwrap_or_else(|| {
            let cpu = Here::cpu();
            let policy = if self.rules.threaded {
                Policy::Fifo { priority: THREAD_PRIORITY }
            } else {
                Policy::Normal { nice: self.rules.ksoftirqd_nice }
            };
            let name = ("ksoftirqd/", Some(cpu as u32));
            let kthread = self.kthreads.create(name, Some(cpu), policy, Box::new(ksoftirqd));
            let kthread = kthread.expect("room for ksoftirqd");
            local.ksoftirqd.replace(Some(Rc::clone(&kthread)));
            kthread
        });
        self.kthreads.wake(&kthread);
    }
}

/// The body of `ksoftirqd`. It owns nothing: it never ends.
fn ksoftirqd(sched: &Sched) {
    let softirqs = &sched.softirqs;
    loop {
        sched.sleep_unless(|| softirqs.local().pending.get() != 0);
        while softirqs.local().pending.get() != 0 {
            Smp::preempt_disable();
            softirqs.run(sched);
            Smp::preempt_enable();
            sched.cond_resched();
        }
    }
}
