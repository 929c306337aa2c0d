//! The result of a prediction.

use convoy_diagnose::Irreplaceable;
use serde::Serialize;

use crate::doubt::{Doubt, Feature, Reason};
use crate::limit::Limit;
use crate::point::Point;
use crate::row::Row;

/// The answer to a [`Question`](crate::Question).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Prediction {
    /// Lock that threads mostly waited for, if no other lock can replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<Irreplaceable>,
    /// The lock that limits the program at the recorded point.
    pub limit: Limit,
    /// Other limits in further records of the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_limits: Vec<Limit>,
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
    pub order: Vec<Feature>,
    /// Reasons to doubt the rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Why no row has a simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// One row for each question.
    pub rows: Vec<Row>,
    /// Rows that were not simulated because the prediction was interrupted.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing: usize,
}

impl Prediction {
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Limit> {
        std::iter::once(&self.limit).chain(&self.other_limits)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(rows: &usize) -> bool {
    *rows == 0
}
