//! One row of a prediction.

use serde::Serialize;

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

/// One prediction. Its interval is the range over the seeds, widened by the error of the replay of
/// the record.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// CPUs.
    pub cpus: u32,
    /// Threads.
    pub threads: u32,
    /// Policy of the locks.
    pub policy: String,
    /// Number of locks that replace the first one.
    pub split: u32,
    /// The machine; empty for the recorded one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// Acquisitions per second; of the leading class of threads alone if `parts` is not empty.
    pub acquisitions_per_s: f64,
    /// Change of the throughput relative to the replay of the record, per cent.
    pub change_percent: f64,
    /// Lower end of its interval, per cent.
    pub low_percent: f64,
    /// Upper end of its interval, per cent.
    pub high_percent: f64,
    /// Speed of the whole program as a ratio, with the ends of its interval; present if the program
    /// spends much time without work of the threads that take locks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_times: Option<[f64; 3]>,
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

impl Row {
    /// Sets the effect of the change on a program that takes `all_s`, of which its threads work for
    /// `busy_s`.
    pub(crate) fn whole(&mut self, all_s: f64, busy_s: f64) {
        self.program_times =
            Some([self.change_percent, self.low_percent, self.high_percent].map(|percent| {
                let ratio = (1.0 + percent / 100.0).max(f64::MIN_POSITIVE);
                all_s / (all_s - busy_s + busy_s / ratio)
            }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lock_gains_is_less_for_a_program_that_also_does_other_things() {
        let mut row = Row {
            cpus: 2,
            threads: 64,
            policy: "sleep".to_owned(),
            split: 1,
            machine: String::new(),
            acquisitions_per_s: 1e6,
            change_percent: 300.0,
            low_percent: -50.0,
            high_percent: -100.0,
            program_times: None,
            cpus_used: 2.0,
            wait_p99_us: 0.0,
            wait_max_us: 0.0,
            jain: 1.0,
            parts: Vec::new(),
        };
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
}
