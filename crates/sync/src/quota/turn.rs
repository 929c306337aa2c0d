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
}

/// Nanoseconds in which a task looks for a unit before it sleeps, at most: what half of a sleep and
/// a wakeup cost in CPU time, here and on the CPU of the task that wakes it.
const SPIN_NS: u64 = 4_000;

/// Halvings after which unsuccessful spins have a negligible cost.
const HALVES_MAX: u16 = 3;

/// The number of accesses between two readings of the clock is one less than a power of two, up to
/// this.
const STEP_MAX: u16 = 63;

impl Turn {
    /// A turn that begins.
    pub const fn new(now: u64) -> Self {
        Self { began: now, looked: now, skip: 0, step: 0, halves: 0 }
    }

    /// A turn that every quota has ended.
    pub const fn over(now: u64) -> Self {
        Self { began: now.wrapping_sub(u64::MAX / 2), looked: now, skip: 0, step: 0, halves: 0 }
    }

    /// A turn that begins, of the same task.
    #[must_use]
    pub const fn anew(self, now: u64) -> Self {
        Self { halves: self.halves, ..Self::new(now) }
    }

    /// Nanoseconds for which the task spins before it sleeps.
    pub const fn spin_ns(self) -> u64 {
        SPIN_NS >> self.halves
    }

    /// Records a spin of the task: from now on it spins twice as long if it succeeded (`found`), or
    /// half as long.
    pub fn spun(&mut self, found: bool) {
        self.halves =
            if found { self.halves.saturating_sub(1) } else { (self.halves + 1).min(HALVES_MAX) };
    }

    /// One more meeting: whether the turn has lasted longer than `quota` nanoseconds. A task that
    /// was away for longer than that begins a new one, which lasts only `arrival`.
    pub fn meet(&mut self, quota: u64, arrival: u64, now: impl FnOnce() -> u64) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let now = now();
        let gap = now.wrapping_sub(self.looked);
        self.looked = now;
        if gap > quota {
            *self = self.anew(now.wrapping_sub(quota.saturating_sub(arrival)));
            self.looked = now;
            return false;
        }
        let left = quota.saturating_sub(now.wrapping_sub(self.began));
        let early = gap.saturating_mul(4) < left;
        self.step = if early { (self.step * 2 + 1).min(STEP_MAX) } else { self.step / 2 };
        self.skip = self.step.into();
        left == 0
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
                if turn.meet(QUOTA, ARRIVAL, look) {
                    break;
                }
            }
            assert!((QUOTA..QUOTA + QUOTA / 2).contains(&now), "{gap}: {now}");
            assert!(gap >= 1_000 || looks * 10 < meetings, "{gap}: {looks} of {meetings}");
        }
    }

    #[test]
    fn who_was_away_begins_anew() {
        let mut turn = Turn::over(5);
        assert!(turn.meet(QUOTA, ARRIVAL, || 6));
        assert!(!turn.meet(QUOTA, ARRIVAL, || 7 + QUOTA));
        assert!(!Turn::default().meet(QUOTA, ARRIVAL, || 1 << 40));
    }

    #[test]
    fn who_has_just_come_has_a_short_turn() {
        let mut turn = Turn::default();
        let start = 1 << 40;
        let ends = (start..).step_by(1000).find(|now| turn.meet(QUOTA, ARRIVAL, || *now));
        let lasted = ends.expect("turns end") - start;
        assert!((ARRIVAL..ARRIVAL + QUOTA / 4).contains(&lasted), "{lasted}");
    }
}
