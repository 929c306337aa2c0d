//! Averages that forget by half in 32 periods of 1024 us (per-entity load tracking, `pelt.c`).
//!
//! The kernel forgets at the ends of periods; here the average decays between them as well, so that
//! it does not matter how often it is brought up to date.

/// One period, in nanoseconds: 1024 times 1024.
const PERIOD_NS: u64 = 1 << 20;
/// Periods in which half is forgotten.
const HALF_LIFE: u64 = 32;
/// Decay factor of one period, times 2^32: 2^(-1/32).
const KEPT: u64 = 0xfa83_b2db;
/// How fast it decays within a period, `ln 2 / 32`, and half its square, times 2^32.
const SLOPE: u64 = 93_032_640;
const CURVE: u64 = 1_007_583;
const ONE: u64 = 1 << 32;
/// Fractional bits of a stored value.
const FRACTION: u32 = 16;

/// Product of two factors, each times 2^32.
fn times(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 32) as u64
}

/// What `ns` leave of an average, times 2^32.
fn left_after(ns: u64) -> u64 {
    let (periods, part) = (ns / PERIOD_NS, ns % PERIOD_NS);
    let (halves, mut steps) = (periods / HALF_LIFE, periods % HALF_LIFE);
    if halves >= 32 {
        return 0;
    }
    let (mut left, mut power) = (ONE >> halves, KEPT);
    while steps > 0 {
        if steps % 2 == 1 {
            left = times(left, power);
        }
        power = times(power, power);
        steps /= 2;
    }
    let part = part * (ONE / PERIOD_NS);
    let decay = times(SLOPE, part) - times(CURVE, times(part, part));
    left - times(left, decay)
}

/// The average of a level over the time that has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    value: u64,
    /// Up to when, in nanoseconds.
    until: u64,
}

impl Average {
    /// `level` as it was last known.
    pub(crate) fn get(&self) -> u64 {
        self.value >> FRACTION
    }

    /// As if the level had always been `level`.
    pub(crate) fn set(&mut self, level: u64, now: u64) {
        *self = Self { value: level << FRACTION, until: now };
    }

    /// The level has been `level` until `now`.
    pub(crate) fn advance(&mut self, now: u64, level: u64) {
        let left = left_after(now.saturating_sub(self.until));
        self.value = times(self.value, left) + times(level << FRACTION, ONE - left);
        self.until = self.until.max(now);
    }

    /// Decays the average to the time of `queue`.
    pub(crate) fn decay_to(&mut self, queue: &Self) {
        self.advance(queue.until, 0);
    }

    /// Adds the average of a task that comes.
    pub(crate) fn attach(&mut self, task: &Self) {
        self.value += task.value;
    }

    /// Takes the average of a task that goes; rounding never makes it negative.
    pub(crate) fn detach(&mut self, task: &Self) {
        self.value = self.value.saturating_sub(task.value);
    }

    /// Nothing is left of it.
    pub(crate) fn clear(&mut self) {
        self.value = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn half_is_forgotten_in_32_periods_however_they_are_cut() {
        for cuts in [1, 3, 7, 64, 1000] {
            let mut average = Average::default();
            average.set(1024, 0);
            for cut in 1..=cuts {
                average.advance(HALF_LIFE * PERIOD_NS * cut / cuts, 0);
            }
            assert!((511..=512).contains(&average.get()), "{cuts} cuts: {}", average.get());
        }
    }

    #[test]
    fn it_comes_to_the_share_of_time_of_the_level() {
        let mut average = Average::default();
        for ms in 0..2000 {
            average.advance((ms + 1) * MS, if ms % 4 == 0 { 1024 } else { 0 });
        }
        // The last three of four were without: a little below the mean of 256.
        assert!((240..256).contains(&average.get()), "{}", average.get());
        average.advance(u64::MAX / 2, 0);
        assert_eq!(average.get(), 0);
    }

    #[test]
    fn a_task_takes_its_part_along() {
        let (mut here, mut there, mut task) =
            (Average::default(), Average::default(), Average::default());
        here.set(3000, 0);
        task.set(1000, 0);
        here.detach(&task);
        there.attach(&task);
        assert_eq!((here.get(), there.get()), (2000, 1000));
        there.detach(&here);
        assert_eq!(there.get(), 0);
    }
}
