//! Where CPUs are in loops that poll in user mode.

/// What ends a cycle of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// It ends at the last of this many reads, without the pause.
    Stops(u32),
    /// It ends after this many reads and pauses.
    Looks(u32),
    /// It reads the clock after this many reads and pauses, and ends if it is `until` or later, in
    /// picoseconds.
    Clock {
        /// Looks.
        looks: u32,
        /// Time.
        until: u64,
    },
}

impl Pace {
    pub(super) fn looks(self) -> u32 {
        let (Self::Stops(looks) | Self::Looks(looks) | Self::Clock { looks, .. }) = self;
        looks.max(1)
    }

    pub(super) fn until(self) -> u64 {
        if let Self::Clock { until, .. } = self { until } else { 0 }
    }
}

/// Where a CPU is in its loop, picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Poll {
    /// When the next look begins.
    pub(super) next: u64,
    /// From one look to the next of a cycle, and what of it is the pause.
    pub(super) period: u64,
    pub(super) pause: u64,
    /// From the end of the last look of a cycle to the end of the cycle.
    pub(super) gap: u64,
    /// Reads per cycle, and completed reads of the current cycle.
    pub(super) looks: u32,
    pub(super) looked: u32,
    /// The first end of a cycle that is not before it ends the loop.
    pub(super) until: u64,
    /// When the loop has ended, if it has.
    pub(super) ended: Option<u64>,
}

impl Poll {
    pub(super) fn length(&self) -> u64 {
        u64::from(self.looks - 1) * self.period + self.period - self.pause + self.gap
    }

    /// When the present cycle ends if no look misses.
    pub(super) fn end(&self) -> u64 {
        let left = u64::from(self.looks - self.looked - 1);
        self.next + left * self.period + (self.period - self.pause) + self.gap
    }

    /// When the loop has ended, or the present cycle ends.
    pub(super) fn not_before_end(&self) -> u64 {
        self.ended.unwrap_or_else(|| self.end())
    }

    /// When the loop ends if no look misses.
    pub(super) fn due(&self) -> u64 {
        let end = self.not_before_end();
        if self.until <= end || self.ended.is_some() {
            return end;
        }
        let later = (self.until - end).div_ceil(self.length());
        end.saturating_add(later.saturating_mul(self.length()))
    }

    /// A time before which it does not end, however many looks miss.
    pub(super) fn not_before(&self) -> u64 {
        self.ended.unwrap_or(self.end().max(self.until))
    }

    /// Skips the reads that start before `at`: they see the old value.
    pub(super) fn advance(&mut self, at: u64) {
        if at > self.end() {
            let cycles = 1 + (at - self.end()) / self.length();
            self.next = self.end() + (cycles - 1) * self.length();
            self.looked = 0;
        }
        if at <= self.next {
            return;
        }
        let left = u64::from(self.looks - self.looked);
        let looks = (at - self.next).div_ceil(self.period);
        if looks < left {
            self.next += looks * self.period;
            self.looked += looks as u32;
        } else {
            // Between two cycles.
            (self.next, self.looked) = (self.end(), 0);
        }
    }

    /// Counts a read that saw the old value and ends now.
    pub(super) fn looked(&mut self, now: u64) {
        self.looked += 1;
        if self.looked < self.looks {
            self.next = now + self.pause;
            return;
        }
        (self.next, self.looked) = (now + self.gap, 0);
        if self.next >= self.until {
            self.ended = Some(self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Poll = Poll {
        next: 100,
        period: 12,
        pause: 10,
        gap: 30,
        looks: 4,
        looked: 0,
        until: 500,
        ended: None,
    };

    /// What each look of a loop without misses does: when it begins, how many of its cycle are
    /// over then, and when the cycle that it is in ends.
    fn executed(poll: Poll, until: u64) -> (Vec<(u64, u32)>, u64) {
        let (mut looks, mut now, mut looked) = (Vec::new(), poll.next, poll.looked);
        loop {
            looks.push((now, looked));
            looked += 1;
            now += poll.period - poll.pause;
            if looked == poll.looks {
                (now, looked) = (now + poll.gap, 0);
                if now >= until {
                    return (looks, now);
                }
            } else {
                now += poll.pause;
            }
        }
    }

    #[test]
    fn looks_that_are_not_executed_come_when_executed_ones_do() {
        for (looks, gap, until) in [(1, 0, 0), (3, 0, 0), (3, 7, 0), (3, 7, 400), (8, 31, 2000)] {
            for looked in 0..looks {
                let start = Poll { gap, looks, looked, until, ..START };
                let (all, end) = executed(start, until);
                assert_eq!(start.due(), end, "{start:?}");
                assert!(start.not_before() <= end);
                for at in 90..end {
                    let mut poll = start;
                    poll.advance(at);
                    let next = all.iter().copied().find(|look| look.0 >= at);
                    let reached = (poll.next, poll.looked);
                    assert_eq!(next.unwrap_or((end, 0)), reached, "{at} {start:?}");
                    assert!(next.is_none() || poll.due() == end, "{at}");
                }
            }
        }
    }

    #[test]
    fn looks_that_miss_end_a_loop_no_earlier_than_it_may_be_expected_to() {
        for slow in 0..200 {
            let (mut poll, mut now) = (START, START.next);
            while poll.ended.is_none() {
                let bound = poll.not_before();
                now = poll.next + 2 + slow;
                poll.looked(now);
                assert!(poll.not_before() >= bound, "{slow}");
            }
            assert!(poll.due() >= 500 && poll.due() < 500 + 4 * (12 + slow) + 30, "{now} {poll:?}");
        }
    }
}
