//! What happens on the CPUs: tasks run, compute, idle and end, and interrupts come.

use super::cores::Threads;
use super::cpu::{Cpu, Task};
use super::mode::{Mode, Outcome};
use super::{Engine, engine};
use crate::line::mix;
use crate::os::Interrupt;
use crate::trace::Event;
use crate::tree::Turn;
use convoy_sync::TaskId;
use core::ops::ControlFlow;

impl Engine {
    /// Creates a task that has not started; `None` when every stack is taken.
    pub(crate) fn spawn(&self, body: Box<dyn FnOnce()>, idle: bool) -> Option<TaskId> {
        let stack = self.region.take_stack()?;
        let id = stack.slot() as TaskId;
        self.watchdog.progress(self.cpus.now());
        let task = Task::with_stack(stack, move |yielder, ()| {
            let engine = engine();
            engine.cpus.yielder.set(yielder);
            engine.tasks.slots[id as usize].yielder.set(yielder);
            engine.os().task_start(id);
            body();
            engine.os().task_end(id);
        });
        self.tasks.add(id, task, idle);
        Some(id)
    }

    /// Gives `cpu` its first task; it starts at time `at`.
    pub(crate) fn boot(&self, cpu: usize, task: TaskId, at: u64) {
        let this = &self.cpus.all[cpu];
        self.tasks.assign(this, task);
        this.clock.set(at);
        this.mode_since.set(at);
        self.cpus.tree.set(cpu, at);
    }

    /// Switches the running CPU to `next`; returns when the calling task is switched to again,
    /// maybe elsewhere.
    #[inline]
    pub(crate) fn switch_to(&self, next: TaskId) {
        self.tasks.leave(self.cpus.this().task.get());
        self.change(next);
        self.cpus.suspend(self.cpus.now());
    }

    /// `next` takes the place of the task of the running CPU, which waits.
    fn change(&self, next: TaskId) {
        self.tasks.put(self.cpus.this().task.get());
        let prev = self.give(next);
        self.spinners.release_askers(&self.cpus, &self.lines, prev);
    }

    /// Makes `next` the task of the running CPU; returns its former task.
    fn give(&self, next: TaskId) -> TaskId {
        let cpu = self.cpus.this();
        let prev = cpu.task.get();
        self.tell(|| Event::Switch { prev, next });
        self.tasks.assign(cpu, next);
        self.watches.switched(prev, next, self.cpus.now());
        prev
    }

    /// Runs the idle task of `this`, the CPU in turn. It needs no limits, as nothing that it does
    /// waits for its turn.
    fn idle(&self, this: &Cpu) {
        self.cpus.yielder.set(core::ptr::null());
        if this.blocked.replace(false) {
            self.take_due();
            self.set_mode(this.idle_mode.get());
        }
        let key = if let Some(next) = self.os().idle_next() {
            self.change(next);
            self.cpus.now()
        } else {
            this.idle_mode.set(self.set_mode(Mode::Idle));
            this.blocked.set(true);
            this.next_interrupt()
        };
        self.cpus.set_next(key);
    }

    /// Like [`Self::switch_to`], but the calling task ends: it must return from its body or call
    /// [`Self::vanish`].
    pub(crate) fn retire(&self, next: TaskId) {
        self.watchdog.progress(self.cpus.now());
        self.tasks.dead.set(self.give(next));
        self.cpus.set_next(self.cpus.now());
    }

    /// Ends a retired task in the middle of its body; its stack is unwound.
    pub(crate) fn vanish(&self) -> ! {
        self.cpus.suspend(self.cpus.now());
        unreachable!("a retired task is never resumed")
    }

    pub(crate) fn stop(&self) {
        self.stop.set(true);
        self.cpus.limit_now();
        self.cpus.suspend(self.cpus.now());
    }

    /// Runs until [`Self::stop`] is called, all work is done, or virtual time passes `until`.
    pub(crate) fn run(&self, until: u64) -> Outcome {
        if self.watchdog.start(until) {
            self.stop.set(false);
        }
        let outcome = loop {
            if self.stop.get() {
                break self.watchdog.verdict.get().unwrap_or(Outcome::Stopped);
            }
            let (first, look) = (self.cpus.tree.first(), self.spinners.looks.first());
            let stop = until.min(self.watchdog.check_at.get()).min(self.observer.at());
            let (next, looks) = if first < look && first.at() < stop {
                (first, false)
            } else {
                match self.look_first(first, stop, until) {
                    ControlFlow::Continue(Some(next)) => next,
                    ControlFlow::Continue(None) => continue,
                    ControlFlow::Break(outcome) => break outcome,
                }
            };
            self.act(next, looks);
        };
        // Code that accesses simulated memory after the run is on no coroutine that could suspend.
        self.cpus.yielder.set(core::ptr::null());
        outcome
    }

