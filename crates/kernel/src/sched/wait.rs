//! Sleeping: on a word, until a time, until another task or an interrupt wakes.

use super::scheduler::Sched;
use super::task::State;
use convoy_machine::{Here, Mode};
use convoy_sync::{Sleep, Wake};

impl Sched {
    pub(super) fn wait_on(
        &self,
        word: usize,
        holds: &dyn Fn() -> bool,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> Wake {
        let me = self.rq.current();
        // From here on a waker finds us; what it does to the state before we are off the CPU keeps
        // us running.
        me.wake.set(None);
        me.state.set(State::Asleep(sleep));
        self.sleepers.add(&me, word);
        if let Some(deadline) = deadline {
            self.sleepers.add_deadline(&me, deadline);
        }
        if holds() && !me.signal_ends(sleep) {
            self.schedule();
        }
        me.state.set(State::Running);
        self.sleepers.forget(&me);
        match me.wake.take() {
            Some(reason) => reason,
            None if me.signal_ends(sleep) => Wake::Interrupted,
            None => Wake::Woken,
        }
    }

    /// Sleeps, without a word to wait for, until `at_ns`.
    pub fn sleep_until(&self, at_ns: u64) {
        let me = self.rq.current();
        while Here::now_ns() < at_ns {
            me.state.set(State::Asleep(Sleep::Uninterruptible));
            self.sleepers.add_deadline(&me, at_ns);
            self.schedule();
            me.state.set(State::Running);
            self.sleepers.forget(&me);
        }
    }

    /// The same to the nanosecond, by a separate interrupt: [`Self::sleep_until`] ends with a tick,
    /// which is too coarse for sleep that was recorded. A system call of a task in user mode: an
    /// interrupt that comes on the way must not take it for user work that may be preempted.
    pub fn nap_until(&self, at_ns: u64) {
        let mode = Here::set_mode(Mode::System);
        let me = self.rq.current();
        let task = me.id;
        let end = move |sched: &Self| sched.sleepers.end_wait(task, Wake::TimedOut, false);
        if Here::now_ns() < at_ns {
            me.state.set(State::Asleep(Sleep::Uninterruptible));
            self.agendas.interrupt_at(Here::cpu(), at_ns * 1000, Box::new(end));
            while Here::now_ns() < at_ns {
                self.schedule();
                me.state.set(State::Running);
            }
        }
        // The task may be on another CPU now; the mode is the CPU's.
        Here::set_mode(mode);
    }

    /// Sleeps until woken, unless `ready`. The caller is a task; a wakeup from the moment on that
    /// this is called is not lost. Returns at any wakeup: the caller looks again.
    pub fn sleep_unless(&self, ready: impl Fn() -> bool) {
        self.rq.current().state.set(State::Asleep(Sleep::Uninterruptible));
        if !ready() {
            self.schedule();
        }
        self.rq.current().state.set(State::Running);
    }
}
