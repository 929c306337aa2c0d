//! Idle time while tasks wait on other CPUs, by the kernel rule that caused it.

use convoy_kernel::sched::{IDLE_CAUSES, IdleCause, IdleTimes};
use serde::{Deserialize, Serialize};

/// Idle time under one rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdleRule {
    /// The rule that caused it.
    pub rule: String,
    /// Percent of all CPU time.
    pub percent: f64,
}

/// Percent of all CPU time in which a CPU idled while a task waited on another one, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IdleRules([f64; IDLE_CAUSES]);

impl IdleRules {
    /// Returns the shares that follow from the times before and after `all` seconds of CPU time.
    pub fn new(before: &IdleTimes, after: &IdleTimes, all: f64) -> Self {
        Self(core::array::from_fn(|cause| (after[cause] - before[cause]) as f64 / (all * 1e10)))
    }

    /// Returns the percentage of one cause.
    pub fn percent(&self, cause: IdleCause) -> f64 {
        self.0[cause as usize]
    }

    /// Returns the percentage of all causes together.
    pub fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    /// Returns the rules with a share above zero, the largest share first.
    pub fn list(&self) -> Vec<IdleRule> {
        let some = IdleCause::ALL.into_iter().filter(|&cause| self.percent(cause) > 0.0);
        let mut list: Vec<IdleRule> = some
            .map(|cause| IdleRule { rule: cause.name().to_owned(), percent: self.percent(cause) })
            .collect();
        list.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_comes_first_and_nothing_is_left_out() {
        let mut after = [0; IDLE_CAUSES];
        after[IdleCause::Hot as usize] = 20_000_000_000;
        after[IdleCause::ShortIdle as usize] = 50_000_000_000;
        let rules = IdleRules::new(&[0; IDLE_CAUSES], &after, 1.0);
        let list = rules.list();
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].rule.as_str(), list[0].percent), (IdleCause::ShortIdle.name(), 5.0));
        assert!((rules.total() - 7.0).abs() < 1e-12);
    }
}
