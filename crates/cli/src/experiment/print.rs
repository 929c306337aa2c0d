//! Printing the report of an experiment, and its plot.

use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use convoy_lab::experiment::Plan;
use convoy_report::ExperimentReport;
use std::path::Path;

/// Refuses a plot that could not be drawn, before anything is run.
pub(super) fn can_draw(plan: &Plan, path: Option<&Path>) -> Result<(), Failure> {
    if path.is_none() || ExperimentReport::can_draw(plan) {
        return Ok(());
    }
    let name = &plan.name;
    Err(Failure::usage(format!(
        "--plot: {name} has nothing to draw over; give several values, such as --threads 2,8,32, \
         or leave it out"
    )))
}

/// Writes the plot of a report, if one is asked for.
pub(super) fn plot(
    common: &Common,
    report: &ExperimentReport,
    path: Option<&Path>,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let Some(plot) = report.plot() else {
        return Err(Failure::usage("--plot: this experiment has no plot; leave it out"));
    };
    output::plot(common, path, &plot.to_svg(), Some(&plot.to_csv()))
}

/// Prints a report in the format that is asked for.
pub(super) fn print(common: &Common, report: &ExperimentReport) -> Result<(), Failure> {
    output::print(common, || report.to_text(), || report.to_json(), || report.to_csv())
}
