//! State of a task between two accesses to a queue: the length of its turn so far.

/// The turn of a task: the time in which it may take locks past those that wait for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// When it began, in nanoseconds of [`Platform::now`](crate::Platform::now).
    began: u64,
    /// When the task last read the clock.
    looked: u64,
    /// Meetings until it looks again.
    skip: u32,
    /// Meetings between its last two looks: a look costs a tenth of a short section.
    step: u16,
    /// Number of halvings of the task's spin time after unsuccessful spins.
    halves: u16,
    /// The next task was summoned.
    ends: bool,
}

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It continues.
    On,
    /// It ends once the task that is summoned now has had the time to come.
    Ends,
    /// It is over.
    Over,
}

/// Halvings after which unsuccessful spins have a negligible cost.
const HALVES_MAX: u16 = 3;

/// The number of accesses between two readings of the clock is one less than a power of two, up to
/// this.
const STEP_MAX: u16 = 63;

impl Turn {
    /// A turn that begins.
    pub const fn new(now: u64) -> Self {
        Self { began: now, looked: now, skip: 0, step: 0, halves: 0, ends: false }
    }

    /// A turn that every quota has ended.
    pub const fn over(now: u64) -> Self {
        Self { ends: true, ..Self::ending(now) }
    }

    /// The same, but for the time in which the next task comes.
    pub const fn ending(now: u64) -> Self {
        Self { began: now.wrapping_sub(u64::MAX / 2), ..Self::new(now) }
    }

    /// A turn that begins, of the same task.
    #[must_use]
    pub const fn anew(self, now: u64) -> Self {
        Self { halves: self.halves, ..Self::new(now) }
    }

    /// The state of a task that has slept elsewhere: its next access begins a new turn.
    #[must_use]
    pub const fn away(self) -> Self {
        Self { looked: 0, skip: 0, ..self }
    }

    /// Nanoseconds for which the task spins before it sleeps, of `longest`.
    pub const fn spin_ns(self, longest: u64) -> u64 {
        longest >> self.halves
    }

    /// Records a spin of the task: from now on it spins twice as long if it succeeded (`found`), or
    /// half as long.
    pub fn spun(&mut self, found: bool) {
        self.halves =
            if found { self.halves.saturating_sub(1) } else { (self.halves + 1).min(HALVES_MAX) };
    }

    /// One more meeting: whether the turn has lasted longer than `quota` nanoseconds. It is over an
    /// eighth later, so that no time is lost while the next task comes. A task that was away for
    /// longer than `quota` begins a new turn, which lasts only `arrival`.
    pub fn meet(&mut self, quota: u64, arrival: u64, now: impl FnOnce() -> u64) -> Phase {
        if self.skip > 0 {
            self.skip -= 1;
            return Phase::On;
        }
        let now = now();
        let gap = now.wrapping_sub(self.looked);
        self.looked = now;
        if gap > quota {
            *self = self.anew(now.wrapping_sub(quota.saturating_sub(arrival)));
            self.looked = now;
            return Phase::On;
        }
        let left = quota.saturating_sub(now.wrapping_sub(self.began));
        let early = gap.saturating_mul(4) < left;
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
                let look = || {
                    looks += 1;
                    now
                };
                if turn.meet(QUOTA, ARRIVAL, look) == Phase::Over {
                    break;
                }
            }
            assert!((QUOTA..QUOTA + 5 * QUOTA / 8).contains(&now), "{gap}: {now}");
            assert!(gap >= 1_000 || looks * 10 < meetings, "{gap}: {looks} of {meetings}");
        }
    }

    #[test]
    fn who_was_away_begins_anew() {
        let mut turn = Turn::over(5);
        assert_eq!(turn.meet(QUOTA, ARRIVAL, || 6), Phase::Over);
        assert_eq!(turn.meet(QUOTA, ARRIVAL, || 7 + QUOTA), Phase::On);
        assert_eq!(Turn::default().meet(QUOTA, ARRIVAL, || 1 << 40), Phase::On);
        assert_eq!(Turn::ending(5).meet(QUOTA, ARRIVAL, || 6), Phase::Ends);
    }

    #[test]
    fn who_has_just_come_has_a_short_turn() {
        let mut turn = Turn::default();
        let start = 1 << 40;
        let over = |now: &u64| turn.meet(QUOTA, ARRIVAL, || *now) != Phase::On;
        let ends = (start..).step_by(1000).find(over);
        let lasted = ends.expect("turns end") - start;
        assert!((ARRIVAL..ARRIVAL + QUOTA / 4).contains(&lasted), "{lasted}");
    }
}
