//! Spinning on a word, without an event per iteration and without resuming the coroutine for a read
//! that sees the old value.
//!
//! A CPU that spins is blocked until the line of the word is written. Then it fetches the line
//! again, in its turn and at the ordinary price, and the engine evaluates the condition of the
//! suspended coroutine; only a read that ends the wait, or an interrupt, resumes the coroutine. A
//! release under 63 waiters is 63 fetches and one resumption.
//!
//! A loop that polls in user mode is treated in the same way: it reads a word, with a `pause`
//! between reads, and ends after a number of reads or at a given time, or yields the CPU from time
//! to time. Reads are not executed while the line stays in the cache of its CPU: their result is
//! known, and their times follow from the first. After the line is written the CPU reads again in
//! its turn, at the first read of its loop that is not before the write. A *cycle* is the number of
//! reads until the loop does something else; the coroutine resumes at its end if this ends the wait
//! or is a system call. Interrupts are taken when they arrive, as in any user-mode code, not at the
//! end of a read; apart from this and the shorter lead over other CPUs, the result equals executing
//! each read. On a core with several hardware threads the others use the core during the pauses.
//!
//! A condition may also depend on whether a task is running. The CPU then evaluates it again when
//! that task leaves its CPU; the line of the task's state, which a real spinner polls, is free.

use super::Engine;
use super::cpu::Cpu;
use super::cpus::{noted, schedule};
use super::looks::{Spin, Until};
use super::loops::{Pace, Poll};
use super::mode::Mode;
use crate::row::Row;
use crate::tree::Turn;
use convoy_sync::TaskId;
use core::ops::ControlFlow;

impl Engine {
    /// Blocks until the wait is over. `until` is evaluated after each fetch of the line at
    /// `offset`: now, after each write of the line, and after each interrupt. It must not use
    /// simulated memory.
    pub(crate) fn spin(&self, offset: usize, until: Until<'_>) {
        self.cpus.this().asks.set(TaskId::MAX);
        while !until.over() {
            let next = self.cpus.this().next_interrupt();
            if self.await_look(offset, until, false, next) {
                return;
            }
            self.take_due();
            self.read(offset);
        }
    }

    /// Blocks until a read of the word at `offset` ends the wait, or until `key`. Returns whether
    /// the wait is over.
    #[inline(always)]
    fn await_look(&self, offset: usize, until: Until<'_>, polls: bool, key: u64) -> bool {
        // SAFETY: only the lifetime changes. The engine uses it only while it stands in
        // `Cpu::spin`, which is from here until this coroutine goes on, so what it refers to is
        // alive.
        let until = unsafe { core::mem::transmute::<Until<'_>, Until<'static>>(until) };
        let line = self.lines.at(offset);
        let mode = self.set_mode(Mode::Spin);
        let (index, cpu) = (self.cpus.running(), self.cpus.this());
        self.cpus.link(line, cpu);
        cpu.spin.set(Some(Spin { offset, until, mode, polls }));
        cpu.front.set(false);
        self.cpus.block(key);
        if cpu.spin.take().is_none() {
            return true;
        }
        self.spinners.remove(&self.cpus, line, index);
        self.set_mode(mode);
        false
    }

    /// Reads the word at `offset` at this pace until the wait or the loop ends; returns whether the
    /// wait is over. `until` must not use simulated memory.
    pub(crate) fn poll(&self, offset: usize, until: Until<'_>, pace: Pace) -> bool {
        let mut looked = 0;
        self.cpus.this().asks.set(TaskId::MAX);
        loop {
            self.read(offset);
            if until.over() {
                return true;
            }
            looked += 1;
            let ends = looked >= pace.looks();
            if !(ends && matches!(pace, Pace::Stops(_))) {
                self.cpus.pass(self.spin_hint);
            }
            if ends {
                let Pace::Clock { until, .. } = pace else { return false };
                self.cpus.pass(self.clock_price);
                if self.cpus.now() >= until {
                    return false;
                }
                looked = 0;
            }
            if self.spinners.polls_each.get() {
                continue;
            }
            match self.wait_between(offset, until, pace, looked) {
                ControlFlow::Break(over) => return over,
                ControlFlow::Continue(at) => looked = at,
            }
        }
    }

    /// Blocks before a look, `looked` of the cycle being over. Returns whether the wait is over
    /// when it or the loop has ended, or after how many reads of the cycle an interrupt was taken.
    fn wait_between(
        &self,
        offset: usize,
        until: Until<'_>,
        pace: Pace,
        looked: u32,
    ) -> ControlFlow<bool, u32> {
        let pause = self.cpus.stretched(self.spin_hint);
        let gap = match pace {
            Pace::Stops(_) => 0,
            Pace::Looks(_) => pause,
            Pace::Clock { .. } => pause + self.cpus.stretched(self.clock_price),
        };
        let mut poll = Poll {
            next: self.cpus.now(),
            period: self.hit + pause,
            pause,
            gap,
            looks: pace.looks(),
            looked,
            until: pace.until(),
            ended: None,
        };
        let (cpu, place) = (self.cpus.this(), &self.spinners.polls[self.cpus.running()]);
        place.set(poll);
        if self.await_look(offset, until, true, cpu.next_interrupt().min(poll.not_before())) {
            return ControlFlow::Break(true);
        }
        self.watchdog.progress(self.cpus.now());
        poll = place.get();
        if poll.due() <= self.cpus.now() {
            return ControlFlow::Break(false);
        }
        poll.advance(self.cpus.now());
        self.take_due();
        ControlFlow::Continue(poll.looked)
    }

