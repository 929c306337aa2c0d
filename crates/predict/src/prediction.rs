//! The result of a prediction.

use serde::Serialize;

use crate::doubt::Doubt;
use crate::point::Point;
use crate::row::Row;

/// The answer to a [`Question`](crate::Question).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Prediction {
    /// Lock that threads mostly waited for, if no other lock can replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
    /// A sentence that names the lock that limits the program.
    pub verdict: String,
    /// The recorded point and its replay; if other programs used CPUs, also the replay without
    /// them.
    pub anchor: Vec<Point>,
    /// Factor applied to the prices of switches and wakeups.
    pub anchor_wakeups: f64,
    /// Factor applied to the work before critical sections.
    pub anchor_work: f64,
    /// Sleep added before each critical section, microseconds.
    pub anchor_sleep_us: f64,
    /// Parts of the record that are replayed in recorded order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Reasons to doubt the rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// The first doubt that refuses, if any: the reason why there are no rows.
    pub doubt: Option<String>,
    /// One row for each question.
    pub rows: Vec<Row>,
    /// Rows that were not simulated because the prediction was interrupted.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing: usize,
}

/// Returns whether no row is missing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(rows: &usize) -> bool {
    *rows == 0
}

impl Prediction {
    /// Removes the rows if a doubt refuses the prediction.
    pub(crate) fn judged(mut self) -> Self {
        self.doubt = self.doubts.iter().find(|doubt| doubt.refuses).map(|doubt| doubt.text.clone());
        if self.doubt.is_some() {
            self.rows.clear();
        }
        self
    }
}
