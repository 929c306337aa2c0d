//! A simulation, run again with a recorder, to be explained.

use super::args::Explain;
use super::files::{INTERVALS, details, stacks};
use crate::experiment::apart;
use crate::fail::Failure;
use crate::output;
use convoy_explain::{Analysis, Detail};
use convoy_lab::job::{JobError, Listener};
use convoy_machine::Recorder;
use convoy_report::{ExplainReport, Page};
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

/// A simulation that is run again to be explained.
pub(super) trait Simulation: Clone + Send + 'static {
    /// The result of a run.
    type Point: Send + 'static;

    /// CPUs of its machine.
    fn cpus(&self) -> usize;

    /// Runs it and reports all events.
    fn run(&self, recorder: Listener) -> Result<Self::Point, JobError>;

    /// The schedule hash of a run.
    fn hash(point: &Self::Point) -> String;

    fn report(&self, point: &Self::Point, analysis: &Analysis) -> ExplainReport;
}

/// Runs a simulation, recorded, and prints the account.
pub(super) fn explain<S: Simulation>(args: &Explain, simulation: &S) -> Result<ExitCode, Failure> {
    let detailed = args.trace.is_some();
    let bar = output::progress(&args.common, if detailed { 2 } else { 1 });
    bar.set_message("running it, recorded");
    let (point, analysis) = execute(simulation, Analysis::new(simulation.cpus()))?;
    let mut report = simulation.report(&point, &analysis);
    if detailed {
        bar.inc(1);
        bar.set_message("again, with the part around the longest convoy in full");
        let detail = Detail::new(simulation.cpus(), analysis.window());
        let (again, detail) = execute(simulation, detail)?;
        report.notes.extend(details(args, &report.hash, &S::hash(&again), detail)?);
    }
    bar.finish_and_clear();
    let seconds = analysis.summary().window_s;
    report.notes.extend(stacks(args, &report.title, &analysis.stacks(), seconds)?);
    args.print(&report)
}

/// Runs a simulation, recorded, for a page.
pub(super) fn page_of<S: Simulation>(args: &Explain, simulation: &S) -> Result<Page, Failure> {
    let bar = output::progress(&args.common, 2);
    bar.set_message("running it, recorded");
    let (point, analysis) = execute(simulation, Analysis::new(simulation.cpus()))?;
    bar.inc(1);
    bar.set_message("again, with the part around the longest convoy in full");
    let (_, detail) = execute(simulation, Detail::new(simulation.cpus(), analysis.window()))?;
    bar.finish_and_clear();
    let report = simulation.report(&point, &analysis);
    Ok(report.page(&analysis.stacks(), &analysis.over_time(INTERVALS), detail.lanes()))
}

/// Runs a simulation with `recorder`, and returns the recorder.
fn execute<S: Simulation, R: Recorder + Send + 'static>(
    simulation: &S,
    recorder: R,
) -> Result<(S::Point, R), Failure> {
    let simulation = simulation.clone();
    apart(move || {
        let shared = Rc::new(RefCell::new(recorder));
        let point = simulation.run(shared.clone())?;
        let recorder = Rc::into_inner(shared).expect("the machine is gone");
        Ok::<_, JobError>((point, recorder.into_inner()))
    })?
    .ok_or_else(|| Failure::interrupted(0))
}
