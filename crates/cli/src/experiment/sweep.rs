//! `convoy sweep`: the cells of an experiment, kept one by one, in as many parts as one likes.

use super::args::SweepArgs;
use super::cells::{Done, Told, execute, incomplete, threads};
use super::into;
use super::print::{can_draw, plot, print};
use crate::build::build;
use crate::fail::Failure;
use crate::output;
use convoy_lab::experiment::Plan;
use convoy_lab::job::{Job, Outcome};
use convoy_lab::pool::{self, Watch};
use convoy_lab::record::Record;
use convoy_lab::sweep::{Cells, Shard};
use convoy_report::ExperimentReport;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The command.
pub(crate) fn run(args: &SweepArgs) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref(), true)?;
    let plan = args.which.plan()?;
    can_draw(&plan, args.plot.as_deref())?;
    if let Some(path) = &args.into {
        into::ready(&plan, path)?;
    }
    let build = build();
    let cells = Cells::open(&args.dir, &build).map_err(Failure::environment)?;
    for other in &args.merge {
        if !other.join("cells").is_dir() {
            let name = other.display();
            return Err(Failure::usage(format!("--merge {name}: no directory of cells is there")));
        }
        let other = Cells::open(other, &build).map_err(Failure::environment)?;
        cells.merge(&plan, &other).map_err(Failure::environment)?;
    }
    let (plan, done) = run_missing(args, plan, &cells)?;
    let outcomes = &done.outcomes;
    let there = outcomes.iter().flatten().count();
    if there < outcomes.len() {
        let sentence = format!(
            "{}: {there} of {} cells are in {}.",
            plan.name,
            outcomes.len(),
            args.dir.display()
        );
        output::result(&args.common, &sentence)?;
        incomplete(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    finish(args, &plan, outcomes, &build)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the cells that are not there yet and, once all are, those that their outcomes ask for.
fn run_missing(
    args: &SweepArgs,
    mut plan: Plan,
    cells: &Cells,
) -> Result<(Plan, Done<Outcome>), Failure> {
    let threads = threads(args.which.threads)?;
    loop {
        let jobs: Vec<Job> = plan.jobs().cloned().collect();
        let wanted = missing(cells, &jobs, args.shard.unwrap_or(Shard::ALL))?;
        let start =
            |watch: &mut Watch<Outcome>| pool::run(&jobs, &wanted, threads, Job::run, watch);
        let mut done = execute(&args.common, &plan.name, wanted.len(), start, |index, outcome| {
            cells.keep(&jobs[index], outcome).map_err(Failure::environment)?;
            Ok(Told::of(&plan, index, outcome))
        })?;
        done.outcomes = cells.outcomes(&plan).map_err(Failure::environment)?;
        match plan.longer(&done.outcomes).map_err(Failure::usage)? {
            Some(longer) if done.failures.is_empty() && !done.interrupted => plan = longer,
            _ => return Ok((plan, done)),
        }
    }
}

/// Numbers of the cells of the shard that are not there yet, equal ones once.
fn missing(cells: &Cells, jobs: &[Job], shard: Shard) -> Result<Vec<usize>, Failure> {
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let hash = job.hash();
        let there = cells.outcome(&hash).map_err(Failure::environment)?.is_some();
        if seen.insert(hash) && !there && shard.has(index) {
            wanted.push(index);
        }
    }
    Ok(wanted)
}

/// Every cell is there: the report, and files of the same bytes however they were made.
fn finish(
    args: &SweepArgs,
    plan: &Plan,
    outcomes: &[Option<Outcome>],
    build: &str,
) -> Result<(), Failure> {
    // No command line: the parts of a sweep have different ones.
    let record = Record::new(plan, outcomes, build, &[]);
    let report = ExperimentReport::new(plan, outcomes, &record);
    let text = serde_json::to_string_pretty(&record).map_err(Failure::environment)?;
    output::file(&args.dir.join("record.json"), &(text + "\n"))?;
    output::file(&args.dir.join("result.csv"), &report.to_csv())?;
    plot(&args.common, &report, args.plot.as_deref())?;
    print(&args.common, &report)?;
    if let Some(path) = &args.into {
        into::write(plan, &report, path)?;
        output::message(&args.common, &format!("wrote {}", path.display()));
    }
    Ok(())
}
