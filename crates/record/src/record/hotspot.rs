//! A function in which a process spent CPU time.

use serde::{Deserialize, Serialize};

/// A function, and the number of samples in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hot {
    /// The function, with the line that had most samples.
    pub place: String,
    /// The function that called it most often; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caller: String,
    /// File name of the library that contains it; empty for the program itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// Number of samples.
    pub count: u64,
    /// Number of these in spin loops: at `pause`, after an exchange that found the word taken, or
    /// in a loop that only reads and compares.
    #[serde(default)]
    pub spins: u64,
    /// Number of these at atomic additions and similar instructions.
    #[serde(default)]
    pub atomics: u64,
    /// Number of these whose cache lines only one thread was seen writing.
    #[serde(default)]
    pub apart: u64,
}
