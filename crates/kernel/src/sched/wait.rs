//! Sleeping on a word, timers, signals.

use super::scheduler::Sched;
use super::task::{State, Tcb};
use convoy_machine::{Here, Mode, Smp, Word};
use convoy_sync::{Platform, Sleep, TaskId, Wake};
use std::rc::Rc;

/// Whether a pending signal ends `sleep` for `task`.
pub(crate) fn signal_ends(task: &Tcb, sleep: Sleep) -> bool {
    match sleep {
        Sleep::Uninterruptible => false,
        Sleep::Interruptible => task.signal.get() || task.fatal.get(),
        Sleep::Killable => task.fatal.get(),
    }
}

impl Sched {
    pub(crate) fn wait_on(
        &self,
        word: usize,
        holds: &dyn Fn() -> bool,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> Wake {
        let me = self.rq.current();
        // From here on a waker finds us; what it does to the state before we are off the CPU keeps
        // us running.
        let key = (word, self.next_sequence());
        me.wake.set(None);
        me.state.set(State::Asleep(sleep));
        me.sleep_key.set(Some(key));
        self.sleepers.borrow_mut().insert(key, me.id);
        if let Some(deadline) = deadline {
            self.add_timer(&me, deadline);
        }
        if holds() && !signal_ends(&me, sleep) {
            self.schedule();
        }
        me.state.set(State::Running);
        self.forget_waits(&me);
        match me.wake.take() {
            Some(reason) => reason,
            None if signal_ends(&me, sleep) => Wake::Interrupted,
            None => Wake::Woken,
        }
    }

    fn forget_waits(&self, task: &Tcb) {
        if let Some(key) = task.sleep_key.take() {
            self.sleepers.borrow_mut().remove(&key);
        }
        if let Some(key) = task.timer_key.take() {
            self.timers.borrow_mut().remove(&key);
        }
    }

    fn add_timer(&self, task: &Tcb, deadline_ns: u64) {
        let key = (deadline_ns, self.next_sequence());
        task.timer_key.set(Some(key));
        self.timers.borrow_mut().insert(key, task.id);
    }

    /// Wakes up to `count` sleepers of the word at `word`, first come first woken.
    pub(crate) fn wake_word(&self, word: usize, count: usize, sync: bool) {
        // Who is woken here may sleep on the word again at once; that is not for this call.
        let last = self.sequence.get();
        for _ in 0..count {
            let found = {
                let mut sleepers = self.sleepers.borrow_mut();
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

    fn end_wait(&self, task: TaskId, reason: Wake, sync: bool) {
        let tcb = self.rq.tcb(task);
        self.forget_waits(&tcb);
        tcb.wake.set(Some(reason));
        self.wakeups.try_to_wake_up(&tcb, sync);
    }

    /// Wakes up to `count` sleepers of `word`, telling the scheduler that the waker is about to
    /// sleep.
    pub fn wake_sync(&self, word: &Word<u32>, count: usize) {
        self.wake_word(Here::address(word), count, true);
    }

    /// Sleeps, without a word to wait for, until `at_ns`.
    pub fn sleep_until(&self, at_ns: u64) {
        let me = self.rq.current();
        while Here::now_ns() < at_ns {
            me.state.set(State::Asleep(Sleep::Uninterruptible));
            self.add_timer(&me, at_ns);
            self.schedule();
            me.state.set(State::Running);
            self.forget_waits(&me);
        }
    }

    /// The same to the nanosecond, by a separate interrupt: [`Self::sleep_until`] ends with a tick,
    /// which is too coarse for sleep that was recorded. A system call of a task in user mode: an
    /// interrupt that comes on the way must not take it for user work that may be preempted.
    pub fn nap_until(&self, at_ns: u64) {
        let mode = Here::set_mode(Mode::System);
        let me = self.rq.current();
        let task = me.id;
        let end = move |sched: &Self| sched.end_wait(task, Wake::TimedOut, false);
        if Here::now_ns() < at_ns {
            me.state.set(State::Asleep(Sleep::Uninterruptible));
            self.interrupt_at(Here::cpu(), at_ns * 1000, Box::new(end));
            while Here::now_ns() < at_ns {
                self.schedule();
                me.state.set(State::Running);
            }
        }
        // The task may be on another CPU now; the mode is the CPU's.
        Here::set_mode(mode);
    }

    /// Ends expired sleeps: high-resolution timers, which run in the timer interrupt of any CPU.
    pub(crate) fn run_timers(&self) {
        let now = Here::now_ns();
        loop {
            let due = {
                let timers = self.timers.borrow();
                timers.first_key_value().filter(|(key, _)| key.0 <= now).map(|(_, &task)| task)
            };
            let Some(task) = due else { return };
            self.end_wait(task, Wake::TimedOut, false);
        }
    }

    /// Earliest deadline that `cpu` has to tick for, in nanoseconds.
    pub(crate) fn next_timer(&self, cpu: usize) -> Option<u64> {
        let sleep = self.timers.borrow().first_key_value().map(|(key, _)| key.0);
        let wheel = self.agendas[cpu].first_timer();
        [sleep, wheel, self.rq.rt_limits.period_end(cpu)].into_iter().flatten().min()
    }

    /// A signal for `task`: wakes it if its sleep admits the signal.
    pub fn post_signal(&self, task: TaskId, fatal: bool) {
        let tcb = self.rq.tcb(task);
        tcb.signal.set(true);
        if fatal {
            tcb.fatal.set(true);
        }
        if let State::Asleep(sleep) = tcb.state.get()
            && signal_ends(&tcb, sleep)
        {
            self.end_wait(task, Wake::Interrupted, false);
        } else if tcb.on_cpu.get() && tcb.cpu.get() != Here::cpu() {
            // It runs elsewhere: make it enter the kernel.
            Here::kick(tcb.cpu.get(), Here::now_ps() + self.rq.costs.ipi);
        }
        Smp::preempt_disable();
        Smp::preempt_enable();
    }

    /// The signals of `task` have been delivered.
    pub fn clear_signal(&self, task: TaskId) {
        let tcb: Rc<Tcb> = self.rq.tcb(task);
        tcb.signal.set(false);
        tcb.fatal.set(false);
    }
}
