//! What the generations do beyond one queue: placement of woken and new tasks, and how eagerly a
//! CPU that runs empty looks for work.

use super::rt_limit::RtLimit;
use super::rt_root::Sharing;
use crate::preset::Scheduler;

/// Which CPUs a wakeup considers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The task's last CPU and the waker's, by load (2.6.16 to 2.6.26).
    TwoCpus,
    /// The same, and then an idle CPU that shares a cache with the chosen one (3.0).
    IdleSibling,
    /// The same, but an idle one of the two is taken whatever the loads, and the search is bounded
    /// by how busy the CPUs that share the cache are (6.6 and later).
    BoundedIdleSibling,
}

/// When a CPU that has run out of tasks tries to pull one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newidle {
    /// Always (up to 2.6.26).
    Always,
    /// When its idle times last at least 0.5 ms on average (3.0).
    LongIdle,
    /// When some CPU has two tasks and its idle times are longer than the search was (6.6 and
    /// later); it then pulls one task.
    Measured,
}

/// What a wakeup does when the waker says that it is about to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synchronous {
    /// On the waker's own CPU it does not preempt the waker (2.6.23).
    Waits,
    /// It preempts as any other, and a task that only ever runs briefly, woken by another such one,
    /// comes to the waker's CPU (2.6.25; here from 2.6.24 on, and in 2.6.16).
    Gathers,
}

/// What the balancer may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    /// Every task that waits (2.6.23).
    All,
    /// Of the first 33 those that are not cache-hot.
    FewAndCold,
}

/// The rules of a generation that concern more than one CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Era {
    pub(crate) placement: Placement,
    pub(crate) newidle: Newidle,
    /// A new task starts on the idlest CPU instead of its parent's.
    pub(crate) fork_balance: bool,
    pub(crate) synchronous: Synchronous,
    pub(crate) moves: Moves,
    pub(crate) rt_sharing: Sharing,
    pub(crate) rt_limit: RtLimit,
}

impl Era {
    pub(crate) fn of(scheduler: Scheduler) -> Self {
        let (placement, newidle) = match scheduler {
            Scheduler::O1
            | Scheduler::Cfs23
            | Scheduler::Cfs24
            | Scheduler::Cfs25
            | Scheduler::Cfs26Rc1 => (Placement::TwoCpus, Newidle::Always),
            Scheduler::Cfs30 | Scheduler::Cfs37 => (Placement::IdleSibling, Newidle::LongIdle),
            Scheduler::Eevdf66 | Scheduler::Eevdf618 => {
                (Placement::BoundedIdleSibling, Newidle::Measured)
            }
        };
        let rt_sharing = match scheduler {
            Scheduler::O1 | Scheduler::Cfs23 | Scheduler::Cfs24 => Sharing::None,
            Scheduler::Cfs25 | Scheduler::Cfs26Rc1 => Sharing::Overload,
            Scheduler::Cfs30 => Sharing::LockedVectors,
            Scheduler::Cfs37 | Scheduler::Eevdf66 | Scheduler::Eevdf618 => Sharing::AtomicVectors,
        };
        let rt_limit = match scheduler {
            Scheduler::O1 | Scheduler::Cfs23 | Scheduler::Cfs24 | Scheduler::Eevdf618 => {
                RtLimit::None
            }
            Scheduler::Cfs25 => RtLimit::AtTicks,
            Scheduler::Cfs26Rc1 | Scheduler::Cfs30 | Scheduler::Cfs37 => {
                RtLimit::ByTimer { borrows: true }
            }
            Scheduler::Eevdf66 => RtLimit::ByTimer { borrows: false },
        };
        let first_fair = scheduler == Scheduler::Cfs23;
        Self {
            placement,
            newidle,
            fork_balance: !matches!(scheduler, Scheduler::O1 | Scheduler::Cfs23),
            synchronous: if first_fair { Synchronous::Waits } else { Synchronous::Gathers },
            moves: if first_fair { Moves::All } else { Moves::FewAndCold },
            rt_sharing,
            rt_limit,
        }
    }
}
