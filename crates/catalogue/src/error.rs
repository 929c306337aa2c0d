//! What can be wrong with a data file. Every message is one line: position, key, value found,
//! values accepted.

use crate::place::{Place, number};
use crate::read::ReadError;

/// Errors of loading a value.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// Nothing of that name is shipped.
    #[error("unknown {kind} {name:?}{hint}; known: {known}, or the path of a {file}")]
    Unknown {
        /// The requested kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The name that was meant, perhaps.
        hint: String,
        /// The shipped names.
        known: String,
        /// The name of a file of this kind.
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
        /// The parser's message.
        problem: String,
    },
    /// A key is unknown, missing, of the wrong type or out of its range.
    #[error("{place}: {key}{}{problem}", if key.is_empty() { "" } else { ": " })]
    Key {
        /// File and line, or the flag.
        place: Place,
        /// The dotted key.
        key: String,
        /// The problem, and the accepted values.
        problem: String,
    },
    /// A `--set` that says nothing.
    #[error("--set {text}: {problem}")]
    Set {
        /// The given text.
        text: String,
        /// The problem, and the accepted values.
        problem: String,
    },
}

/// A problem that the validation of an [`Entry`](crate::Entry) found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Fault {
    /// The dotted key.
    pub key: String,
    /// The problem, and the accepted values.
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
