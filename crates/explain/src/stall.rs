//! Stalls: a lock is wanted and its owner is on no CPU. A stall in which a CPU idles is a convoy,
//! unless the owner sleeps for another lock: then the stall of that lock is the cause.

use crate::chain::Hop;
use crate::label::Label;
use convoy_sync::TaskId;

/// Why the owner was on no CPU when the stall began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It received the lock while it slept.
    Given,
    /// Another task preempted it.
    Preempted,
    /// It went to sleep while it owned the lock.
    Slept,
    /// It sleeps for another lock, and the stall of that lock is the cause of this one.
    Nested,
}

/// A current stall, or the longest one.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    pub(crate) class: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) owner: TaskId,
    pub(crate) label: Label,
    pub(crate) job: &'static str,
    pub(crate) call: Option<&'static str>,
    pub(crate) giver: Label,
    pub(crate) why: Why,
    /// Time of its wakeup, and the CPU of the run queue in which it then waited.
    pub(crate) woken: Option<(u64, usize)>,
    pub(crate) waiters: u32,
    pub(crate) waiters_max: u32,
    /// Idle time of each CPU: the sums at the start, then the idle time during the stall.
    pub(crate) idle: Vec<u64>,
    /// Tasks that ran on the CPU of the owner's run queue, with job and run time.
    pub(crate) ran: Vec<(Label, &'static str, u64)>,
    /// CPU on which the owner finally ran.
    pub(crate) ended_on: usize,
    /// The hops that led to the end of the stall.
    pub(crate) chain: Vec<Hop>,
}

/// Maximum number of tasks that a stall remembers to have run instead.
const RAN: usize = 32;

impl Stall {
    pub(crate) fn span(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    pub(crate) fn idled(&self) -> u64 {
        self.idle.iter().sum()
    }

    /// Records that `who` ran for `span` on the CPU that the owner waited for.
    pub(crate) fn add_ran(&mut self, who: Label, job: &'static str, span: u64) {
        if let Some((_, _, sum)) = self.ran.iter_mut().find(|(label, _, _)| *label == who) {
            *sum += span;
        } else if self.ran.len() < RAN {
            self.ran.push((who, job, span));
        }
    }
}

/// Sums over all stalls of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls {
    pub(crate) count: u64,
    pub(crate) time: u64,
    /// Stalls in which a CPU idled, their time, and the idle time of all CPUs in them.
    pub(crate) convoys: u64,
    pub(crate) convoy_time: u64,
    pub(crate) idled: u64,
    pub(crate) longest: Option<Box<Stall>>,
}

impl Stalls {
    /// Counts `stall`, which is over. Returns whether it was a convoy.
    pub(crate) fn close(&mut self, stall: Box<Stall>) -> bool {
        self.count += 1;
        self.time += stall.span();
        if stall.idled() == 0 || stall.why == Why::Nested {
            return false;
        }
        self.convoys += 1;
        self.convoy_time += stall.span();
        self.idled += stall.idled();
        if self.longest.as_ref().is_none_or(|longest| longest.span() < stall.span()) {
            self.longest = Some(stall);
        }
        true
    }
}
