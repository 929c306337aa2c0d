//! State of a task between two accesses to a queue: the length of its turn so far.

/// Nanoseconds of the longest turn: eight times a slow wakeup, so that handing the lock to a task
/// that sleeps once in such a time costs at most an eighth of it.
pub(super) const TURN_NS_MAX: u64 = 400_000;

/// The turn of a task: the time in which it may take locks past those that wait for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// When it began, in nanoseconds of [`Platform::now`](crate::Platform::now).
    began: u64,
    /// When the task last read the clock.
    looked: u64,
    /// Meetings until it reads the clock again.
    skip: u32,
    /// Meetings between its last two readings of the clock: each costs a tenth of a short critical
    /// section.
    step: u16,
    /// Number of halvings of the task's spin time after unsuccessful spins.
    halves: u16,
    /// Waits without a spin since the last one, once that time is zero.
    unspun: u8,
    /// When the task's last spin ended; 0 if it failed, or if the task stood back before it: then
    /// the next one to stand back is another task.
    spun: u64,
    /// The next task was summoned.
    ends: bool,
    /// The task met no queue for `AWAY_NS` before the last meeting at which it read the clock.
    visits: bool,
    /// Whether the task had a real-time priority at the last query.
    is_urgent: bool,
    /// Time of that query, 0 for never.
    asked: u64,
}

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It continues.
    On,
    /// It ends once the task that is summoned now has had the time to wake up.
    Ends,
    /// It is over.
    Over,
}

/// The quota while no waiter has waited for the bound: longer than any run of this machine.
pub(super) const UNBOUNDED_NS: u64 = u64::MAX / 4;

/// Halvings after which the task does not spin any more: its last spins, down to an eighth of the
/// longest one, failed, too. An owner that yields its CPU or waits for one releases nothing
/// while others spin.
const HALVES_MAX: u16 = 4;

/// Nanoseconds from a successful spin to the next one below which running tasks take the lock from
/// each other for each critical section: the cost of several transfers of its line.
const JOSTLE_NS: u64 = 1_000;

/// Nanoseconds for which a task stands back: twice `JOSTLE_NS`, so that for most of the time a task
/// that runs does not meet another one, and no more than half of a spin.
const STAND_BACK_NS: u64 = 2_000;

/// Waits without a spin before the task tries one again, to find out whether owners run now: the
/// spin of an eighth of the longest one (2 us) is then a fifth of the cost of a sleep, once in 16.
const UNSPUN_MAX: u8 = 15;

/// Nanoseconds after which a task queries again whether it has a real-time priority: a system call,
/// which then costs less than a thousandth of the time.
const CLASS_NS: u64 = 1_000_000;

/// Nanoseconds without a queue after which a task is a visitor: as long as a waiter has patience. A
/// task that other locks or a switch keep away for less is not one.
const AWAY_NS: u64 = 100_000;

/// The number of accesses between two readings of the clock is one less than a power of two, up to
/// this.
const STEP_MAX: u16 = 63;

impl Turn {
    /// Returns a turn that begins.
    pub const fn new(now: u64) -> Self {
        Self {
            began: now,
            looked: now,
            skip: 0,
            step: 0,
            halves: 0,
            unspun: 0,
            spun: 0,
            ends: false,
            visits: false,
            is_urgent: false,
            asked: 0,
        }
    }

    /// Returns a turn that every quota has ended.
    pub const fn over(now: u64) -> Self {
        Self { ends: true, ..Self::ending(now) }
    }

    /// The same, but for the time in which the next task comes.
    pub const fn ending(now: u64) -> Self {
        Self { began: now.wrapping_sub(u64::MAX / 2), ..Self::new(now) }
    }

    /// Returns the turn of a visitor.
    pub const fn visiting(now: u64) -> Self {
        Self { visits: true, ..Self::new(now.wrapping_sub(AWAY_NS)) }
    }

    /// Returns a turn that begins, of the same task.
    #[must_use]
    pub const fn anew(self, now: u64) -> Self {
        Self { began: now, looked: now, skip: 0, step: 0, ends: false, visits: false, ..self }
    }

