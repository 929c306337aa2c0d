//! The CPUs that spin: the lines for which they wait, the times at which they read again, and their
//! positions in loops that poll in user mode.

use super::cpu::Cpu;
use super::cpus::Cpus;
use super::looks::{Crowd, Looks, Spin, merge};
use super::loops::Poll;
use super::mode::Mode;
use crate::entry::Line;
use crate::line::Lines;
use convoy_sync::TaskId;
use core::cell::Cell;

pub(crate) struct Spinners {
    pub(super) looks: Looks,
    /// The position of each CPU in the loop in which it polls in user mode.
    pub(super) polls: Box<[Cell<Poll>]>,
    /// Whether each of their looks is executed, as a reference for tests.
    pub(crate) polls_each: Cell<bool>,
    /// Whether locks of user mode wait without looking for a while, as in a program that knows that
    /// it has one CPU.
    pub(crate) spins_never: Cell<bool>,
    /// Some condition of a spin has asked whether a task runs.
    asked: Cell<bool>,
}

impl Spinners {
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            looks: Looks::new(),
            polls: (0..cpus).map(|_| Cell::default()).collect(),
            polls_each: Cell::new(false),
            spins_never: Cell::new(false),
            asked: Cell::new(false),
        }
    }

    /// The condition of the spin of `cpu` depends on whether `task` runs.
    pub(crate) fn ask(&self, cpu: &Cpu, task: TaskId) {
        self.asked.set(true);
        cpu.asks.set(task);
    }

    /// CPU `index` stops spinning before its wait is over.
    pub(super) fn remove(&self, cpus: &Cpus, line: Line<'_>, index: usize) {
        cpus.unlink(line, index);
        self.looks.change(|queue| queue.retain(|look| look.cpu() != index));
    }

    /// Accounts a read of `line` by the running CPU, `cpu`, from `start` until now. Returns whether
    /// its wait is over; if not, it waits for the next write.
    #[inline(always)]
    pub(super) fn looked(
        &self,
        cpus: &Cpus,
        cpu: &Cpu,
        spin: &Spin,
        line: Line<'_>,
        start: u64,
    ) -> bool {
        cpu.account(Mode::Spin, start - cpu.mode_since.replace(start));
        let over = spin.until.over();
        if !over {
            // The fetch counts as work of the mode that spins.
            let now = cpus.now();
            cpu.account(spin.mode, now - start);
            cpu.mode_since.set(now);
            cpus.link(line, cpu);
            cpu.clock.set(now);
            if spin.polls {
                self.polls[cpus.running()].update(|mut poll| {
                    poll.looked(now);
                    poll
                });
            }
        }
        over
    }

    /// Returns whether the loop of the running CPU has ended. If not, it gets another turn.
    pub(super) fn poll_ends(&self, cpus: &Cpus) -> bool {
        let due = self.polls[cpus.running()].get().due();
        let ends = due <= cpus.now();
        if !ends {
            cpus.tree.set(cpus.running(), cpus.this().next_interrupt().min(due));
        }
        ends
    }

    /// The line at which `cpu`, number `index`, polls was written at `since`. Returns when it looks
    /// next, unless an interrupt or the end of the loop comes first.
    #[inline]
    fn release_poll(&self, cpus: &Cpus, cpu: &Cpu, index: usize, since: u64) -> Option<u64> {
        let mut poll = self.polls[index].get();
        let due = poll.due();
        poll.advance(since);
        let at = poll.next;
        let interrupt = cpu.next_interrupt();
        if at >= due || at >= interrupt {
            return None;
        }
        cpu.asked.set(at);
        self.polls[index].set(poll);
        if at >= cpus.tree.key(index) {
            cpus.set_other(index, due.min(interrupt));
        }
        Some(at)
    }

    /// Releases the spinners on `line`, which was written at the request of `since`: they read it
    /// again, in the kernel not before now.
    #[inline]
    pub(super) fn release(&self, cpus: &Cpus, lines: &Lines, line: Line<'_>, since: u64) {
        let first = line.spinner.replace(0) as usize;
        if first != 0 {
            // Before this no other CPU acts, and none has an interrupt.
            self.release_all(cpus, lines, first, cpus.others_near.get(), since);
        }
    }

    /// CPUs that share the writer's last-level cache read half a transfer later: their request is
    /// on its way for this time, and the writer may use the line once more. Between caches the
    /// request has reached the line's home by the time the writer has the line, and is next; it
    /// reaches the writer when the home knows that the line has arrived.
    ///
    /// No CPU that spins has an interrupt up to `safe`.
    #[cold]
    fn release_all(&self, cpus: &Cpus, lines: &Lines, first: usize, safe: u64, since: u64) {
        let now = cpus.now();
        let mine = cpus.cores.group_of(cpus.running(), lines.llc);
        // By how much later: most look at one of two times, so they need no sorting.
        let (later, kept) = (lines.price.llc / 2, lines.price.kept);
        let safe = safe.max(cpus.tree.first_other(cpus.running()).at());
        let (mut far, mut near) = (Crowd::new(now + kept), Crowd::new(now + later));
        let stragglers = &mut *self.looks.stragglers.borrow_mut();
        self.looks.change(|looks| {
            let old = looks.len();
            let mut next = first;
            while next != 0 {
                let (index, cpu) = (next - 1, &cpus.all[next - 1]);
                next = cpu.spin_next.get() as usize;
                cpu.linked.set(false);
                if cpu.spin.get().is_some_and(|spin| spin.polls) {
                    if let Some(at) = self.release_poll(cpus, cpu, index, since) {
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
                if at > safe && at > cpus.tree.key(index) {
                    cpus.set_other(index, at);
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
                crowd.append_to(looks, cpus.all.len());
                merge(looks, old, room);
            }
        });
        cpus.limit(self.looks.first());
    }

    /// Releases the spinners whose condition depends on whether `task` is running, since it has
    /// left the running CPU.
    #[inline]
    pub(super) fn release_askers(&self, cpus: &Cpus, lines: &Lines, task: TaskId) {
        if self.asked.get() {
            self.release_askers_of(cpus, lines, task);
        }
    }

    #[cold]
    fn release_askers_of(&self, cpus: &Cpus, lines: &Lines, task: TaskId) {
        for (index, cpu) in cpus.all.iter().enumerate() {
            if cpu.asks.get() != task || !cpu.linked.get() {
                continue;
            }
            if let Some(spin) = cpu.spin.get() {
                cpus.unlink(lines.at(spin.offset), index);
                self.release_all(cpus, lines, index + 1, 0, cpus.now());
            }
        }
    }
}
