//! `convoy reproduce`: an experiment on the virtual machine, compared with the published results.

use super::args::{Reproduce, Which};
use super::cells::{Line, incomplete, threads, until_known};
use super::print::{can_draw, plot, print};
use super::{measure, sweep};
use crate::args::Common;
use crate::build::build;
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::output;
use convoy_lab::experiment::Plan;
use convoy_lab::job::Outcome;
use convoy_lab::record::Record;
use convoy_report::{Block, ExperimentReport};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: &Reproduce) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref(), true)?;
    let plan = args.which.plan()?;
    if let Some(path) = &args.measure {
        return measure::run(args, &plan, path);
    }
    if let Some(directory) = &args.parts.dir {
        return sweep::run(args, &plan, directory);
    }
    let Which { threads, seed, .. } = args.which;
    let kept = Kept { kind: "reproduce", seed, store: &args.store };
    let files = Files { plot: args.plot.as_deref(), line: None };
    carry_out(&plan, &args.common, threads, kept, files)
}

/// The record that a command keeps.
#[derive(Clone, Copy)]
pub(crate) struct Kept<'a> {
    pub(crate) kind: &'static str,
    pub(crate) seed: u64,
    pub(crate) store: &'a StoreArgs,
}

/// Additional outputs.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) plot: Option<&'a Path>,
    /// The line that is printed of each outcome as soon as it is there.
    pub(crate) line: Option<Line>,
}

/// Runs all cells of a plan, prints its report and keeps its record. An interrupt leaves the report
/// and the record of the cells that are there.
pub(crate) fn carry_out(
    plan: &Plan,
    common: &Common,
    at_a_time: Option<u16>,
    kept: Kept,
    files: Files,
) -> Result<ExitCode, Failure> {
    can_draw(plan, files.plot)?;
    let mut outcomes = BTreeMap::new();
    let (plan, done) = until_known(plan, common, threads(at_a_time)?, files.line, &mut outcomes)?;
    let plan = &plan;
    if done.outcomes.iter().all(Option::is_none) {
        incomplete(&done)?;
    }
    let record = record(plan, &done.outcomes);
    let report = ExperimentReport::new(plan, &done.outcomes, &record);
    print(common, &report)?;
    if !done.interrupted {
        incomplete(&done)?;
    }
    plot(common, &report, files.plot)?;
    let mut body = serde_json::to_value(&record).map_err(Failure::environment)?;
    // The record contains the outcomes and the printed report.
    let printed = serde_json::from_str(&report.to_json()).map_err(Failure::environment)?;
    let tables = serde_json::to_value(report.tables()).map_err(Failure::environment)?;
    if let (Some(body), Value::Object(mut printed)) = (body.as_object_mut(), printed) {
        printed.insert("tables".to_owned(), tables);
        let plot = report.plot().map(|plot| Block::plot(plot).into_value());
        printed.extend(plot.map(|plot| ("plot".to_owned(), plot)));
        body.insert("report".to_owned(), Value::Object(printed));
    }
    kept.store.keep(common, kept.kind, Some(kept.seed), body);
    incomplete(&done)?;
    Ok(ExitCode::SUCCESS)
}

/// The record of a plan that this process ran.
pub(super) fn record(plan: &Plan, outcomes: &[Option<Outcome>]) -> Record {
    let command = crate::keep::arguments();
    Record::new(plan, outcomes, &build(), &command)
}
