//! Spinning on a word, without an event per iteration and without resuming the coroutine for a read
//! that sees the old value.
//!
//! A CPU that spins is blocked until the line of the word is written. Then it fetches the line
//! again, in its turn and at the ordinary price, and the engine evaluates the condition of the
//! suspended coroutine; only a read that ends the wait, or an interrupt, resumes the coroutine. A
//! release under 63 waiters is 63 fetches and one resumption.
//!
//! A condition may also depend on whether a task is running. The CPU then evaluates it again when
//! that task leaves its CPU; the line of the task's state, which a real spinner polls, is free.

use super::Engine;
use super::cpu::Cpu;
use super::looks::{Crowd, Spin, Until, merge};
use super::mode::Mode;
use super::time::{noted, schedule};
use crate::entry::Line;
use crate::row::Row;
use crate::trace::Event;
use crate::tree::Turn;
use convoy_sync::TaskId;

impl Engine {
    /// Blocks until the wait is over. `until` is evaluated after each fetch of the line at
    /// `offset`: now, after each write of the line, and after each interrupt. It must not use
    /// simulated memory.
    pub(crate) fn spin(&self, offset: usize, until: Until<'_>) {
        // SAFETY: only the lifetime changes. The engine uses it only while it stands in
        // `Cpu::spin`, which is from here until this coroutine goes on, so what it refers to is
        // alive.
        let until = unsafe { core::mem::transmute::<Until<'_>, Until<'static>>(until) };
        let line = self.lines.at(offset);
        self.this().asks.set(TaskId::MAX);
        while !until.over() {
            let mode = self.set_mode(Mode::Spin);
            let index = self.cpu.get();
            let cpu = &self.cpus[index];
            self.link_spinner(line, cpu, index);
            cpu.spin.set(Some(Spin { offset, until, mode, polls: false }));
            cpu.front.set(false);
            cpu.blocked.set(true);
            self.suspend(Self::next_interrupt(cpu));
            cpu.blocked.set(false);
            if cpu.spin.take().is_none() {
                return;
            }
            self.unlink_spinner(line, index);
            self.looks.remove(index);
            self.set_mode(mode);
            if self.clock.get() >= Self::next_interrupt(cpu) {
                self.interrupt();
            }
            self.read(offset);
        }
    }

    /// Lets all CPUs that read again before `limit` do so in turn, and returns the first CPU with a
    /// wait that is over. No interrupt is due before the limit, so no CPU changes its place in the
    /// tree.
    #[inline]
    pub(super) fn look_before(&self, limit: Turn) -> Option<&Cpu> {
        if self.looks.first() >= limit { None } else { self.look_all_before(limit) }
    }

