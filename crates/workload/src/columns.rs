//! The columns of a load point, by AIM7's formulas.
//!
//! R is the time from the release of the users to the end of the last one, n the jobs of a user,
//! N the users, e the time from the release to each user's end:
//!
//! | column | formula |
//! |---|---|
//! | Jobs/Min | 60 · jobs done / R; n · N jobs if none failed |
//! | Jobs/sec/task | jobs done / N / R |
//! | `Std_dev` Time | population standard deviation of e |
//! | `Std_dev` Percent | 100 · deviation / mean of e |
//! | JTI | 100 for one user, else 100 · (1 − deviation / mean), whole, from 0 to 100 |
//!
//! AIM7's JTI goes below zero when the deviation exceeds the mean, and its Jobs/Min counts jobs of
//! users that were killed; these do neither.

use serde::{Deserialize, Serialize};

/// The columns that follow from the users' end times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// R, seconds.
    pub real_s: f64,
    /// Jobs/Min.
    pub jobs_per_min: f64,
    /// Jobs/Min of one user.
    pub jobs_per_min_per_task: f64,
    /// Jobs/sec/task.
    pub jobs_per_sec_per_task: f64,
    /// JTI, 0 to 100.
    pub jti: u32,
    /// AIM7's JTI with its defect: below zero when the deviation is one to two times the mean.
    #[serde(default)]
    pub jti_compat: i32,
    /// The longest time of a user, seconds; R, unless several executions were averaged.
    #[serde(default)]
    pub longest_s: f64,
    /// The shortest time of a user, seconds.
    #[serde(default)]
    pub shortest_s: f64,
    /// `Std_dev` Time, seconds.
    pub std_dev_s: f64,
    /// `Std_dev` Percent.
    pub std_dev_percent: f64,
}

impl Columns {
    /// The columns of `users` users that did `jobs_done` jobs; `ends_s` are the times from release
    /// to end of the users that finished, in seconds. Without any end all columns are 0.
    pub fn new(users: u32, jobs_done: u64, ends_s: &[f64]) -> Self {
        let real_s = ends_s.iter().copied().fold(0.0, f64::max);
        if users == 0 || real_s <= 0.0 {
            return Self::default();
        }
        let mean = ends_s.iter().sum::<f64>() / ends_s.len() as f64;
        // Two passes: the one-pass form that AIM7 uses cancels to NaN when the ends are close.
        let squares: f64 = ends_s.iter().map(|end| (end - mean).powi(2)).sum();
        let std_dev_s = (squares / ends_s.len() as f64).sqrt();
        let jobs_per_min = 60.0 * jobs_done as f64 / real_s;
        Self {
            real_s,
            jobs_per_min,
            jobs_per_min_per_task: jobs_per_min / f64::from(users),
            jobs_per_sec_per_task: jobs_done as f64 / f64::from(users) / real_s,
            jti: jti(users, std_dev_s / mean),
            jti_compat: jti_compat(users, std_dev_s / mean),
            longest_s: real_s,
            shortest_s: ends_s.iter().copied().fold(f64::INFINITY, f64::min),
            std_dev_s,
            std_dev_percent: 100.0 * std_dev_s / mean,
        }
    }
}

/// The job timing index of `users` users with the coefficient of variation `variation` of their
/// finish times.
fn jti(users: u32, variation: f64) -> u32 {
    if users == 1 {
        return 100;
    }
    ((1.0 - variation) * 100.0).clamp(0.0, 100.0) as u32
}

/// The same as AIM7 computes it. It truncates the variation to a whole number before the comparison
/// with one, so that variations from one to two result in a negative index.
fn jti_compat(users: u32, variation: f64) -> i32 {
    if users == 1 {
        return 100;
    }
    if variation as i32 > 1 { 0 } else { ((1.0 - variation) * 100.0) as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_jobs_and_real_time() {
        // 200 tasks of 97 jobs in 194 s: 100 jobs a second.
        let columns = Columns::new(200, 200 * 97, &[194.0]);
        assert!((columns.jobs_per_min - 6000.0).abs() < 1e-9, "{columns:?}");
        assert!((columns.jobs_per_sec_per_task - 0.5).abs() < 1e-12);
        assert!((columns.jobs_per_min_per_task - 30.0).abs() < 1e-9);
    }

    #[test]
    fn jti_is_the_whole_percentage_that_is_left() {
        let columns = Columns::new(2, 2, &[9.0, 11.0]);
        // Mean 10, deviation 1: 90 %.
        assert_eq!(columns.jti, 90);
        assert!((columns.std_dev_percent - 10.0).abs() < 1e-12);
        assert_eq!(Columns::new(1, 1, &[5.0]).jti, 100);
        assert_eq!(Columns::new(4, 4, &[3.0; 4]).jti, 100);
    }

    #[test]
    fn jti_is_never_negative() {
        let mut ends = vec![0.001; 9];
        ends.push(100.0);
        let columns = Columns::new(10, 10, &ends);
        assert!(columns.std_dev_percent > 100.0);
        assert_eq!(columns.jti, 0);
    }

    #[test]
    fn the_compatible_jti_has_the_defect_of_the_original() {
        assert_eq!([0.0, 0.1, 0.999, 1.5, 1.999].map(|c| jti_compat(9, c)), [100, 90, 0, -50, -99]);
        assert_eq!((jti_compat(9, 2.0), jti_compat(1, 1.5)), (0, 100));
        assert_eq!([0.1, 1.5].map(|c| jti(9, c)), [90, 0]);
    }

    #[test]
    fn a_point_without_ends_is_all_zero() {
        assert_eq!(Columns::new(3, 0, &[]), Columns::default());
        assert_eq!(Columns::new(0, 0, &[1.0]), Columns::default());
    }
}
