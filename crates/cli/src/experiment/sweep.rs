//! `convoy reproduce --dir`: the cells of an experiment, kept one by one, in any number of parts.

use super::args::Reproduce;
use super::cells::{Keep, incomplete, threads, until_known};
use super::print::{can_draw, plot, print};
use crate::build::build;
use crate::fail::Failure;
use crate::output;
use convoy_lab::experiment::Plan;
use convoy_lab::job::{Job, Outcome};
use convoy_lab::record::Record;
use convoy_lab::sweep::{Cells, Shard};
use convoy_report::ExperimentReport;
use std::path::Path;
use std::process::ExitCode;

/// A directory of cells, and the part of them that this process runs.
struct Part {
    cells: Cells,
    shard: Shard,
}

impl Keep for Part {
    fn outcomes(&self, plan: &Plan) -> Result<Vec<Option<Outcome>>, Failure> {
        self.cells.outcomes(plan).map_err(Failure::environment)
    }

    fn keep(&mut self, job: &Job, outcome: &Outcome) -> Result<(), Failure> {
        self.cells.keep(job, outcome).map_err(Failure::environment)
    }

    fn runs(&self, cell: usize) -> bool {
        self.shard.has(cell)
    }
}

pub(super) fn run(args: &Reproduce, plan: &Plan, directory: &Path) -> Result<ExitCode, Failure> {
    can_draw(plan, args.plot.as_deref())?;
    let build = build();
    let cells = Cells::open(directory, &build).map_err(Failure::environment)?;
    for other in &args.parts.merge {
        if !other.join("cells").is_dir() {
            let name = other.display();
            return Err(Failure::usage(format!("--merge {name}: no directory of cells is there")));
        }
        let other = Cells::open(other, &build).map_err(Failure::environment)?;
        cells.merge(plan, &other).map_err(Failure::environment)?;
    }
    let mut part = Part { cells, shard: args.parts.shard.unwrap_or(Shard::ALL) };
    let threads = threads(args.which.threads)?;
    let (plan, done) = until_known(plan, &args.common, threads, None, &mut part)?;
    let (there, count) = (done.outcomes.iter().flatten().count(), done.outcomes.len());
    if there < count {
        let (name, place) = (&plan.name, directory.display());
        let sentence = format!("{name}: {there} of {count} cells are in {place}.");
        output::result(&args.common, &sentence)?;
        incomplete(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Every cell is there: the report, and files of the same bytes however they were made. They
    // have no command line, because the parts of a sweep have different ones.
    let record = Record::new(&plan, &done.outcomes, &build, &[]);
    let report = ExperimentReport::new(&plan, &done.outcomes, &record);
    let text = serde_json::to_string_pretty(&record).map_err(Failure::environment)?;
    output::file(&directory.join("record.json"), &(text + "\n"))?;
    output::file(&directory.join("result.csv"), &report.to_csv())?;
    plot(&args.common, &report, args.plot.as_deref())?;
    print(&args.common, &report)?;
    Ok(ExitCode::SUCCESS)
}
