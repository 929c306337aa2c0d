//! Sleeping tasks, and the ends of sleeps: wakeups of a word, deadlines, signals.

use super::queue::RunQueues;
use super::task::{State, Tcb};
use super::wake::Wakeups;
use convoy_machine::{Here, Smp, Word};
use convoy_sync::{Platform, TaskId, Wake};
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The sleepers of one machine.
pub struct Sleepers {
    rq: Rc<RunQueues>,
    wakeups: Rc<Wakeups>,
    /// By the address of their word, in the order in which they came.
    words: RefCell<BTreeMap<(usize, u64), TaskId>>,
    /// By the nanosecond at which the sleep ends.
    deadlines: RefCell<BTreeMap<(u64, u64), TaskId>>,
    sequence: Cell<u64>,
}

impl Sleepers {
    pub(super) fn new(rq: Rc<RunQueues>, wakeups: Rc<Wakeups>) -> Self {
        let (words, deadlines, sequence) = Default::default();
        Self { rq, wakeups, words, deadlines, sequence }
    }

    fn next_sequence(&self) -> u64 {
        self.sequence.set(self.sequence.get() + 1);
        self.sequence.get()
    }

    /// Adds `task` as a sleeper of the word at `word`.
    pub(super) fn add(&self, task: &Tcb, word: usize) {
        let key = (word, self.next_sequence());
        task.sleep_key.set(Some(key));
        self.words.borrow_mut().insert(key, task.id);
    }

    /// Ends the sleep of `task` at `deadline_ns`.
    pub(super) fn add_deadline(&self, task: &Tcb, deadline_ns: u64) {
        let key = (deadline_ns, self.next_sequence());
        task.timer_key.set(Some(key));
        self.deadlines.borrow_mut().insert(key, task.id);
    }

    /// Removes the word and the deadline of `task`.
    pub(super) fn forget(&self, task: &Tcb) {
        if let Some(key) = task.sleep_key.take() {
            self.words.borrow_mut().remove(&key);
        }
        if let Some(key) = task.timer_key.take() {
            self.deadlines.borrow_mut().remove(&key);
        }
    }

    /// Wakes up to `count` sleepers of the word at `word`, first come first woken.
    pub(super) fn wake_word(&self, word: usize, count: usize, sync: bool) {
        // Who is woken here may sleep on the word again at once; that is not for this call.
        let last = self.sequence.get();
        for _ in 0..count {
            let found = {
                let mut sleepers = self.words.borrow_mut();
                let first = sleepers
                    .range((word, 0)..=(word, last))
                    .next()
                    .map(|(&key, &task)| (key, task));
                if let Some((key, _)) = first {
                    sleepers.remove(&key);
                }
                first
            };
            let Some((_, task)) = found else { return };
            self.end_wait(task, Wake::Woken, sync);
        }
    }

    /// Wakes `task`, whose sleep ends for `reason`.
    pub(super) fn end_wait(&self, task: TaskId, reason: Wake, sync: bool) {
        let tcb = self.rq.tcb(task);
        self.forget(&tcb);
        tcb.wake.set(Some(reason));
        self.wakeups.try_to_wake_up(&tcb, sync);
    }

    /// Wakes up to `count` sleepers of `word`, telling the scheduler that the waker is about to
    /// sleep.
    pub fn wake_sync(&self, word: &Word<u32>, count: usize) {
        self.wake_word(Here::address(word), count, true);
    }

    /// Ends expired sleeps: high-resolution timers, which run in the timer interrupt of any CPU.
    pub(super) fn run_deadlines(&self) {
        let now = Here::now_ns();
        loop {
            let due = {
                let deadlines = self.deadlines.borrow();
                deadlines.first_key_value().filter(|(key, _)| key.0 <= now).map(|(_, &task)| task)
            };
            let Some(task) = due else { return };
            self.end_wait(task, Wake::TimedOut, false);
        }
    }

    /// The earliest deadline of all sleepers, in nanoseconds.
    pub(super) fn first_deadline(&self) -> Option<u64> {
        self.deadlines.borrow().first_key_value().map(|(key, _)| key.0)
    }

    /// A signal for `task`: wakes it if its sleep admits the signal.
    pub(crate) fn post_signal(&self, task: TaskId, fatal: bool) {
        let tcb = self.rq.tcb(task);
        tcb.signal.set(true);
        if fatal {
            tcb.fatal.set(true);
        }
        if let State::Asleep(sleep) = tcb.state.get()
            && tcb.signal_ends(sleep)
        {
            self.end_wait(task, Wake::Interrupted, false);
        } else if tcb.on_cpu.get() && tcb.cpu.get() != Here::cpu() {
            // It runs elsewhere: make it enter the kernel.
            Here::kick(tcb.cpu.get(), Here::now_ps() + self.rq.costs.ipi);
        }
        Smp::preempt_disable();
        Smp::preempt_enable();
    }
}
