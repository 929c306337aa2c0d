//! One measured execution of a command: how it is started, watched and ended, and the number that
//! is taken from it. `convoy compare` and `convoy bisect` measure with this and nothing else.

mod metric;
mod process;

pub(crate) use metric::{Metric, MetricArgs, MetricError};
pub(crate) use process::{Ending, Finished, Program, RunError, kill_leftover, run};

use convoy_load::host::Interrupts;

/// Why one execution gave no number.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeasureError {
    /// The execution itself.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It ended with another exit code than 0, or by a signal.
    #[error("{0}")]
    Failed(String),
    /// It ended well, and the number is not where it should be.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

/// Runs `program` once and takes `metric` from it. An execution that does not end with code 0 has
/// no value, and neither has one that was ended by its time limit: a caller that can use the bound
/// calls [`run`] itself.
pub(crate) fn measure(
    program: &Program,
    metric: &Metric,
    interrupts: &Interrupts,
) -> Result<(f64, Finished), MeasureError> {
    let finished = run(program, interrupts)?;
    if finished.ending != Ending::Code(0) {
        return Err(MeasureError::Failed(finished.describe()));
    }
    let value = metric.value(&finished)?;
    Ok((value, finished))
}
