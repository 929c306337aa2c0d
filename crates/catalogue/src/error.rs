//! What can be wrong with a data file. Every message is one line: where, which key, what was found,
//! what is accepted.

use crate::read::ReadError;
use crate::tree::{Place, number};

/// Why there is no such value.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// Nothing of that name is shipped.
    #[error("unknown {kind} {name:?}{hint}; known: {known}, or the path of a {file}")]
    Unknown {
        /// What was asked for.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The name that was meant, perhaps.
        hint: String,
        /// The shipped names.
        known: String,
        /// What a file of this kind is called.
        file: String,
    },
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: ReadError,
    },
    /// Not TOML.
    #[error("{place}: {problem}")]
    Syntax {
        /// File, line and column.
        place: String,
        /// What the parser says.
        problem: String,
    },
    /// A key is unknown, missing, of the wrong type or out of its range.
    #[error("{place}: {key}{}{problem}", if key.is_empty() { "" } else { ": " })]
    Key {
        /// File and line, or the flag.
        place: Place,
        /// The dotted key.
        key: String,
        /// What is wrong, and what is accepted.
        problem: String,
    },
    /// A `--set` that says nothing.
    #[error("--set {text}: {problem}")]
    Set {
        /// What was given.
        text: String,
        /// What is wrong, and what is accepted.
        problem: String,
    },
}

/// What an [`Entry`](crate::Entry) finds wrong with itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Fault {
    /// The dotted key.
    pub key: String,
    /// What is wrong, and what is accepted.
    pub problem: String,
}

impl Fault {
    /// `key` holds something that makes no sense.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }

    /// `key` holds `value`, and only `accepted` is.
    pub fn range(key: impl Into<String>, value: f64, accepted: &str) -> Self {
        Self::new(key, out_of_range(value, accepted))
    }
}

pub(crate) fn out_of_range(value: f64, accepted: &str) -> String {
    format!("{} is out of range ({accepted})", number(value))
}