    /// Lets CPUs that spin look before `first` acts, and before `stop`. Returns the turn that comes
    /// next and whether that CPU looks, unless one of them has acted; or why the run ends, which it
    /// does after `until`.
    #[inline(never)]
    fn look_first(
        &self,
        first: Turn,
        stop: u64,
        until: u64,
    ) -> ControlFlow<Outcome, Option<(Turn, bool)>> {
        // Most looks come before anything else does. A CPU that writes a word continues at the time
        // at which half of its spinners look, so the order within a time matters.
        let limit = first.earlier(Turn::new(stop, 0));
        if let Some(cpu) = self.look_before(limit) {
            self.go_on(cpu);
            return ControlFlow::Continue(None);
        }
        let look = self.spinners.looks.first();
        let looks = look <= first && look.at() <= until;
        let next = if looks {
            self.spinners.looks.change(Vec::pop);
            look
        } else {
            first
        };
        if next.at() > until.min(u64::MAX - 1) {
            let never = next.at() == u64::MAX;
            return ControlFlow::Break(if never { Outcome::Quiescent } else { Outcome::TimeLimit });
        }
        if next.at() >= self.observer.at() {
            self.observer.look_until(next.at(), &self.cpus.clock);
        }
        ControlFlow::Continue(Some((next, looks)))
    }

    /// Lets the earliest CPU act; with `looks` it reads its spin word again.
    #[inline]
    fn act(&self, turn: Turn, looks: bool) {
        let this = self.cpus.begin(turn);
        self.patrol();
        if let Some(spin) = this.spin.get()
            && self.cpus.now() < this.next_interrupt()
        {
            if !spin.polls {
                self.cpus.unlink(self.lines.at(spin.offset), turn.cpu());
                if !self.look(this, &spin) {
                    return self.cpus.tree.set(turn.cpu(), this.next_interrupt());
                }
            } else if looks && !self.look(this, &spin)
                || !looks && !self.spinners.poll_ends(&self.cpus)
            {
                return;
            }
        }
        self.go_on(this);
    }

    /// Resumes the task of the running CPU.
    #[inline]
    fn go_on(&self, this: &Cpu) {
        if this.idle.get() && self.idles.get() {
            self.idle(this);
        } else {
            self.resume(this);
        }
    }

    #[inline]
    fn resume(&self, this: &Cpu) {
        self.cpus.limits(self.spinners.looks.first());
        let slot = this.slot();
        self.cpus.yielder.set(slot.yielder.get());
        if let Some(dead) = self.tasks.resume(slot) {
            self.cpus.leave();
            self.tasks.bury(dead);
        }
    }

    /// A deterministic draw keyed by the machine's seed.
    pub(crate) fn draw(&self, key: u64) -> u64 {
        mix(key ^ self.seed)
    }

    /// The running CPU has passed a limit: takes due interrupts and lets earlier CPUs go first.
    #[cold]
    #[inline(never)]
    pub(crate) fn pause(&self) {
        loop {
            let ended = self.stop.get() && self.cpus.in_task();
            if !ended && self.cpus.now() >= self.cpus.this().next_interrupt() {
                self.interrupt();
                continue;
            }
            // The limits are exact but for interrupts: only we run, so no other key has risen.
            if self.cpus.is_first() || !self.cpus.in_task() {
                return;
            }
            self.cpus.suspend(self.cpus.now());
        }
    }

    /// Works for `ps` picoseconds; interrupts are taken on time, so a long stretch is one event.
    #[inline(always)]
    pub(crate) fn compute(&self, ps: u64) {
        if let Some(threads) = self.cpus.cores.threads() {
            return self.compute_shared(threads, ps);
        }
        let mut left = ps;
        loop {
            let start = self.cpus.now();
            self.progress_of(self.cpus.this());
            if left <= self.cpus.far.get().saturating_sub(start) || !self.cpus.in_task() {
                self.cpus.clock.set(start + left);
                return;
            }
            let irq = self.cpus.this().next_interrupt();
            if start >= irq {
                self.interrupt();
                continue;
            }
            self.cpus.block(irq.min(start + left));
            left -= (self.cpus.now() - start).min(left);
            self.take_due();
            if left == 0 {
                return;
            }
        }
    }

