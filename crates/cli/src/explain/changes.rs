//! `convoy explain EXPERIMENT --only GRID`, without a cell: why its large changes are as they are.

use super::args::Explain;
use crate::args::Format;
use crate::experiment::{Told, execute, plan, run_all, threads};
use crate::fail::Failure;
use crate::output;
use convoy_catalogue::{EXPERIMENTS, Set};
use convoy_explain::Analysis;
use convoy_lab::experiment::{Changes, Plan, Size, Target as Kind};
use convoy_lab::job::{Job, JobError};
use convoy_lab::pool::{self, Watch};
use convoy_report::{LargeChange, Side, large_changes, page_wrap, why};
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

/// Changes above this are explained, percent.
pub(super) const LARGE_PERCENT: f64 = 5.0;

/// The plan, if the flags name a grid that compares and none of its cells.
pub(super) fn plan_of(args: &Explain) -> Result<Option<Plan>, Failure> {
    fn compares(plan: &Plan) -> bool {
        plan.grids.iter().all(|g| g.grid.compare.is_some() && g.grid.target == Kind::Sim)
    }
    let cell = [args.kernel.is_some(), args.users.is_some(), args.machine.is_some()];
    let files = [&args.trace, &args.folded, &args.flame];
    let other = files.into_iter().any(Option::is_some);
    let stored = args.run.starts_with('@') || args.run.chars().all(|c| c.is_ascii_digit());
    let asked = args.changes.is_some() || args.quick;
    let whole = args.at.is_empty() && !cell.contains(&true) && !other && !stored;
    if !whole || args.only.is_none() || args.shrink.is_some() || args.cpus.is_some() {
        return if asked {
            let text = "--changes and --quick explain a whole grid of an experiment: name it with \
                        --only, and no cell of it";
            Err(Failure::usage(text))
        } else {
            Ok(None)
        };
    }
    let mut wanted = Changes {
        only: args.only.iter().cloned().collect(),
        size: if args.quick { Size::Quick } else { Size::Usual },
        seed: args.seed.unwrap_or(1),
        ..Changes::default()
    };
    for set in args.sets.iter().filter(|set| set.kind != EXPERIMENTS.kind) {
        wanted.set(set);
    }
    let sets: Vec<Set> = args.sets.iter().cloned().collect();
    let plan = plan(&args.run, &sets, &wanted)?;
    Ok(Some(plan).filter(|plan| asked || compares(plan)))
}

/// Runs the grid, then the cells of each large change again, recorded, and prints a sentence for
/// each.
pub(super) fn run(args: &Explain, plan: &Plan) -> Result<ExitCode, Failure> {
    if args.common.format != Format::Table {
        let text = "the account of a grid is sentences; leave out --format, or name one cell";
        return Err(Failure::usage(text));
    }
    let threads = threads(None)?;
    let (plan, outcomes) = run_all(plan, &args.common, threads)?;
    let percent = args.changes.unwrap_or(LARGE_PERCENT);
    let changes = large_changes(&plan, &outcomes, percent);
    let jobs: Vec<Job> = plan.jobs().cloned().collect();
    let wanted: Vec<usize> = {
        let mut all: Vec<usize> = changes.iter().flat_map(|change| change.cells).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let start = |watch: &mut Watch<Side>| pool::run(&jobs, &wanted, threads, recorded, watch);
    let sides =
        execute(&args.common, "again, recorded", wanted.len(), start, |_, _| Ok(Told::default()))?;
    if let Some(error) = sides.failures.first() {
        return Err(Failure::environment(error));
    }
    let sentence = |change: &LargeChange| {
        let [before, after] = change.cells.map(|cell| sides.outcomes[cell].as_ref());
        before.zip(after).map(|(before, after)| why(change, before, after))
    };
    let rows = plan.grids.iter().map(|grid| grid.points.len()).sum::<usize>();
    let mut text = page_wrap(&format!(
        "{}: {} of the changes of {} ({rows} points, {} cells) {} above {percent} %.",
        plan.name,
        changes.len(),
        args.only.as_deref().unwrap_or_default(),
        outcomes.len(),
        if changes.len() == 1 { "is" } else { "are" },
    ));
    for sentence in changes.iter().filter_map(sentence) {
        text.push('\n');
        text.push_str(&page_wrap(&sentence));
    }
    output::result(&args.common, text.trim_end())?;
    if sides.interrupted {
        return Err(Failure::interrupted(sides.outcomes.iter().flatten().count()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a cell with a recorder.
fn recorded(job: &Job) -> Result<Side, JobError> {
    let job = job.sim().ok_or_else(|| {
        JobError::input("target", "only AIM7 on a virtual kernel can be explained")
    })?;
    let recorder = Rc::new(RefCell::new(Analysis::new(job.load_point().machine.topology.cpus)));
    let point = job.record(recorder.clone())?;
    let analysis = recorder.borrow();
    Ok(Side::new(&point, analysis.summary(), analysis.stacks()))
}
