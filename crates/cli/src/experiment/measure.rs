//! `convoy reproduce host --measure FILE`: measures the same cells on this machine and replaces the
//! published rows.

use super::args::Reproduce;
use super::cells::{Told, execute, incomplete};
use crate::fail::Failure;
use crate::output;
use convoy_lab::experiment::{Experiment, Plan, Published, Setting, View};
use convoy_lab::job::{Job, Outcome};
use convoy_lab::pool::{self, Watch};
use std::path::Path;
use std::process::ExitCode;

/// Rounds, if `--seeds` does not say.
const ROUNDS: u32 = 7;

/// Measures the rows of all grids that compare a machine with its simulation.
pub(super) fn run(args: &Reproduce, plan: &Plan, path: &Path) -> Result<ExitCode, Failure> {
    output::ready(Some(path))?;
    if plan.grids.iter().all(|grid| grid.grid.view != View::Measured) {
        let text = "--measure is for an experiment with measured rows, such as host; drop it";
        return Err(Failure::usage(text));
    }
    let mut which = args.which.clone();
    which.seeds = Some(args.which.seeds.unwrap_or(ROUNDS));
    let plan = which.plan()?;
    let jobs: Vec<Job> = plan.jobs().map(Job::native).collect();
    let all: Vec<usize> = (0..jobs.len()).collect();
    let start = |watch: &mut Watch<Outcome>| pool::run(&jobs, &all, 1, |job| job.run(), watch);
    let tell = |index, outcome: &Outcome| Ok(Told::of(&plan, index, outcome));
    let done = execute(&args.common, "measuring this machine", all.len(), start, tell)?;
    if done.interrupted {
        let text = "interrupted before all rows were measured: nothing is written; start it again";
        return Err(Failure::environment(text));
    }
    incomplete(&done)?;
    let experiment = replaced(&plan, &done.outcomes);
    let body = toml::to_string(&experiment).map_err(Failure::environment)?;
    let head = "\
# The virtual machine against a real one, which measured itself: `convoy reproduce` with this file.
# Written by `convoy reproduce --measure`; docs/experiments.md explains the keys.
";
    output::file(path, &format!("{head}{body}"))?;
    output::message(&args.common, &format!("wrote {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// The experiment with the measured values as its published rows.
fn replaced(plan: &Plan, outcomes: &[Option<Outcome>]) -> Experiment {
    let mut experiment = plan.experiment.value.clone();
    let host = convoy_host::describe_host();
    experiment.measured =
        Some(format!("{}, {} CPUs, Linux {}, {}", host.cpu, host.cpus, host.kernel, host.date));
    let mut rest = outcomes;
    for planned in &plan.grids {
        let (own, others) = rest.split_at(planned.cells());
        rest = others;
        let Some(grid) = experiment.grid.iter_mut().find(|grid| grid.name == planned.grid.name)
        else {
            continue;
        };
        let rows = planned.points.iter().zip(own.chunks(planned.seeds.len()));
        grid.published = rows
            .filter_map(|(point, rounds)| {
                let before = planned.published(&point.at)?;
                let value = |metric: &String| {
                    let all = rounds.iter().flatten().filter_map(|round| round.metric(metric));
                    (metric.clone(), all.map(rounded).collect::<Vec<f64>>())
                };
                let at: std::collections::BTreeMap<String, Setting> = before.at.clone();
                // A number that was fitted to one machine is a prediction for another.
                Some(Published {
                    star: false,
                    change: None,
                    summary: None,
                    at,
                    values: before.values.keys().map(value).collect(),
                    fitted: Vec::new(),
                    fitted_parameter: None,
                })
            })
            .collect();
    }
    experiment
}

/// A rate with one digit after the point.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
