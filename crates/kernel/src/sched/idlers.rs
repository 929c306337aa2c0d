//! Why a CPU idles while tasks wait on another one: each picosecond is put down to the rule of the
//! kernel that let it be.
//!
//! Nothing here decides anything. Whoever looks for work for an idle CPU, or queues a task behind
//! another one, says why it left things as they are. What a look found counts until the next tick;
//! an idle CPU that is not looked at again by then idles because nobody looks. An idle CPU whom
//! nobody has looked at since tasks wait idles because the first of them was queued where it was.

use core::cell::Cell;

/// Why a CPU idles while a task waits elsewhere. Of several levels that were looked at the greatest
/// counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum IdleCause {
    /// No rule accounts for it.
    #[default]
    Unexplained,
    /// No other group has more tasks than it has capacity for.
    NoBusyGroup,
    /// The interval of the level is not over.
    NotDue,
    /// Its tick is stopped and nobody balances for it.
    NotServed,
    /// The same, and a kick to do so has been ignored by its CPU.
    KickLost,
    /// Another CPU balances at this level.
    Serialized,
    /// Another CPU of its group balances for the group.
    NotMine,
    /// Its idle times are too short to look for work.
    ShortIdle,
    /// Its group has as much load as the busiest, or as the mean.
    BelowAverage,
    /// The difference of loads is tolerated.
    Tolerated,
    /// Its group has as many idle CPUs as the busiest.
    FewerIdle,
    /// The imbalance is less than one task.
    TooSmall,
    /// The one queue that was looked at had no task that waits.
    OneQueue,
    /// The tasks that wait there may not leave their CPU.
    Bound,
    /// They ran, or were woken, too recently.
    Hot,
    /// A wakeup considered two CPUs only.
    WokenAmongTwo,
    /// A wakeup found no idle CPU that shares the cache.
    WokenInCache,
    /// A wakeup took a CPU for idle that had been given a task already.
    WokenOnStale,
    /// Fork or exec chose the CPU.
    Forked,
    /// A task was pulled or pushed, or changed its class.
    Moved,
    /// It has been given a task and is about to run it.
    Waking,
}

/// How many causes there are.
pub const IDLE_CAUSES: usize = IdleCause::ALL.len();

impl IdleCause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 21] = [
        Self::Unexplained,
        Self::NoBusyGroup,
        Self::NotDue,
        Self::NotServed,
        Self::KickLost,
        Self::Serialized,
        Self::NotMine,
        Self::ShortIdle,
        Self::BelowAverage,
        Self::Tolerated,
        Self::FewerIdle,
        Self::TooSmall,
        Self::OneQueue,
        Self::Bound,
        Self::Hot,
        Self::WokenAmongTwo,
        Self::WokenInCache,
        Self::WokenOnStale,
        Self::Forked,
        Self::Moved,
        Self::Waking,
    ];

    /// What texts call it.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// The head of its column.
    pub const fn title(self) -> &'static str {
        self.names().1
    }

    /// Its name in records: time in percent of all CPU time.
    pub const fn key(self) -> &'static str {
        self.names().2
    }

    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Unexplained => ("unexplained", "unexplained", "idle_unexplained_percent"),
            Self::NoBusyGroup => (
                "balanced: no group has more tasks than capacity",
                "no busy group",
                "idle_no_busy_group_percent",
            ),
            Self::NotDue => ("the next look is not due", "not due", "idle_not_due_percent"),
            Self::NotServed => {
                ("tick stopped and nobody kicked", "not kicked", "idle_not_kicked_percent")
            }
            Self::KickLost => {
                ("tick stopped and the kick did nothing", "kick lost", "idle_kick_lost_percent")
            }
            Self::Serialized => {
                ("another CPU balances at this level", "serialized", "idle_serialized_percent")
            }
            Self::NotMine => {
                ("another CPU of the group balances for it", "another's", "idle_anothers_percent")
            }
            Self::ShortIdle => {
                ("newly idle, not tried: idle times are short", "short idle", "idle_short_percent")
            }
            Self::BelowAverage => {
                ("balanced: as loaded as the busiest or the mean", "mean", "idle_mean_percent")
            }
            Self::Tolerated => {
                ("balanced: the difference is tolerated", "tolerated", "idle_tolerated_percent")
            }
            Self::FewerIdle => {
                ("balanced: as many CPUs idle there", "as idle", "idle_as_idle_percent")
            }
            Self::TooSmall => ("balanced: less than one task", "small", "idle_small_percent"),
            Self::OneQueue => {
                ("the one queue looked at had none to give", "one queue", "idle_one_queue_percent")
            }
            Self::Hot => ("tasks are cache-hot", "hot", "idle_hot_percent"),
            Self::Bound => ("tasks are bound to their CPU", "bound", "idle_bound_percent"),
            Self::WokenAmongTwo => {
                ("woken: two CPUs considered", "two CPUs", "idle_two_cpus_percent")
            }
            Self::WokenInCache => {
                ("woken: no CPU of the cache idle", "cache full", "idle_cache_full_percent")
            }
            Self::WokenOnStale => {
                ("woken: onto a CPU that only seemed idle", "stacked", "idle_stacked_percent")
            }
            Self::Forked => ("fork or exec chose a busy CPU", "forked", "idle_forked_percent"),
            Self::Moved => ("moved behind another task", "moved", "idle_moved_percent"),
            Self::Waking => ("about to run a task it was given", "waking", "idle_waking_percent"),
        }
    }
}

/// Time of all CPUs by cause, picoseconds.
pub type IdleTimes = [u64; IDLE_CAUSES];