    /// Returns the state of a task that has slept elsewhere: its next access begins a new turn.
    #[must_use]
    pub const fn away(self) -> Self {
        Self { looked: 0, skip: 0, ..self }
    }

    /// Nanoseconds for which the task spins before it sleeps, of `longest`; 0 if it does not.
    pub fn spin_ns(&mut self, longest: u64) -> u64 {
        if self.halves < HALVES_MAX {
            return longest >> self.halves;
        }
        self.unspun += 1;
        if self.unspun <= UNSPUN_MAX {
            return 0;
        }
        self.unspun = 0;
        longest >> (HALVES_MAX - 1)
    }

    /// Returns for how many nanoseconds the task stands back before a spin that begins `now`: 0
    /// unless it acquired a lock by a spin less than `JOSTLE_NS` ago.
    pub const fn stands_back_ns(&self, now: u64) -> u64 {
        let jostles = self.spun != 0 && now.wrapping_sub(self.spun) < JOSTLE_NS;
        if jostles { STAND_BACK_NS } else { 0 }
    }

    /// Records a spin of the task: from now on it spins twice as long if it succeeded (`found`), or
    /// half as long. `ended` is the time of success after which the task may have to stand back, or
    /// 0.
    pub fn spun(&mut self, ended: u64, found: bool) {
        self.spun = ended;
        self.halves =
            if found { self.halves.saturating_sub(1) } else { (self.halves + 1).min(HALVES_MAX) };
    }

    /// Returns whether the task has a real-time priority, as queried at most `CLASS_NS` before
    /// `now`.
    pub fn is_urgent(&mut self, now: u64, ask: impl FnOnce() -> bool) -> bool {
        if self.asked == 0 || now.wrapping_sub(self.asked) >= CLASS_NS {
            self.asked = now;
            self.is_urgent = ask();
        }
        self.is_urgent
    }

    /// Returns whether the task is a visitor: it had met no queue for 0.1 ms before this one. A new
    /// task is none, nor is one that has slept elsewhere: many of them may arrive at a time.
    pub const fn visits(&self) -> bool {
        self.visits
    }

    /// Counts one more meeting without reading the clock. Returns whether the turn continues;
    /// otherwise [`Self::meet`] follows.
    pub fn skips(&mut self) -> bool {
        let skips = self.skip > 0;
        self.skip -= u32::from(skips);
        skips
    }

