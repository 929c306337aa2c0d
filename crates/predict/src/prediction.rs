//! The result of a prediction.

use convoy_runs::replay::Behaviour;
use serde::Serialize;

use crate::doubt::Doubt;
use crate::row::Row;

/// The answer to a [`Question`](crate::Question).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Prediction {
    /// Lock that threads mostly waited for, if no other lock can replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
    /// Which lock limits the program.
    pub verdict: String,
    /// The recorded point, its replay, and if other programs took CPUs the replay without them.
    pub anchor: Vec<Point>,
    /// Factor on the prices of switches and wakeups.
    pub anchor_wakeups: f64,
    /// Factor on the work before critical sections.
    pub anchor_work: f64,
    /// Sleep added before each critical section, microseconds.
    pub anchor_sleep_us: f64,
    /// Parts of the record that are replayed in recorded order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Reasons to doubt the rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Why there are no rows, if there are none: the first doubt that refuses.
    pub doubt: Option<String>,
    /// One row for each question.
    pub rows: Vec<Row>,
    /// Rows that an interrupt left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing: usize,
}

/// Whether no row is missing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(rows: &usize) -> bool {
    *rows == 0
}

impl Prediction {
    /// Takes the numbers away that a doubt refuses.
    pub(crate) fn judged(mut self) -> Self {
        self.doubt = self.doubts.iter().find(|doubt| doubt.refuses).map(|doubt| doubt.text.clone());
        if self.doubt.is_some() {
            self.rows.clear();
        }
        self
    }
}

/// Throughput of a program and its price.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// `recorded` or `replayed`; if other programs took CPUs, `beside` such programs and `alone`.
    pub what: &'static str,
    /// Acquisitions per second.
    pub acquisitions_per_s: f64,
    /// CPU time of an acquisition and the work before it, microseconds.
    pub cpu_us: f64,
    /// Mean wait for a lock, microseconds.
    pub wait_mean_us: f64,
    /// Wait for other threads at conditions for each acquisition, microseconds.
    pub idle_mean_us: f64,
}

impl Point {
    /// The same work in acquisitions of which each takes `times` as much.
    pub(crate) fn of_work(&self, times: f64) -> Self {
        let (acquisitions_per_s, cpu_us) = (self.acquisitions_per_s * times, self.cpu_us / times);
        Self { acquisitions_per_s, cpu_us, ..self.clone() }
    }

    pub(crate) fn recorded(behaviour: &Behaviour) -> Self {
        Self {
            what: "recorded",
            acquisitions_per_s: behaviour.rate,
            cpu_us: behaviour.cpu_ns / 1e3,
            wait_mean_us: behaviour.wait_ns / 1e3,
            idle_mean_us: behaviour.idle_ns / 1e3,
        }
    }
}
