//! One measured execution of a command: how it is started, watched and ended, and the number that
//! is taken from it. `convoy compare` and `convoy bisect` measure with this and nothing else.

mod metric;
mod process;

pub(crate) use metric::{Metric, MetricArgs, MetricError};
pub(crate) use process::{Ending, Finished, Program, RunError, kill_leftover, run};