    /// Counts one more meeting. Returns whether the turn has lasted longer than `quota`
    /// nanoseconds. It is over an eighth later, so that no time is lost while the next task wakes
    /// up. A task that was away for longer than `quota` begins a new turn, which lasts only
    /// `arrival`.
    pub fn meet(&mut self, quota: u64, arrival: u64, now: u64) -> Phase {
        let gap = now.wrapping_sub(self.looked);
        // Otherwise it has met the queue since then, without reading the clock.
        let visits = self.looked != 0 && self.step == 0 && gap >= AWAY_NS;
        (self.looked, self.visits) = (now, visits);
        if gap > quota {
            *self = self.anew(now.wrapping_sub(quota.saturating_sub(arrival)));
            (self.looked, self.visits) = (now, visits);
            return Phase::On;
        }
        let left = quota.saturating_sub(now.wrapping_sub(self.began));
        // Near enough to notice that the bound is over.
        let early = gap.saturating_mul(4) < left.min(TURN_NS_MAX);
        self.step = if early { (self.step * 2 + 1).min(STEP_MAX) } else { self.step / 2 };
        self.skip = self.step.into();
        match (left, self.ends) {
            (1.., _) => Phase::On,
            (0, true) => Phase::Over,
            (0, false) => {
                self.began = now.wrapping_sub(quota - quota / 8);
                self.ends = true;
                Phase::Ends
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: u64 = 100_000;
    const ARRIVAL: u64 = 30_000;

    #[test]
    fn a_turn_ends_near_its_quota_and_few_meetings_look() {
        for gap in [200, 1_000, 10_000, 30_000] {
            let (mut turn, mut now, mut looks, mut meetings) = (Turn::new(0), 0, 0, 0);
            loop {
                now += gap;
                meetings += 1;
                if turn.skips() {
                    continue;
                }
                looks += 1;
                if turn.meet(QUOTA, ARRIVAL, now) == Phase::Over {
                    break;
                }
            }
            assert!((QUOTA..QUOTA + 5 * QUOTA / 8).contains(&now), "{gap}: {now}");
            assert!(gap >= 1_000 || looks * 10 < meetings, "{gap}: {looks} of {meetings}");
        }
    }

    #[test]
    fn a_task_whose_spins_fail_stops_and_tries_again_from_time_to_time() {
        let mut turn = Turn::default();
        let lengths: Vec<u64> = (0..3 * usize::from(UNSPUN_MAX))
            .map(|_| {
                let ns = turn.spin_ns(4000);
                if ns > 0 {
                    turn.spun(0, false);
                }
                ns
            })
            .collect();
        assert_eq!(lengths[..5], [4000, 2000, 1000, 500, 0]);
        let tries = lengths[5..].iter().filter(|&&ns| ns > 0);
        assert_eq!(tries.collect::<Vec<_>>(), [&500, &500]);
        turn.spun(0, true);
        assert_eq!(turn.anew(7).spin_ns(4000), 500);
    }

    #[test]
    fn a_task_stands_back_if_it_spins_again_soon_after_a_success() {
        let mut turn = Turn::default();
        assert_eq!(turn.stands_back_ns(5), 0, "it has not spun");
        turn.spun(1_000, true);
        assert_eq!(turn.stands_back_ns(999 + JOSTLE_NS), STAND_BACK_NS);
        assert_eq!(turn.stands_back_ns(1_000 + JOSTLE_NS), 0);
        turn.spun(0, true);
        assert_eq!(turn.stands_back_ns(1), 0, "it stood back before");
    }

    #[test]
    fn the_class_of_a_task_is_asked_for_once_in_a_while() {
        let (mut turn, mut asked) = (Turn::default(), 0);
        let mut ask = |now| {
            turn.is_urgent(now, || {
                asked += 1;
                asked > 1
            })
        };
        assert!(!ask(5) && !ask(4 + CLASS_NS) && ask(5 + CLASS_NS) && ask(6 + CLASS_NS));
        assert_eq!(asked, 2);
    }

    #[test]
    fn who_was_away_begins_anew() {
        let mut turn = Turn::over(5);
        assert_eq!(turn.meet(QUOTA, ARRIVAL, 6), Phase::Over);
        assert_eq!(turn.meet(QUOTA, ARRIVAL, 7 + QUOTA), Phase::On);
        assert_eq!(Turn::default().meet(QUOTA, ARRIVAL, 1 << 40), Phase::On);
        assert_eq!(Turn::ending(5).meet(QUOTA, ARRIVAL, 6), Phase::Ends);
    }

    #[test]
    fn a_visitor_is_a_task_that_met_no_queue_for_a_while() {
        let mut turn = Turn::default();
        let mut meets = |now| {
            turn.meet(QUOTA, ARRIVAL, now);
            turn.visits()
        };
        let start = 1 << 40;
        assert!(!meets(start), "it is new");
        assert!(!meets(start + AWAY_NS - 1) && meets(start + 2 * AWAY_NS));
        assert!(meets(start + 9 * QUOTA) && !meets(start + 9 * QUOTA + 1));
        let mut busy = Turn::new(start);
        for now in (start..start + 9 * QUOTA).step_by(5_000) {
            if !busy.skips() {
                busy.meet(4 * QUOTA, ARRIVAL, now);
            }
            assert!(!busy.visits(), "{now}");
        }
        assert!(Turn::visiting(7).visits() && !Turn::visiting(7).anew(8).visits());
    }

    #[test]
    fn who_has_just_come_has_a_short_turn() {
        let mut turn = Turn::default();
        let start = 1 << 40;
        let over = |now: &u64| !turn.skips() && turn.meet(QUOTA, ARRIVAL, *now) != Phase::On;
        let ends = (start..).step_by(1000).find(over);
        let lasted = ends.expect("turns end") - start;
        assert!((ARRIVAL..ARRIVAL + QUOTA / 4).contains(&lasted), "{lasted}");
    }
}
