//! One of several locks that have the same name.

use serde::{Deserialize, Serialize};

/// Maximum number of elements that a record keeps of a lock: those with the longest waits.
const KEPT: usize = 64;

/// One lock of a family.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Element {
    /// The variable with the offset in it. Empty for a lock that is not in a variable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Number of acquisitions, or of waits for a condition.
    pub count: u64,
    /// Number of these that had to wait.
    pub contended: u64,
    /// Total time of the waits, in seconds.
    pub wait_s: f64,
    /// The longest wait, in seconds.
    pub max_s: f64,
}

impl Element {
    /// Keeps the elements with the longest waits, longest first, and none of a single lock.
    pub(crate) fn keep(elements: &mut Vec<Self>) {
        elements.sort_by(|a, b| b.wait_s.total_cmp(&a.wait_s).then(b.count.cmp(&a.count)));
        elements.truncate(if elements.len() > 1 { KEPT } else { 0 });
    }
}
