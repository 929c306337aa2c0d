//! Hardware threads: CPUs that share a core.
//!
//! The threads of a core share its caches, so a line that one of them has costs the others a hit,
//! and they share its execution: while another thread of the core works, each runs at
//! `thread_speed`. A thread that idles or spins takes nothing: it halts, or its `pause` leaves the
//! core to the others. A stretch of work is one event as ever, and moves when a thread of the core
//! begins or ends to work. Memory operations cost the same either way.

use super::Engine;
use super::cores::{Threads, time, works};
use super::mode::Mode;
use crate::entry::Line;
use core::ops::Range;

impl Engine {
    /// The core of `cpu`, which is what caches belong to.
    #[inline(always)]
    pub(super) fn core_of(&self, cpu: usize) -> usize {
        match &self.threads {
            None => cpu,
            Some(threads) => cpu / threads.for_each_core,
        }
    }

    /// The package of the running CPU.
    pub(crate) fn package(&self) -> usize {
        self.lines.price.package_of(self.core_of(self.cpu.get()))
    }

    /// The CPUs that share the last-level cache of `cpu`.
    #[inline]
    pub(super) fn group_of(&self, cpu: usize) -> Range<usize> {
        let cpus = self.lines.llc * self.threads.as_ref().map_or(1, |at| at.for_each_core);
        let first = cpu / cpus * cpus;
        first..first + cpus
    }

    /// Time for `ps` picoseconds of work at full speed that nothing interrupts.
    #[inline(always)]
    pub(super) fn stretched(&self, ps: u64) -> u64 {
        match &self.threads {
            None => ps,
            Some(threads) => time(ps, threads.speed(self.cpu.get(), &self.cpus)),
        }
    }

    /// [`Engine::compute`] where threads share a core.
    #[inline(never)]
    pub(super) fn compute_shared(&self, threads: &Threads, ps: u64) {
        let mut left = ps;
        loop {
            // The last interrupt may have moved the task to another CPU.
            let index = self.cpu.get();
            let stretch = &threads.stretches[index];
            let start = self.clock.get();
            self.progress_of(self.this());
            stretch.left.set(left);
            stretch.since.set(start);
            stretch.speed.set(threads.speed(index, &self.cpus));
            let end = stretch.end();
            if end <= self.far.get() || self.yielder.get().is_null() {
                self.clock.set(end);
                return;
            }
            let irq = Self::next_interrupt(self.this());
            if start >= irq {
                self.interrupt();
                continue;
            }
            stretch.active.set(true);
            self.this().blocked.set(true);
            self.suspend(irq.min(end));
            self.this().blocked.set(false);
            stretch.active.set(false);
            stretch.advance(self.clock.get());
            left = stretch.left.get();
            if self.clock.get() >= Self::next_interrupt(self.this()) {
                self.interrupt();
            }
            if left == 0 {
                return;
            }
        }
    }

    /// The running CPU's mode has changed from `old`: its siblings may be faster or slower now.
    #[inline]
    pub(super) fn mode_changed(&self, old: Mode, mode: Mode) {
        self.beside.mode_changed(self.clock.get(), old, mode);
        if let Some(threads) = &self.threads
            && works(old) != works(mode)
        {
            self.share_core(threads);
        }
    }

    #[cold]
    fn share_core(&self, threads: &Threads) {
        let now = self.clock.get();
        for sibling in threads.siblings(self.cpu.get(), self.cpus.len()) {
            let stretch = &threads.stretches[sibling];
            if stretch.active.get() {
                debug_assert!(self.cpus[sibling].blocked.get(), "a stretch of a CPU that works");
                stretch.advance(now);
                stretch.speed.set(threads.speed(sibling, &self.cpus));
                let end = stretch.end().max(self.cpus[sibling].clock.get());
                self.set_other(sibling, end.min(Self::next_interrupt(&self.cpus[sibling])));
            }
        }
    }

    /// `line`, which the core of the running CPU has just used, belongs to this thread: the others
    /// use it strictly in turn. Without an owner if a thread spins on it, since a write must
    /// release the spinner.
    #[inline(always)]
    pub(super) fn mark_thread(&self, line: Line<'_>, before: u16) {
        if self.threads.is_some() && line.quick() != 0 {
            let mine = self.cpu.get() as u16 + 1;
            line.set_quick(if line.spinner.get() == 0 { mine } else { 0 });
            if before != mine {
                line.set_busy(line.busy().max(self.clock.get()));
            }
        }
    }
}