    #[inline(never)]
    fn look_all_before(&self, limit: Turn) -> Option<&Cpu> {
        self.looks.change(|queue| {
            loop {
                if let Some(cpu) = self.look_in_row(queue, limit) {
                    return Some(cpu);
                }
                let turn = queue.pop_if(|look| *look < limit)?;
                let cpu = self.begin(turn);
                let spin = cpu.spin.get().expect("a CPU that looks again spins");
                debug_assert!(self.clock.get() < Self::next_interrupt(cpu));
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
        let first = queue.last().filter(|look| **look < limit && !self.records())?;
        let offset = self.cpus[first.cpu()].spin.get()?.offset;
        let line = self.lines.at(offset);
        let mut row = Row::begin(&self.lines, line)?;
        let (mut hash, looks) = (self.hash.get(), queue.len());
        let (mut found, cores) = (None, self.threads.is_none());
        while found.is_none()
            && let Some(&turn) = queue.last()
            && turn < limit
        {
            let cpu = &self.cpus[turn.cpu()];
            let spin = cpu.spin.get().expect("a CPU that looks again spins");
            let (asked, core) =
                (cpu.asked.get(), if cores { turn.cpu() } else { self.core_of(turn.cpu()) });
            if spin.offset != offset {
                break;
            }
            let Some(done) = row.read(core, asked, cpu.front.get()) else { break };
            queue.pop();
            let start = turn.at();
            debug_assert!(start >= cpu.clock.get() && start < Self::next_interrupt(cpu));
            hash = noted(hash, schedule(start, turn.cpu(), cpu.task.get()));
            self.at_look(cpu, turn.cpu(), done.max(start) + self.hit);
            let front = done > asked && cores;
            if cpu.front.get() != front {
                cpu.front.set(front);
            }
            if self.looked(cpu, &spin, line, start) {
                found = Some(cpu);
            }
        }
        row.end();
        self.hash.set(hash);
        self.ops.set(self.ops.get() + (looks - queue.len()) as u64);
        let cpu = found?;
        self.end_spinning(cpu);
        Some(cpu)
    }

    /// `cpu`, number `index`, is the running one, at `now`.
    #[inline(always)]
    fn at_look(&self, cpu: &Cpu, index: usize, now: u64) {
        self.cpu.set(index);
        self.this.set(cpu);
        self.clock.set(now);
    }

    /// Reads again for `cpu`, which is in turn, as its coroutine would. Whether the wait is over.
    #[inline(always)]
    pub(super) fn look(&self, cpu: &Cpu, spin: &Spin) -> bool {
        let line = self.lines.at(spin.offset);
        let start = self.clock.get();
        self.ops.set(self.ops.get() + 1);
        let fetched = self.fetch_asked(line, spin.offset, cpu.asked.get(), cpu.front.get());
        // After a miss the line is in front, and nothing but this CPU's own accesses moves it.
        cpu.front.set(fetched && self.threads.is_none());
        let over = self.looked(cpu, spin, line, start);
        if over {
            self.end_spinning(cpu);
        }
        over
    }

    /// Accounts a read of `line` by the running CPU, `cpu`, from `start` until now. Whether its
    /// wait is over; if not, it waits for the next write.
    #[inline(always)]
    fn looked(&self, cpu: &Cpu, spin: &Spin, line: Line<'_>, start: u64) -> bool {
        cpu.account(Mode::Spin, start - cpu.mode_since.replace(start));
        let over = spin.until.over();
        if !over {
            // The fetch counts as work of the mode that spins.
            let now = self.clock.get();
            cpu.account(spin.mode, now - start);
            cpu.mode_since.set(now);
            self.link_spinner(line, cpu, self.cpu.get());
            cpu.clock.set(now);
            if spin.polls {
                self.polls[self.cpu.get()].update(|mut poll| {
                    poll.looked(now);
                    poll
                });
            }
        }
        over
    }

    /// The wait of the running CPU, `cpu`, is over.
    fn end_spinning(&self, cpu: &Cpu) {
        let mode = cpu.spin.take().expect("it spins").mode;
        cpu.mode.set(mode);
        self.mode_changed(Mode::Spin, mode);
        self.tell(|| Event::Mode(mode));
    }

    /// Releases the spinners on `line`, which was written at the request of `since`: they read it
    /// again, in the kernel not before now.
    #[inline]
    pub(super) fn release_spinners(&self, line: Line<'_>, since: u64) {
        let first = line.spinner.replace(0) as usize;
        if first != 0 {
            // Before this no other CPU acts, and none has an interrupt.
            self.release_all(first, self.others_near.get(), since);
        }
    }

    /// CPUs that share the writer's last-level cache read half a transfer later: their request is
    /// on its way for this time, and the writer may use the line once more. Between caches the
    /// request has reached the line's home by the time the writer has the line, and is next; it
    /// reaches the writer when the home knows that the line has arrived.
    ///
    /// No CPU that spins has an interrupt up to `safe`.
    #[cold]
    fn release_all(&self, first: usize, safe: u64, since: u64) {
        let now = self.clock.get();
        let mine = self.group_of(self.cpu.get());
        // By how much later: most look at one of two times, so they need no sorting.
        let (later, kept) = (self.lines.price.llc / 2, self.lines.price.kept);
        let safe = safe.max(self.tree.first_other(self.cpu.get()).at());
        let (mut far, mut near) = (Crowd::new(now + kept), Crowd::new(now + later));
        let stragglers = &mut *self.looks.stragglers.borrow_mut();
        self.looks.change(|looks| {
            let old = looks.len();
            let mut next = first;
            while next != 0 {
                let (index, cpu) = (next - 1, &self.cpus[next - 1]);
                next = cpu.spin_next.get() as usize;
                cpu.linked.set(false);
                if cpu.spin.get().is_some_and(|spin| spin.polls) {
                    if let Some(at) = self.release_poll(cpu, index, since) {
                        stragglers.add(at - since, index);
                    }
                    continue;
                }
                let asked = cpu.clock.get().max(now);
                cpu.asked.set(asked);
                let inside = mine.contains(&index);
                let at = asked + if inside { later } else { kept };
                // The CPU keeps its place in the tree, which is its next interrupt, unless that
                // comes before its last fetch is done.
                if at > safe && at > self.tree.key(index) {
                    self.set_other(index, at);
                } else if asked > now {
                    stragglers.add(at - since, index);
                } else if inside {
                    near.add(index);
                } else {
                    far.add(index);
                }
            }
            let room = &mut *self.looks.room.borrow_mut();
            stragglers.append_to(looks, since);
            merge(looks, old, room);
            for crowd in [near, far] {
                let old = looks.len();
                crowd.append_to(looks, self.cpus.len());
                merge(looks, old, room);
            }
        });
        self.limit(self.looks.first());
    }

    /// Releases the spinners whose condition depends on whether `task` is running, since it has
    /// left the running CPU.
    #[inline]
    pub(super) fn release_askers(&self, task: TaskId) {
        if self.asked.get() {
            self.release_askers_of(task);
        }
    }

    #[cold]
    fn release_askers_of(&self, task: TaskId) {
        for (index, cpu) in self.cpus.iter().enumerate() {
            if cpu.asks.get() != task || !cpu.linked.get() {
                continue;
            }
            if let Some(spin) = cpu.spin.get() {
                self.unlink_spinner(self.lines.at(spin.offset), index);
                self.release_all(index + 1, 0, self.clock.get());
            }
        }
    }

    /// Whether `task` is on a CPU, for the condition of a spin.
    pub(crate) fn ask(&self, task: TaskId) -> bool {
        self.asked.set(true);
        self.this().asks.set(task);
        self.os().on_cpu(task)
    }

    #[inline]
    pub(super) fn link_spinner(&self, line: Line<'_>, cpu: &Cpu, index: usize) {
        cpu.spin_next.set(line.spinner.replace(index as u16 + 1));
        cpu.linked.set(true);
        if self.threads.is_some() {
            // A sibling that has the line must see the spinner when it writes.
            line.set_quick(0);
        }
    }

    #[inline]
    pub(super) fn unlink_spinner(&self, line: Line<'_>, index: usize) {
        if self.cpus[index].linked.replace(false) {
            self.unlink_linked(line, index);
        }
    }

    #[cold]
    fn unlink_linked(&self, line: Line<'_>, index: usize) {
        let tag = index as u16 + 1;
        let mut link = &line.spinner;
        while link.get() != tag {
            link = &self.cpus[link.get() as usize - 1].spin_next;
        }
        link.set(self.cpus[index].spin_next.replace(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_in_order_whoever_came_first() {
        let mut crowd = Crowd::new(7);
        for cpu in [64, 3, 1023, 0, 63] {
            crowd.add(cpu);
        }
        let mut looks = vec![Turn::new(9, 1)];
        crowd.append_to(&mut looks, 1024);
        let expected = [(9, 1), (7, 1023), (7, 64), (7, 63), (7, 3), (7, 0)];
        assert_eq!(looks, expected.map(|(at, cpu)| Turn::new(at, cpu)));
    }

    #[test]
    fn merging_is_sorting() {
        let (mut state, mut room) = (1_u64, Vec::new());
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let (old, new) = (draw(9) as usize, draw(9) as usize);
            let mut queue: Vec<_> = (0..old + new).map(|cpu| Turn::new(draw(8), cpu)).collect();
            queue[..old].sort_unstable_by(|a, b| b.cmp(a));
            queue[old..].sort_unstable_by(|a, b| b.cmp(a));
            let mut sorted = queue.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            merge(&mut queue, old, &mut room);
            assert_eq!(queue, sorted);
        }
    }
}