    /// [`Engine::compute`] where threads share a core.
    #[inline(never)]
    fn compute_shared(&self, threads: &Threads, ps: u64) {
        let mut left = ps;
        loop {
            // The last interrupt may have moved the task to another CPU.
            let index = self.cpus.running();
            let stretch = &threads.stretches[index];
            let start = self.cpus.now();
            self.progress_of(self.cpus.this());
            stretch.begin(left, start, threads.speed(index, &self.cpus.all));
            let end = stretch.end();
            if end <= self.cpus.far.get() || !self.cpus.in_task() {
                self.cpus.clock.set(end);
                return;
            }
            let irq = self.cpus.this().next_interrupt();
            if start >= irq {
                self.interrupt();
                continue;
            }
            stretch.active.set(true);
            self.cpus.block(irq.min(end));
            stretch.active.set(false);
            stretch.advance(self.cpus.now());
            left = stretch.left.get();
            self.take_due();
            if left == 0 {
                return;
            }
        }
    }

    /// Waits for an interrupt and takes it.
    pub(crate) fn halt(&self) {
        let mode = self.set_mode(Mode::Idle);
        self.cpus.block(self.cpus.this().next_interrupt());
        self.take_due();
        self.set_mode(mode);
    }

    /// Records progress if the running CPU works for a task. A task that works and never returns to
    /// the engine meets the limit on virtual time here.
    #[inline]
    fn progress_of(&self, cpu: &Cpu) {
        if !cpu.idle.get() && matches!(cpu.mode.get(), Mode::User | Mode::System) {
            self.watchdog.progress(self.cpus.now());
        }
        self.patrol();
        if self.cpus.now() > self.watchdog.until.get() {
            self.give_up(Outcome::TimeLimit);
        }
    }

    /// Checks the time without progress, at an action of the engine.
    #[inline]
    fn patrol(&self) {
        if self.cpus.now() >= self.watchdog.check_at.get() {
            self.inspect_time();
        }
    }

    #[cold]
    fn inspect_time(&self) {
        let expects = || self.os().expects();
        if let Some(verdict) = self.watchdog.judge_time(self.cpus.now(), &self.ledger, expects) {
            self.give_up(verdict);
        }
    }

    /// Checks the memory operations without progress, and their limit.
    #[cold]
    #[inline(never)]
    pub(super) fn inspect_operations(&self) {
        if let Some(verdict) = self.watchdog.judge_operations() {
            self.give_up(verdict);
        }
    }

    /// Ends the run at the next return to the engine, which is the next memory operation.
    fn give_up(&self, verdict: Outcome) {
        self.watchdog.end(verdict);
        self.stop.set(true);
        self.cpus.limit_now();
    }

    /// Takes the interrupt of the running CPU that is due, if one is.
    #[inline]
    pub(super) fn take_due(&self) {
        if self.cpus.now() >= self.cpus.this().next_interrupt() {
            self.interrupt();
        }
    }

    #[cold]
    #[inline(never)]
    fn interrupt(&self) {
        let cpu = self.cpus.this();
        let now = self.cpus.now();
        let user = cpu.mode.get() == Mode::User;
        let cause = Interrupt { timer: cpu.timer.get() <= now, ipi: cpu.ipi.get() <= now, user };
        if cause.timer {
            cpu.timer.set(u64::MAX);
        }
        if cause.ipi {
            cpu.ipi.set(u64::MAX);
        }
        let mode = self.set_mode(Mode::Interrupt);
        self.cpus.irq_disable();
        self.cpus.pass(self.interrupt_price);
        self.os().interrupt(cause);
        cpu.irq_off.set(cpu.irq_off.get() - 1);
        self.cpus.limit_interrupt();
        self.set_mode(Mode::System);
        self.os().interrupt_return(mode == Mode::User);
        self.set_mode(mode);
    }

    #[inline]
    pub(crate) fn irq_enable(&self) {
        let cpu = self.cpus.this();
        cpu.irq_off.set(cpu.irq_off.get() - 1);
        if cpu.irq_off.get() == 0 {
            if self.cpus.now() >= cpu.next_interrupt() && self.cpus.in_task() {
                self.interrupt();
            }
            self.cpus.limit_interrupt();
        }
    }
}
