//! Virtual time: limits of run-ahead, pauses, computing, idling.

use super::{Cpu, Engine, Mode, Outcome};
use crate::tree::Turn;
use convoy_sync::TaskId;

/// The schedule hash `hash` with `value` added.
#[inline(always)]
pub(super) fn noted(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x100_0000_01b3).rotate_left(23)
}

/// What goes into the schedule hash when it is the turn of `cpu` at `now`, which runs `task`.
#[inline(always)]
pub(super) fn schedule(now: u64, cpu: usize, task: TaskId) -> u64 {
    now ^ (cpu as u64) << 48 ^ u64::from(task) << 24
}

impl Engine {
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.get()
    }

    pub(crate) fn spin_hint_price(&self) -> u64 {
        self.spin_hint
    }

    pub(crate) fn clock_price(&self) -> u64 {
        self.clock_price
    }

    #[inline]
    pub(crate) fn cpu(&self) -> usize {
        self.cpu.get()
    }

    #[inline]
    pub(crate) fn this(&self) -> &Cpu {
        // SAFETY: `act` took the pointer from `cpus`, which never changes its length.
        unsafe { &*self.this.get() }
    }

    pub(crate) fn ops(&self) -> u64 {
        self.ops.get()
    }

    pub(crate) fn resumes(&self) -> u64 {
        self.resumes.get()
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// Adds `value` to the schedule hash.
    #[inline]
    pub(crate) fn note(&self, value: u64) {
        self.hash.set(noted(self.hash.get(), value));
    }

    /// See [`Here::disk_request`](crate::Here::disk_request).
    pub(crate) fn disk_request(&self) -> u64 {
        self.disk.request(self.clock.get())
    }

    /// Kernel instructions that touch no shared line: time passes, nothing else happens.
    #[inline]
    pub(crate) fn pass(&self, ps: u64) {
        self.clock.set(self.clock.get() + self.stretched(ps));
    }

    pub(super) fn next_interrupt(cpu: &Cpu) -> u64 {
        if cpu.irq_off.get() == 0 { cpu.timer.get().min(cpu.ipi.get()) } else { u64::MAX }
    }

    /// Recomputes how far the running CPU may go.
    #[inline]
    pub(super) fn limits(&self) {
        let cpu = self.cpu.get();
        let (near, far) = self.limits_by(self.tree.first_other(cpu).earlier(self.looks.first()));
        self.others_near.set(near);
        self.others_far.set(far);
        self.limit_interrupt();
    }

    /// Returns how far the running CPU may go before `other` has to act: in any case, and when
    /// running ahead.
    #[inline]
    fn limits_by(&self, other: Turn) -> (u64, u64) {
        let first = other.cpu() < self.cpu.get();
        (other.at().saturating_sub(u64::from(first)), other.at().saturating_add(self.skew))
    }

    /// The running CPU may not pass `other` either.
    #[inline]
    pub(super) fn limit(&self, other: Turn) {
        let (near, far) = self.limits_by(other);
        self.others_near.set(self.others_near.get().min(near));
        self.others_far.set(self.others_far.get().min(far));
        self.near.set(self.near.get().min(near));
        self.far.set(self.far.get().min(far));
    }

    /// Of the limits, only the interrupt of the running CPU has changed.
    #[inline]
    pub(super) fn limit_interrupt(&self) {
        let irq = Self::next_interrupt(self.this()).saturating_sub(1);
        self.near.set(self.others_near.get().min(irq));
        self.far.set(self.others_far.get().min(irq));
    }

    /// Gives `cpu` (not the running one) the key `key`.
    pub(super) fn set_other(&self, cpu: usize, key: u64) {
        debug_assert_ne!(cpu, self.cpu.get());
        self.tree.set(cpu, key);
        self.limit(Turn::new(key, cpu));
    }

    /// Leaves the CPU to the others until `key`.
    ///
    /// Inlined, because the host's processor mispredicts a return after the switch: it has not seen
    /// the matching call.
    #[inline(always)]
    pub(super) fn suspend(&self, key: u64) {
        self.this().clock.set(self.clock.get());
        self.tree.set(self.cpu.get(), key);
        let yielder = self.yielder.get();
        assert!(!yielder.is_null(), "only a task may wait for virtual time");
        // SAFETY: the yielder belongs to the coroutine we are on (set by `resume`), which is alive
        // while it runs.
        unsafe { (*yielder).suspend(()) };
    }

    /// The running CPU has passed a limit: takes due interrupts and lets earlier CPUs go first.
    #[cold]
    #[inline(never)]
    pub(crate) fn pause(&self) {
        loop {
            let ended = self.stop.get() && !self.yielder.get().is_null();
            if !ended && self.clock.get() >= Self::next_interrupt(self.this()) {
                self.interrupt();
                continue;
            }
            // The limits are exact but for interrupts: only we run, so no other key has risen.
            if self.clock.get() <= self.near.get() || self.yielder.get().is_null() {
                return;
            }
            self.suspend(self.clock.get());
        }
    }

    /// Works for `ps` picoseconds; interrupts are taken on time, so a long stretch is one event.
    #[inline(always)]
    pub(crate) fn compute(&self, ps: u64) {
        if let Some(threads) = &self.threads {
            return self.compute_shared(threads, ps);
        }
        let mut left = ps;
        loop {
            let start = self.clock.get();
            self.progress_of(self.this());
            if left <= self.far.get().saturating_sub(start) || self.yielder.get().is_null() {
                self.clock.set(start + left);
                return;
            }
            let irq = Self::next_interrupt(self.this());
            if start >= irq {
                self.interrupt();
                continue;
            }
            self.this().blocked.set(true);
            self.suspend(irq.min(start + left));
            self.this().blocked.set(false);
            left -= (self.clock.get() - start).min(left);
            if self.clock.get() >= Self::next_interrupt(self.this()) {
                self.interrupt();
            }
            if left == 0 {
                return;
            }
        }
    }

    /// Waits for an interrupt and takes it.
    pub(crate) fn halt(&self) {
        let mode = self.set_mode(Mode::Idle);
        let cpu = self.this();
        cpu.blocked.set(true);
        self.suspend(Self::next_interrupt(cpu));
        cpu.blocked.set(false);
        if self.clock.get() >= Self::next_interrupt(cpu) {
            self.interrupt();
        }
        self.set_mode(mode);
    }

    #[inline]
    pub(crate) fn progress(&self) {
        self.watchdog.progress(self.clock.get(), self.ops.get());
    }

    /// Records progress if the running CPU works for a task. A task that works and never returns to
    /// the engine meets the limit on virtual time here.
    #[inline]
    pub(super) fn progress_of(&self, cpu: &Cpu) {
        if !cpu.idle.get() && matches!(cpu.mode.get(), Mode::User | Mode::System) {
            self.progress();
        }
        self.patrol();
        if self.clock.get() > self.watchdog.until.get() {
            self.give_up(Outcome::TimeLimit);
        }
    }

    /// Checks the time without progress, at an action of the engine.
    #[inline]
    pub(super) fn patrol(&self) {
        if self.clock.get() >= self.watchdog.check_at.get() {
            self.inspect_time();
        }
    }

    #[cold]
    fn inspect_time(&self) {
        let expects = || self.os().expects();
        if let Some(verdict) = self.watchdog.judge_time(self.clock.get(), &self.ledger, expects) {
            self.give_up(verdict);
        }
    }

    /// Checks the memory operations without progress, and their limit.
    #[cold]
    #[inline(never)]
    pub(super) fn inspect_operations(&self) {
        if let Some(verdict) = self.watchdog.judge_operations(self.ops.get()) {
            self.give_up(verdict);
        }
    }

    /// Ends the run at the next return to the engine, which is the next memory operation.
    fn give_up(&self, verdict: Outcome) {
        self.watchdog.end(verdict);
        self.stop.set(true);
        self.near.set(0);
        self.far.set(0);
    }
}
