//! Why a CPU idles while tasks wait on another one: each picosecond is put down to the rule of the
//! kernel that let it be.
//!
//! Nothing here decides anything. Code that searches for work for an idle CPU, or queues a task
//! behind another one, records why it did not change the situation. The result of a search counts
//! until the next tick. From then on the CPU idles because there is no search, which has to be
//! justified, too: the next search is not due, or has not been requested by a CPU that may do so.
//! Once a look is due that does not come ([`Idlers::serves`], [`Idlers::due`]), or a wakeup queued
//! a task although it searches this CPU ([`Idlers::passed_over`]), no rule accounts for the idle
//! time, and it is *unexplained*. An idle CPU for which there was no search since tasks wait idles
//! because of the placement of the first of them.

use core::cell::Cell;
use core::ops::Range;

/// Why a CPU idles while a task waits elsewhere. Of several searched levels the greatest cause
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
    /// Its tick is stopped, and no CPU that may ask for a look has ticked.
    NotServed,
    /// The same, and the CPU that should search has been kicked and is about to.
    Asked,
    /// The same, and the only CPU that may be kicked is busy.
    Misdirected,
    /// The same, and the CPU that searched for all idle CPUs got work before it reached this one.
    CutShort,
    /// The same, and a kick to look has been ignored by its CPU.
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
    /// The only queue that was searched had no waiting task.
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
    pub const ALL: [Self; 24] = [
        Self::Unexplained,
        Self::NoBusyGroup,
        Self::NotDue,
        Self::NotServed,
        Self::Asked,
        Self::Misdirected,
        Self::CutShort,
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
                ("tick stopped and not kicked", "not kicked", "idle_not_kicked_percent")
            }
            Self::Asked => {
                ("tick stopped, and a look is on its way", "asked", "idle_asked_percent")
            }
            Self::Misdirected => (
                "tick stopped and the kick is for a busy CPU",
                "misdirected",
                "idle_misdirected_percent",
            ),
            Self::CutShort => (
                "tick stopped and the look for all was cut short",
                "cut short",
                "idle_cut_short_percent",
            ),
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

/// What idle time is put down to up to a point in time, and afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Excuse {
    cause: IdleCause,
    until: u64,
    then: IdleCause,
}

impl Excuse {
    const fn always(cause: IdleCause) -> Self {
        Self { cause, until: u64::MAX, then: cause }
    }
}

/// One CPU.
struct Idler {
    /// Since when it idles without its time being booked, and since when at all.
    since: Cell<Option<u64>>,
    began: Cell<u64>,
    /// Result of the last search, and the time until which it counts.
    cause: Cell<IdleCause>,
    until: Cell<u64>,
    /// Whether its tick continues, and when its own next search is due.
    ticks: Cell<bool>,
    due: Cell<u64>,
}

impl Idler {
    fn new() -> Self {
        let (cause, until) = (Cell::new(IdleCause::Unexplained), Cell::new(0));
        let (began, due) = (Cell::new(0), Cell::new(0));
        Self { since: Cell::new(None), began, cause, until, ticks: Cell::new(true), due }
    }

    /// Whether it idles and has been given nothing.
    fn spare(&self) -> bool {
        self.since.get().is_some() && self.cause.get() != IdleCause::Waking
    }
}

/// How many CPUs and tasks could come together.
#[derive(Clone, Copy, Default)]
struct Pairs {
    /// CPUs that idle and have been given nothing, and tasks queued behind another one.
    idle: u64,
    waiting: u64,
    /// Time of CPUs that those tasks could have had, up to a point in time, picoseconds.
    usable: u64,
    since: u64,
}

/// The books.
pub(crate) struct Idlers {
    cpus: Vec<Idler>,
    times: Cell<IdleTimes>,
    pairs: Cell<Pairs>,
    /// A task waits somewhere.
    crowd: Cell<bool>,
    /// Why the next task to be queued is queued where it is.
    queued: Cell<IdleCause>,
    /// Why there is no search for the CPUs with stopped ticks.
    service: Cell<Excuse>,
    /// Length of a tick, for which a look counts.
    pub(super) tick_ps: Cell<u64>,
}

