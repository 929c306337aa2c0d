//! A function in which a process spent CPU time.

use serde::{Deserialize, Serialize};

/// A function, and the samples in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hot {
    /// The function, with the line that had most samples.
    pub place: String,
    /// The function that called it most; empty: not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caller: String,
    /// The file name of the library that it is in; empty: the program itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// Samples.
    pub count: u64,
    /// Of these, in loops that wait: at `pause`, after an exchange that found the word taken, or in
    /// a loop that only reads and compares.
    #[serde(default)]
    pub spins: u64,
    /// Of these, at atomic additions and the like.
    #[serde(default)]
    pub atomics: u64,
}
