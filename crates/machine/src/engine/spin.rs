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

use super::time::{noted, schedule};
use super::{Cpu, Engine, Mode};
use crate::entry::Line;
use crate::preset::CPUS_MAX;
use crate::row::Row;
use crate::trace::Event;
use crate::tree::Turn;
use convoy_sync::TaskId;
use core::cell::{Cell, RefCell};
use core::cmp::Reverse;

/// When a wait is over.
#[derive(Clone, Copy)]
pub(crate) enum Until<'a> {
    /// A word has this value.
    Is(&'a Cell<u32>, u32),
    /// Whatever this says; it lives on the stack of the coroutine, which costs the host some
    /// misses.
    Says(&'a dyn Fn() -> bool),
}

impl Until<'_> {
    #[inline(always)]
    pub(super) fn over(self) -> bool {
        match self {
            Self::Is(word, value) => word.get() == value,
            Self::Says(over) => over(),
        }
    }
}

/// The condition of a spinning CPU.
#[derive(Clone, Copy)]
pub(super) struct Spin {
    /// Offset of the word.
    pub(super) offset: usize,
    /// Its referent lives at least until the spinning coroutine resumes.
    pub(super) until: Until<'static>,
    /// The mode that the spinning interrupts.
    pub(super) mode: Mode,
    /// It polls in user mode, see [`super::poll`].
    pub(super) polls: bool,
}

/// CPUs that have to read their line again after a write.
#[derive(Debug)]
pub(super) struct Looks {
    /// Latest first.
    queue: RefCell<Vec<Turn>>,
    /// The last of the queue, the earliest; [`Turn::NEVER`] when there is none.
    first: Cell<Turn>,
    /// Room for [`merge`].
    room: RefCell<Vec<Turn>>,
    /// Room for those that a write releases.
    stragglers: RefCell<Stragglers>,
}

impl Looks {
    pub(super) fn new() -> Self {
        let (queue, room, stragglers) = Default::default();
        Self { queue, first: Cell::new(Turn::NEVER), room, stragglers }
    }

    /// The earliest look.
    #[inline]
    pub(super) fn first(&self) -> Turn {
        self.first.get()
    }

    /// Takes the earliest look.
    #[inline]
    pub(super) fn pop(&self) {
        self.change(Vec::pop);
    }

    pub(super) fn remove(&self, cpu: usize) {
        self.change(|queue| queue.retain(|look| look.cpu() != cpu));
    }

    #[inline]
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Turn>) -> T) -> T {
        let mut queue = self.queue.borrow_mut();
        let result = change(&mut queue);
        self.first.set(queue.last().copied().unwrap_or(Turn::NEVER));
        result
    }
}

/// Brings the turns of `queue` from `old` on, which are in order, latest first, as are those before
/// them, to their places. Those that are later than all of them stay where they are. `room` is for
/// this function alone.
fn merge(queue: &mut [Turn], old: usize, room: &mut Vec<Turn>) {
    let ordered = |at: usize| queue[at - 1] > queue[at];
    if old == 0 || old == queue.len() || ordered(old) {
        return;
    }
    room.clear();
    room.extend_from_slice(&queue[old..]);
    let (mut before, mut place) = (old, queue.len());
    while let Some(&new) = room.last() {
        place -= 1;
        if before > 0 && queue[before - 1] < new {
            before -= 1;
            queue[place] = queue[before];
        } else {
            queue[place] = new;
            room.pop();
        }
    }
}

/// CPUs that read at individual times, latest first when sorted in descending order: the delay
/// after the first possible read, and the CPU, in one number.
#[derive(Debug, Default)]
struct Stragglers(Vec<u64>);

impl Stragglers {
    #[inline]
    fn add(&mut self, later: u64, cpu: usize) {
        debug_assert!(later <= u64::MAX / CPUS_MAX as u64, "it looks within hours");
        self.0.push(later * CPUS_MAX as u64 + cpu as u64);
    }

    /// Latest first; the delays are relative to `since`. None is left.
    fn append_to(&mut self, looks: &mut Vec<Turn>, since: u64) {
        self.0.sort_unstable_by_key(|&look| Reverse(look));
        let most = CPUS_MAX as u64;
        looks.extend(self.0.drain(..).map(|it| Turn::new(since + it / most, (it % most) as usize)));
    }
}

/// CPUs that read at the same time.
struct Crowd {
    at: u64,
    /// A bit each.
    cpus: [u64; CPUS_MAX / 64],
}

impl Crowd {
    fn new(at: u64) -> Self {
        Self { at, cpus: [0; CPUS_MAX / 64] }
    }

    #[inline]
    fn add(&mut self, cpu: usize) {
        self.cpus[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Latest first; `count` is the number of all CPUs.
    fn append_to(&self, looks: &mut Vec<Turn>, count: usize) {
        for at in (0..count.div_ceil(64)).rev() {
            let mut bits = self.cpus[at];
            while bits != 0 {
                let bit = bits.ilog2() as usize;
                looks.push(Turn::new(self.at, at * 64 + bit));
                bits ^= 1 << bit;
            }
        }
    }
}

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
