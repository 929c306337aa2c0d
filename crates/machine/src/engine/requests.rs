//! Requests on their way to another last-level cache.
//!
//! CPUs that share a last-level cache form a group. A request for a line that a CPU of another
//! group owns takes half of the transfer to reach that group, whose CPUs use the line until then:
//! its owner may acquire a lock once more, and others of the group may take the line from it.
//!
//! A group has one request for a line outstanding. So requests of several groups are served in
//! order, and each begins its way when the line has reached the group before it. The CPUs of a
//! group that wait when the line arrives are served by their cache, in the order of their requests.
//!
//! Without `requests_travel` a line leaves its owner at the time of the request, and each CPU has
//! its turn at the line from then on, in whatever group.

use super::cpus::Cpus;
use crate::entry::Line;
use crate::line::Lines;
use core::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

/// CPUs in the order of their requests.
type Requesters = VecDeque<usize>;

/// The CPUs that wait for lines of other groups.
pub(crate) struct Requests {
    travel: bool,
    /// By the number of the line. The first request is on its way; the CPUs of the others have no
    /// event until it is served.
    waiting: RefCell<BTreeMap<usize, Requesters>>,
}

impl Requests {
    pub(super) fn new(travel: bool) -> Self {
        Self { travel, waiting: RefCell::default() }
    }

    /// Adds `cpu` to those that wait for line `index`; returns whether it is the only one.
    fn join(&self, index: usize, cpu: usize) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let queue = waiting.entry(index).or_default();
        queue.push_back(cpu);
        queue.len() == 1
    }

    /// Returns the CPU with the first request for line `index`.
    fn first(&self, index: usize) -> Option<usize> {
        self.waiting.borrow().get(&index)?.front().copied()
    }

    /// Removes the first request for line `index`, and those of CPUs that are `near`; returns the
    /// latter, and the CPU that is first now.
    fn leave(&self, index: usize, near: impl Fn(usize) -> bool) -> (Requesters, Option<usize>) {
        let mut waiting = self.waiting.borrow_mut();
        let queue = waiting.remove(&index).expect("a request that is served was made");
        let (inside, outside): (Requesters, Requesters) =
            queue.into_iter().skip(1).partition(|&cpu| near(cpu));
        let next = outside.front().copied();
        if next.is_some() {
            waiting.insert(index, outside);
        }
        (inside, next)
    }

    /// If a CPU of another group owns `line`, waits until the request of the running CPU has
    /// reached that group. Returns whether it was the first of its group's, and [`Self::served`]
    /// must follow. A `buffered` store waits for earlier requests only.
    #[inline(always)]
    pub(super) fn wait(&self, cpus: &Cpus, lines: &Lines, line: Line<'_>, buffered: bool) -> bool {
        self.travel && cpus.in_task() && self.wait_for(cpus, lines, line, buffered)
    }

    #[inline(never)]
    fn wait_for(&self, cpus: &Cpus, lines: &Lines, line: Line<'_>, buffered: bool) -> bool {
        let (index, cpu, core) = (lines.number(line), cpus.running(), cpus.core());
        if lines.way(line, core) == 0 || buffered && self.first(index).is_none() {
            return false;
        }
        if !self.join(index, cpu) {
            // The CPU before it ends this: the line has come to this group, or is asked for now.
            cpus.suspend(u64::MAX);
            if self.first(index) != Some(cpu) {
                return false;
            }
        }
        cpus.clock.set(lines.turns.arrived(index).max(cpus.now()) + lines.way(line, core));
        if cpus.now() > cpus.others_near.get() {
            cpus.suspend(cpus.now());
        }
        true
    }

    /// `line` arrives at `done`, for the first request. The other CPUs of this group that wait take
    /// it from there, and the request of the next group starts on its way.
    pub(super) fn served(&self, cpus: &Cpus, lines: &Lines, line: Line<'_>, done: u64) {
        let group_of = |core| lines.price.group_of(core);
        let group = group_of(cpus.core());
        let near = |cpu| group_of(cpus.cores.of(cpu)) == group;
        let (inside, next) = self.leave(lines.number(line), near);
        for cpu in inside {
            cpus.set_other(cpu, cpus.now());
        }
        if let Some(next) = next {
            cpus.set_other(next, done.max(cpus.now()));
        }
    }
}
