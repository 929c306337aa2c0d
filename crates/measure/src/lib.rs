//! Measuring commands: one execution and the number that is taken from it, the comparison of a
//! baseline with candidates, and the search for the commit that changed a measured value.

pub mod bisect;
pub mod compare;
mod metric;
mod process;

use compare::Difference;
use std::fmt::Display;

pub use metric::{Metric, MetricChoice, MetricError, Resource};
pub use process::{Ending, Finished, Program, RunError, kill_leftover, run};

/// Why a measurement, a comparison or a search ends without a result. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The request is invalid.
    #[error("{0}")]
    Request(String),
    /// A setting has a value that makes no sense.
    #[error("{name}: {problem}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The problem, and the accepted values.
        problem: String,
    },
    /// The numbers of a comparison are not of one thing.
    #[error(
        "the sides differ in {}, so their numbers are not of one thing; measure both alike, or \
         compare across what differs",
        all(.0)
    )]
    Different(Vec<Difference>),
    /// A run of a command failed.
    #[error("{text}")]
    Failed {
        /// Which, when and how.
        text: String,
        /// Whether the command does not exist.
        missing: bool,
    },
    /// The machine, the disk or git refuses something.
    #[error("{0}")]
    Machine(String),
}

fn all(differences: &[Difference]) -> String {
    let all: Vec<String> = differences.iter().map(ToString::to_string).collect();
    all.join(" and ")
}

impl MeasureError {
    /// The request is invalid.
    pub fn request(error: impl Display) -> Self {
        Self::Request(error.to_string())
    }

    /// The machine, the disk or git refuses something.
    pub fn machine(error: impl Display) -> Self {
        Self::Machine(error.to_string())
    }

    /// The same with more words at its end.
    #[must_use]
    pub fn with(mut self, words: &str) -> Self {
        if let Self::Request(text)
        | Self::Machine(text)
        | Self::Failed { text, .. }
        | Self::Setting { problem: text, .. } = &mut self
        {
            text.push_str(words);
        }
        self
    }
}

impl From<RunError> for MeasureError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Start { .. } => Self::request(error),
            RunError::Interrupted | RunError::System { .. } => Self::machine(error),
        }
    }
}

/// Parses a list of CPUs such as `0,2-3`; the error describes the problem.
pub fn cpus(list: &str) -> Result<Vec<usize>, String> {
    /// CPUs of the sets that the kernel takes.
    const MOST: usize = 1024;
    let cpus = convoy_os::cpus::parse_list(list);
    let cpus = cpus.filter(|cpus| cpus.iter().all(|cpu| *cpu < MOST));
    cpus.ok_or_else(|| "a list of CPUs below 1024, such as 1 or 0,2-3".to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn lists_of_cpus() {
        assert_eq!(super::cpus("0,2-4"), Ok(vec![0, 2, 3, 4]));
        for wrong in ["", "a", "3-1", "1-", "5000"] {
            assert!(super::cpus(wrong).is_err(), "{wrong}");
        }
    }
}