impl Idlers {
    /// For `cpus` CPUs.
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            cpus: (0..cpus).map(|_| Idler::new()).collect(),
            times: Cell::new([0; IDLE_CAUSES]),
            pairs: Cell::default(),
            crowd: Cell::new(false),
            queued: Cell::new(IdleCause::Moved),
            service: Cell::new(Excuse::always(IdleCause::NotServed)),
            tick_ps: Cell::new(0),
        }
    }

    /// Returns the times so far; for currently idle CPUs up to `now`.
    pub(crate) fn times(&self, now: u64) -> IdleTimes {
        self.settle_all(now);
        self.times.get()
    }

    /// Returns the CPU time, in picoseconds up to `now`, that waiting tasks could have used on idle
    /// CPUs: at any time the smaller of the numbers of idle CPUs and waiting tasks.
    pub(crate) fn usable(&self, now: u64) -> u64 {
        self.count(now, |_| ());
        self.pairs.get().usable
    }

    fn count(&self, now: u64, change: impl FnOnce(&mut Pairs)) {
        let mut pairs = self.pairs.get();
        pairs.usable += now.saturating_sub(pairs.since) * pairs.idle.min(pairs.waiting);
        pairs.since = pairs.since.max(now);
        change(&mut pairs);
        self.pairs.set(pairs);
    }

    /// A task waits behind another one from `now` on.
    pub(crate) fn waits(&self, now: u64) {
        self.count(now, |pairs| pairs.waiting += 1);
    }

    /// One fewer waits.
    pub(crate) fn waits_no_more(&self, now: u64) {
        self.count(now, |pairs| pairs.waiting -= 1);
    }

    /// Changes the state of `cpu`.
    fn change(&self, cpu: usize, now: u64, change: impl FnOnce(&Idler)) {
        let idler = &self.cpus[cpu];
        let before = u64::from(idler.spare());
        change(idler);
        let after = u64::from(idler.spare());
        if before != after {
            self.count(now, |pairs| pairs.idle = pairs.idle + after - before);
        }
    }

    fn settle_all(&self, now: u64) {
        (0..self.cpus.len()).for_each(|cpu| self.settle(cpu, now));
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
        let late = if idler.ticks.get() {
            // A look that is due comes with the next tick; what it then finds takes a while.
            let until = idler.due.get().saturating_add(2 * self.tick_ps.get());
            Excuse { cause: IdleCause::NotDue, until, then: IdleCause::Unexplained }
        } else {
            self.service.get()
        };
        let looked = now.min(idler.until.get()).max(since);
        let excused = now.min(late.until).max(looked);
        let mut times = self.times.get();
        times[idler.cause.get() as usize] += looked - since;
        times[late.cause as usize] += excused - looked;
        times[late.then as usize] += now - excused;
        self.times.set(times);
    }

    /// `cpu` idles, and a look for work at `now` left it so because of `cause`.
    pub(crate) fn looked(&self, cpu: usize, cause: IdleCause, now: u64) {
        self.settle(cpu, now);
        self.starts(cpu, cause, now);
    }

    fn starts(&self, cpu: usize, cause: IdleCause, now: u64) {
        self.change(cpu, now, |idler| {
            if idler.since.get().is_none() {
                idler.began.set(now);
            }
            idler.since.set(Some(idler.since.get().unwrap_or(0).max(now)));
            idler.cause.set(cause);
            idler.until.set(now + self.tick_ps.get());
        });
    }

    /// Whether `cpu` idles.
    pub(crate) fn idles(&self, cpu: usize) -> bool {
        self.cpus[cpu].since.get().is_some()
    }

    /// `cpu`, which idles, has been given a task at `now`.
    pub(crate) fn given(&self, cpu: usize, now: u64) {
        self.looked(cpu, IdleCause::Waking, now);
        self.cpus[cpu].until.set(u64::MAX);
    }

    /// Records whether the tick of `cpu`, which idles, continues.
    pub(crate) fn ticks(&self, cpu: usize, ticks: bool, now: u64) {
        self.settle(cpu, now);
        self.cpus[cpu].ticks.set(ticks);
    }

    /// When the next look of `cpu` for itself is due.
    pub(crate) fn due(&self, cpu: usize, at: u64) {
        self.cpus[cpu].due.set(at);
    }

    /// Records why there is no search for the CPUs with stopped ticks from `now` on: `cause`, and
    /// `then` from `until` on.
    pub(crate) fn serves(&self, cause: IdleCause, until: u64, then: IdleCause, now: u64) {
        let service = Excuse { cause, until, then };
        if self.service.get() != service {
            self.settle_all(now);
            self.service.set(service);
        }
    }

    /// The same for good.
    pub(crate) fn serves_not(&self, cause: IdleCause, now: u64) {
        self.serves(cause, u64::MAX, cause, now);
    }

    /// `cpu` has something to run.
    pub(crate) fn runs(&self, cpu: usize, now: u64) {
        self.settle(cpu, now);
        self.change(cpu, now, |idler| idler.since.set(None));
    }

    /// The next task that is queued behind another one is there because of `cause`.
    pub(crate) fn queues(&self, cause: IdleCause) {
        self.queued.set(cause);
    }

    /// A wakeup that searches `cpus` has queued a task behind another one at `now`. It has begun to
    /// search no earlier than `since`.
    pub(crate) fn passed_over(&self, cpus: Range<usize>, since: u64, now: u64) {
        for cpu in cpus {
            let idler = &self.cpus[cpu];
            if idler.spare() && idler.began.get() < since {
                self.looked(cpu, IdleCause::Unexplained, now);
            }
        }
    }

    /// The first task waits.
    pub(crate) fn crowd_begins(&self, now: u64) {
        self.settle_all(now);
        self.crowd.set(true);
        let cause = self.queued.replace(IdleCause::Moved);
        for (cpu, idler) in self.cpus.iter().enumerate() {
            if idler.spare() {
                self.starts(cpu, cause, now);
            }
        }
    }

    /// No task waits any more.
    pub(crate) fn crowd_ends(&self, now: u64) {
        self.settle_all(now);
        self.crowd.set(false);
    }
}

#[cfg(test)]
mod tests;
