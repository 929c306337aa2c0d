//! One row of a prediction.

use serde::Serialize;

use crate::demands::Station;
use crate::doubt::Reason;
use crate::edit::Edit;

/// Throughput of one class of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Place at which its threads acquire locks most often.
    pub place: String,
    /// Acquisitions per second in the simulations of the row.
    pub acquisitions_per_s: f64,
    /// Acquisitions per second in the record.
    pub recorded_per_s: f64,
}

/// Figures that only a simulation has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Simulated {
    /// Mean number of CPUs in use.
    pub cpus_used: f64,
    /// 99th percentile of the waits, microseconds.
    pub wait_p99_us: f64,
    /// Longest wait, microseconds, in a run that is at most as long as the record.
    pub wait_max_us: f64,
    /// Lowest of Jain's indices of the acquisitions, each over threads that do the same work.
    pub jain: f64,
    /// Throughput of each class of threads, the leading class first, if their shares change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// One prediction. Its interval follows from arithmetic; a simulation may narrow it to the range
/// over its seeds, widened by the error of the replay of the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// CPUs.
    pub cpus: u32,
    /// Threads.
    pub threads: u32,
    /// Policy of the locks.
    pub policy: String,
    /// Number of locks that replace the first one.
    pub split: u32,
    /// Change of the source at the lock that limits the recorded point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
    /// The machine; empty for the recorded one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// Acquisitions per second; of the leading class of threads alone if there are parts.
    pub acquisitions_per_s: f64,
    /// Change of the throughput relative to the recorded point, per cent.
    pub change_percent: f64,
    /// Lower end of its interval, per cent.
    pub low_percent: f64,
    /// Upper end of its interval, per cent.
    pub high_percent: f64,
    /// Least and most change of several records of the program, per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_percent: Option<[f64; 2]>,
    /// The station with the highest utilisation, which sets the limit.
    pub limit: Station,
    /// Speed of the whole program as a ratio, with the ends of its interval; present if the program
    /// spends much time without work of the threads that take locks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_times: Option<[f64; 3]>,
    /// Figures of the simulation; `None` if the row has bounds alone.
    #[serde(flatten)]
    pub simulated: Option<Simulated>,
    /// Why the row has bounds alone, if it differs from the reason for all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

impl Row {
    /// Returns whether another row answers the same question; the recorded number of threads may
    /// differ between runs.
    pub(crate) fn asks_as(&self, other: &Self) -> bool {
        (self.cpus, self.split, self.edit) == (other.cpus, other.split, other.edit)
            && self.policy == other.policy
    }

    /// Sets the effect of the change on a program that takes `all_s`, of which its threads work for
    /// `busy_s`.
    pub(crate) fn whole(&mut self, all_s: f64, busy_s: f64) {
        self.program_times =
            Some([self.change_percent, self.low_percent, self.high_percent].map(|percent| {
                let ratio = (1.0 + percent / 100.0).max(f64::MIN_POSITIVE);
                all_s / (all_s - busy_s + busy_s / ratio)
            }));
    }

    /// Returns this row, which has bounds, narrowed by its simulation. A simulation that
    /// contradicts the bounds does not count. If the shares of classes of threads change, a
    /// simulation counts another work, for which the bounds do not hold. With `moves` it lacks the
    /// price of moving data, which only bounds contain, so that it narrows the upper end alone.
    pub(crate) fn narrowed(&self, simulation: Self, moves: bool) -> Self {
        let Self { low_percent: low, high_percent: high, .. } = *self;
        let is_mixed = simulation.simulated.iter().any(|figures| !figures.parts.is_empty());
        let limit = self.limit.clone();
        if is_mixed {
            return Self { limit, ..simulation };
        }
        if simulation.low_percent > high || simulation.high_percent < low {
            let times = 1.0 + simulation.change_percent / 100.0;
            return Self { reason: Some(Reason::Outside { times }), ..self.clone() };
        }
        let base = simulation.acquisitions_per_s / (100.0 + simulation.change_percent);
        let most = if moves { high.min(self.change_percent) } else { high };
        let change_percent = simulation.change_percent.clamp(low, most);
        Self {
            acquisitions_per_s: base * (100.0 + change_percent),
            change_percent,
            low_percent: if moves { low } else { simulation.low_percent.max(low) },
            high_percent: simulation.high_percent.min(high),
            runs_percent: None,
            limit,
            ..simulation
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(change_percent: f64, low_percent: f64, high_percent: f64) -> Row {
        let acquisitions_per_s = 1e6 * (1.0 + change_percent / 100.0);
        Row { acquisitions_per_s, change_percent, low_percent, high_percent, ..Row::default() }
    }

    #[test]
    fn what_a_lock_gains_is_less_for_a_program_that_also_does_other_things() {
        let mut row = row(300.0, -50.0, -100.0);
        // The threads work for 2 of 4 s: four times as fast saves 1.5 s, half as fast takes 2 s
        // more, and a program that makes no progress never ends.
        row.whole(4.0, 2.0);
        let [middle, low, high] = row.program_times.expect("just set");
        assert!((middle - 4.0 / 2.5).abs() < 1e-9, "{middle}");
        assert!((low - 4.0 / 6.0).abs() < 1e-9, "{low}");
        assert!(high.abs() < 1e-9, "{high}");
        row.whole(4.0, 4.0);
        assert!((row.program_times.expect("just set")[0] - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_simulation_narrows_bounds_and_never_leaves_them() {
        let bounds = row(50.0, 20.0, 80.0);
        let narrow = bounds.narrowed(row(90.0, 40.0, 95.0), false);
        assert_eq!(
            (narrow.low_percent, narrow.change_percent, narrow.high_percent),
            (40.0, 80.0, 80.0)
        );
        assert!((narrow.acquisitions_per_s - 1.8e6).abs() < 1.0, "{narrow:?}");
        let outside = bounds.narrowed(row(90.0, 85.0, 95.0), false);
        assert_eq!((outside.low_percent, outside.high_percent), (20.0, 80.0));
        assert_eq!(outside.reason, Some(Reason::Outside { times: 1.9 }));
        let moved = bounds.narrowed(row(60.0, 55.0, 70.0), true);
        let interval = [moved.low_percent, moved.change_percent, moved.high_percent];
        assert_eq!(interval.map(|percent| percent.round() as i32), [20, 50, 70]);
    }
}