    /// Lets all CPUs that read again before `limit` do so in turn, and returns the first CPU with a
    /// wait that is over. No interrupt is due before the limit, so no CPU changes its place in the
    /// tree.
    #[inline]
    pub(super) fn look_before(&self, limit: Turn) -> Option<&Cpu> {
        if self.spinners.looks.first() >= limit { None } else { self.look_all_before(limit) }
    }

    #[inline(never)]
    fn look_all_before(&self, limit: Turn) -> Option<&Cpu> {
        self.spinners.looks.change(|queue| {
            loop {
                if let Some(cpu) = self.look_in_row(queue, limit) {
                    return Some(cpu);
                }
                let turn = queue.pop_if(|look| *look < limit)?;
                let cpu = self.cpus.begin(turn);
                let spin = cpu.spin.get().expect("a CPU that looks again spins");
                debug_assert!(self.cpus.now() < cpu.next_interrupt());
                if self.look(cpu, &spin) {
                    return Some(cpu);
                }
            }
        })
    }

    /// Executes the reads before `limit` of CPUs that spin on the same word, in order, while they
    /// are of the kind that [`Row`] handles; returns the first CPU with a wait that is over.
    ///
    /// Equivalent to [`Self::look`] for each of them, with their common state loaded once. Nothing
    /// but a condition sees the engine between two looks. A condition sees the CPU that looks and
    /// its clock, which are up to date; it sees neither the hash, nor the number of operations, nor
    /// the directory, which are not; and it changes no word.
    #[inline(always)]
    fn look_in_row(&self, queue: &mut Vec<Turn>, limit: Turn) -> Option<&Cpu> {
        let first = queue.last().filter(|look| **look < limit && !self.tap.is_on())?;
        let offset = self.cpus.all[first.cpu()].spin.get()?.offset;
        let line = self.lines.at(offset);
        let mut row = Row::begin(&self.lines, line)?;
        let (mut hash, looks) = (self.cpus.hash.get(), queue.len());
        let (mut found, cores) = (None, self.cpus.cores.threads().is_none());
        while found.is_none()
            && let Some(&turn) = queue.last()
            && turn < limit
        {
            let cpu = &self.cpus.all[turn.cpu()];
            let spin = cpu.spin.get().expect("a CPU that looks again spins");
            let core = if cores { turn.cpu() } else { self.cpus.cores.of(turn.cpu()) };
            let asked = cpu.asked.get();
            if spin.offset != offset {
                break;
            }
            let Some(done) = row.read(core, asked, cpu.front.get()) else { break };
            queue.pop();
            let start = turn.at();
            debug_assert!(start >= cpu.clock.get() && start < cpu.next_interrupt());
            hash = noted(hash, schedule(start, turn.cpu(), cpu.task.get()));
            self.cpus.run(cpu, turn.cpu(), done.max(start) + self.hit);
            let front = done > asked && cores;
            if cpu.front.get() != front {
                cpu.front.set(front);
            }
            if self.spinners.looked(&self.cpus, cpu, &spin, line, start) {
                found = Some(cpu);
            }
        }
        row.end();
        self.cpus.hash.set(hash);
        self.watchdog.count((looks - queue.len()) as u64);
        let cpu = found?;
        self.end_spinning(cpu);
        Some(cpu)
    }

    /// Reads again for `cpu`, which is in turn, as its coroutine would. Whether the wait is over.
    #[inline(always)]
    pub(super) fn look(&self, cpu: &Cpu, spin: &Spin) -> bool {
        let line = self.lines.at(spin.offset);
        let start = self.cpus.now();
        self.watchdog.count(1);
        let fetched = self.fetch_asked(line, spin.offset, cpu.asked.get(), cpu.front.get());
        // After a miss the line is in front, and nothing but this CPU's own accesses moves it.
        cpu.front.set(fetched && self.cpus.cores.threads().is_none());
        let over = self.spinners.looked(&self.cpus, cpu, spin, line, start);
        if over {
            self.end_spinning(cpu);
        }
        over
    }

    /// The wait of the running CPU, `cpu`, is over.
    fn end_spinning(&self, cpu: &Cpu) {
        let mode = cpu.spin.take().expect("it spins").mode;
        cpu.mode.set(mode);
        self.mode_changed(Mode::Spin, mode);
    }
}
