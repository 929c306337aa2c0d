//! The fair server: a task of the deadline class on each CPU that runs ordinary tasks for 50 ms of
//! each second in which real-time tasks kept them waiting (`kernel/sched/deadline.c`, from 6.12 on,
//! commit 557a6bfc662c).
//!
//! A server begins when ordinary tasks are there. It *defers*: their run time without it is charged
//! to it too, and a new period begins when that is 50 ms. It *serves*, before real-time tasks, once
//! it must in order to run 50 ms within its period, and then at the beginning of each period, until
//! no ordinary task is left.
//!
//! *Simplified:* ticks check its timers.

use core::cell::Cell;

const RUNTIME_NS: u64 = 50_000_000;
const PERIOD_NS: u64 = 1_000_000_000;

/// One server. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No ordinary tasks.
    Off,
    Defers {
        left: u64,
        deadline: u64,
    },
    Serves {
        left: u64,
        deadline: u64,
    },
    /// It has served for its time in the period that ends at `deadline`.
    Spent {
        deadline: u64,
    },
}

/// The servers of all CPUs; none where the kernel has no such server.
#[derive(Debug)]
pub(crate) struct FairServers(Vec<Cell<State>>);

impl FairServers {
    /// The servers of `cpus` CPUs.
    pub(crate) fn new(cpus: usize) -> Self {
        Self(vec![Cell::new(State::Off); cpus])
    }

    fn new_period(now: u64) -> State {
        State::Defers { left: RUNTIME_NS, deadline: now + PERIOD_NS }
    }

    /// Returns whether ordinary tasks of `cpu` come before real-time tasks.
    pub(crate) fn serves(&self, cpu: usize) -> bool {
        self.0.get(cpu).is_some_and(|server| matches!(server.get(), State::Serves { .. }))
    }

    /// An ordinary task has run on `cpu` for `ran` until `now`. Returns whether its time is over.
    pub(crate) fn charge(&self, cpu: usize, ran: u64, now: u64) -> bool {
        let Some(server) = self.0.get(cpu) else { return false };
        match server.get() {
            State::Defers { left, .. } if left <= ran => server.set(Self::new_period(now)),
            State::Defers { left, deadline } => {
                server.set(State::Defers { left: left - ran, deadline });
            }
            State::Serves { left, deadline } if left <= ran => {
                server.set(State::Spent { deadline });
                return true;
            }
            State::Serves { left, deadline } => {
                server.set(State::Serves { left: left - ran, deadline });
            }
            State::Off | State::Spent { .. } => {}
        }
        false
    }

    /// At the tick of `cpu`, whether there are `ordinary` tasks. Returns whether it begins to
    /// serve.
    pub(crate) fn tick(&self, cpu: usize, ordinary: bool, now: u64) -> bool {
        let Some(server) = self.0.get(cpu) else { return false };
        let before = server.get();
        server.set(match before {
            _ if !ordinary => State::Off,
            State::Off => Self::new_period(now),
            State::Defers { left, deadline } if now + left >= deadline => {
                State::Serves { left, deadline: deadline.max(now) }
            }
            State::Spent { deadline } if now >= deadline => {
                State::Serves { left: RUNTIME_NS, deadline: deadline + PERIOD_NS }
            }
            other => other,
        });
        before != server.get() && self.serves(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn it_serves_at_the_end_of_the_first_second_and_then_at_the_beginning_of_each() {
        let servers = FairServers::new(1);
        assert!(!servers.tick(0, true, 0));
        assert!(!servers.tick(0, true, 949 * MS) && servers.tick(0, true, 950 * MS));
        assert!(!servers.charge(0, 20 * MS, 970 * MS) && servers.charge(0, 30 * MS, 1000 * MS));
        assert!(!servers.serves(0) && servers.tick(0, true, 1000 * MS));
        assert!(servers.charge(0, 50 * MS, 1050 * MS));
        assert!(!servers.tick(0, true, 1996 * MS) && servers.tick(0, true, 2000 * MS));
        servers.tick(0, false, 2004 * MS);
        assert!(!servers.serves(0), "nothing to serve");
    }

    #[test]
    fn tasks_that_run_without_it_put_it_off() {
        let servers = FairServers::new(1);
        servers.tick(0, true, 0);
        assert!(!servers.charge(0, 20 * MS, 100 * MS), "it serves 20 ms later");
        assert!(!servers.tick(0, true, 969 * MS) && servers.tick(0, true, 970 * MS));
        let servers = FairServers::new(1);
        servers.tick(0, true, 0);
        servers.charge(0, 50 * MS, 500 * MS);
        assert!(!servers.tick(0, true, 1449 * MS) && servers.tick(0, true, 1450 * MS));
        let none = FairServers::new(0);
        assert!(!none.tick(0, true, 2000 * MS) && !none.charge(0, 60 * MS, 2000 * MS));
    }
}