/// One CPU.
#[derive(Default)]
struct Idler {
    /// Since when it idles without its time being booked.
    since: Cell<Option<u64>>,
    /// What the last look found, and up to when that counts.
    cause: Cell<IdleCause>,
    until: Cell<u64>,
    /// What counts afterwards.
    late: Cell<IdleCause>,
}

/// The books.
pub(crate) struct Idlers {
    cpus: Vec<Idler>,
    times: Cell<IdleTimes>,
    /// A task waits somewhere.
    crowd: Cell<bool>,
    /// Why the next task to be queued is queued where it is.
    queued: Cell<IdleCause>,
    /// A kick has been ignored, and no pass over the idle CPUs has come since.
    pub(super) kick_lost: Cell<bool>,
    /// Length of a tick, for which a look counts.
    pub(super) tick_ps: Cell<u64>,
}

impl Idlers {
    /// For `cpus` CPUs.
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            cpus: (0..cpus).map(|_| Idler::default()).collect(),
            times: Cell::new([0; IDLE_CAUSES]),
            crowd: Cell::new(false),
            queued: Cell::new(IdleCause::Moved),
            kick_lost: Cell::new(false),
            tick_ps: Cell::new(0),
        }
    }

    /// Times so far; that of CPUs which idle now up to `now`.
    pub(crate) fn times(&self, now: u64) -> IdleTimes {
        (0..self.cpus.len()).for_each(|cpu| self.settle(cpu, now));
        self.times.get()
    }

    fn settle(&self, cpu: usize, now: u64) {
        let idler = &self.cpus[cpu];
        let Some(since) = idler.since.get() else { return };
        // CPUs may run ahead of each other by less than a microsecond.
        if now <= since {
            return;
        }
        idler.since.set(Some(now));
        if !self.crowd.get() {
            return;
        }
        let early = now.min(idler.until.get()).saturating_sub(since);
        let late = match idler.late.get() {
            IdleCause::NotServed if self.kick_lost.get() => IdleCause::KickLost,
            late => late,
        };
        let mut times = self.times.get();
        times[idler.cause.get() as usize] += early;
        times[late as usize] += now - since - early;
        self.times.set(times);
    }

    /// `cpu` idles, and a look for work at `now` left it so because of `cause`.
    pub(crate) fn looked(&self, cpu: usize, cause: IdleCause, now: u64) {
        self.settle(cpu, now);
        self.starts(cpu, cause, now);
    }

    fn starts(&self, cpu: usize, cause: IdleCause, now: u64) {
        let idler = &self.cpus[cpu];
        idler.since.set(Some(idler.since.get().unwrap_or(0).max(now)));
        idler.cause.set(cause);
        idler.until.set(now + self.tick_ps.get());
    }

    /// Whether `cpu` idles.
    pub(crate) fn idles(&self, cpu: usize) -> bool {
        self.cpus[cpu].since.get().is_some()
    }

    /// `cpu`, which idles, has been given a task at `now`.
    pub(crate) fn given(&self, cpu: usize, now: u64) {
        self.looked(cpu, IdleCause::Waking, now);
    }

    /// Whether the tick of `cpu`, which idles, goes on: what its idling is put down to when nobody
    /// looks.
    pub(crate) fn ticks(&self, cpu: usize, ticks: bool, now: u64) {
        self.settle(cpu, now);
        let late = if ticks { IdleCause::NotDue } else { IdleCause::NotServed };
        self.cpus[cpu].late.set(late);
    }

    /// `cpu` has something to run.
    pub(crate) fn runs(&self, cpu: usize, now: u64) {
        self.settle(cpu, now);
        self.cpus[cpu].since.set(None);
    }

    /// The next task that is queued behind another one is there because of `cause`.
    pub(crate) fn queues(&self, cause: IdleCause) {
        self.queued.set(cause);
    }

    /// The first task waits.
    pub(crate) fn crowd_begins(&self, now: u64) {
        self.crowd.set(true);
        let cause = self.queued.replace(IdleCause::Moved);
        for (cpu, idler) in self.cpus.iter().enumerate() {
            if idler.since.get().is_some() && idler.cause.get() != IdleCause::Waking {
                self.starts(cpu, cause, now);
            }
        }
    }

    /// No task waits any more.
    pub(crate) fn crowd_ends(&self, now: u64) {
        (0..self.cpus.len()).for_each(|cpu| self.settle(cpu, now));
        self.crowd.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_for_a_tick_and_then_that_nobody_looks() {
        let idlers = Idlers::new(2);
        idlers.tick_ps.set(100);
        idlers.looked(1, IdleCause::Hot, 0);
        idlers.ticks(1, false, 0);
        idlers.queues(IdleCause::Forked);
        idlers.crowd_begins(50);
        idlers.looked(1, IdleCause::Hot, 60);
        idlers.crowd_ends(200);
        idlers.crowd_begins(300);
        idlers.kick_lost.set(true);
        idlers.runs(1, 450);
        let times = idlers.times(1000);
        let of = |cause| times[cause as usize];
        assert_eq!(of(IdleCause::Forked), 10);
        assert_eq!(of(IdleCause::Hot), 100);
        assert_eq!(of(IdleCause::NotServed), 40);
        assert_eq!((of(IdleCause::Moved), of(IdleCause::KickLost)), (100, 50));
        assert_eq!(times.iter().sum::<u64>(), 10 + 140 + 150);
    }

    #[test]
    fn causes_stand_in_the_order_of_their_numbers() {
        for (number, cause) in IdleCause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, number);
        }
    }
}
