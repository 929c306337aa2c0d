//! Sentences on the setup and the result.

use convoy_lab::experiment::{Plan, PlannedGrid};
use convoy_lab::job::{Job, Outcome};

use super::results::Results;
use crate::format::{distinct, fixed, wrap};

/// The title of a table: the experiment, the grid, and its setup.
pub(super) fn title(results: Results) -> String {
    let Results { plan, grid, .. } = results;
    let name = if grid.grid.title.is_empty() { &grid.grid.name } else { &grid.grid.title };
    format!("{}: {name}\n{}", plan.name, wrap(&setup(grid), 118).join("\n"))
}

/// Describes machine, kernel and size of a grid.
pub(super) fn setup(grid: &PlannedGrid) -> String {
    let jobs = || grid.points.iter().flat_map(|point| &point.jobs);
    let labels = |kind: &str| -> Vec<String> {
        let parts = jobs().flat_map(|job| job.parts()).filter(|part| part.kind == kind);
        let labels: Vec<String> = parts.map(|part| part.source.label()).collect();
        distinct(labels.iter().map(String::as_str)).into_iter().map(str::to_owned).collect()
    };
    let mut words: Vec<String> = Vec::new();
    let (kernels, machines) = (labels("kernel"), labels("machine"));
    // An axis of kernels is in the table.
    if let ([kernel], None) = (&kernels[..], grid.axis("kernel")) {
        words.push(format!("kernel {kernel}"));
    }
    words.extend(one("machines", &machines));
    let mut cpus: Vec<usize> = jobs().filter_map(|job| job.cpus()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    words.extend(match cpus[..] {
        [] => None,
        [count] => Some(format!("{count} CPUs")),
        [least, .., most] => Some(format!("{least} to {most} CPUs")),
    });
    words.extend(one("mixes", &labels("mix")).map(|mix| format!("mix {mix}")));
    let counts = || grid.points.iter().map(|point| point.jobs.len());
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    words.push(match (grid.seeds.len(), jobs().any(Job::measures)) {
        _ if grid.staged => format!(
            "{} seeds, 95 % interval in stages",
            if most > least { format!("{least} to {most}") } else { least.to_string() }
        ),
        (1, false) => "1 seed".to_owned(),
        (seeds, false) => format!("{seeds} seeds, 95 % t interval"),
        (1, true) => "1 round".to_owned(),
        (rounds, true) => format!("{rounds} rounds, 95 % t interval"),
    });
    let sentence = words.join(", ");
    match size(grid) {
        Some(size) => format!("{sentence}; {size}"),
        None => sentence,
    }
}

fn one(what: &str, labels: &[String]) -> Option<String> {
    match labels {
        [] => None,
        [label] => Some(label.clone()),
        labels => Some(format!("{} {what}", labels.len())),
    }
}

/// Users at full size, where all cells have the same.
pub(super) fn users(grid: &PlannedGrid) -> Option<u32> {
    let jobs = grid.points.iter().flat_map(|point| &point.jobs);
    let mut users = jobs.map(|job| Some(job.sim()?.inputs().users_full));
    let first = users.next()??;
    users.all(|other| other == Some(first)).then_some(first)
}

/// Whether its runs end before all users have done all their jobs.
pub(super) fn is_cut(grid: &PlannedGrid) -> bool {
    let mut loads = grid.points.iter().flat_map(|point| &point.jobs).filter_map(Job::sim);
    loads.any(|job| job.inputs().jobs_together.is_some() || job.first_jobs().is_some())
}

fn size(grid: &PlannedGrid) -> Option<String> {
    let job = grid.points.first()?.jobs.first()?.sim()?;
    let inputs = job.inputs();
    let scale = inputs.scale;
    if inputs.shrink > 1 {
        return Some(format!("loop counts / {}", inputs.shrink));
    }
    let first = job.first_jobs().map(|(first, all)| format!("the first {first} of {all} jobs"));
    if let Some(jobs) = inputs.jobs_together {
        let first = first.map_or(String::new(), |first| format!(", {first} of each"));
        let tasks = match (scale, users(grid)) {
            (1, _) | (_, None) => String::new(),
            _ => format!(", {} of {} tasks", inputs.users, inputs.users_full),
        };
        return Some(format!("until all tasks together have done {jobs} jobs{first}{tasks}"));
    }
    if scale == 1 {
        return Some(first.map_or("full size".to_owned(), |first| format!("{first} of each task")));
    }
    users(grid)?;
    let first = first.map_or(String::new(), |first| format!("{first} of each, "));
    Some(format!(
        "scaled down: {} of {} tasks with full-size jobs, {first}start delay / {scale}, Real and \
         CPU x {scale}",
        inputs.users, inputs.users_full
    ))
}

/// Describes the simulations saved by stopping when the changes were known.
pub(super) fn looks(grid: &PlannedGrid) -> Option<String> {
    let half_width = grid.grid.half_width.filter(|_| grid.cells() > 0)?;
    let most = grid.points.iter().map(|point| point.jobs.len()).max()?;
    if most <= grid.seeds.len() {
        return None;
    }
    let full = most * grid.points.len() * grid.scale as usize;
    let second = grid.grid.second_look.filter(|second| most >= *second as usize);
    let second = second.map_or(String::new(), |second| format!(", or {second} where it is large,"));
    Some(format!(
        "seeds until changes are known to ± {half_width}, as the spread of the first {}{second} \
         tells: {} simulations; {most} of every row at full size are {} times the work",
        grid.seeds.len(),
        grid.cells(),
        fixed(full as f64 / grid.cells() as f64, 1)
    ))
}

/// Lists grids that were not requested and not run.
pub(super) fn left(plan: &Plan) -> Option<String> {
    let told = plan.left.iter().map(|(name, title)| format!("{title}: --only {name}"));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("not run: {}", told.join("; ")))
}

/// The first sentence of a report.
pub(super) fn verdict(plan: &Plan, outcomes: &[Option<Outcome>], parts: Vec<String>) -> String {
    let done = outcomes.iter().flatten().count();
    let all = outcomes.len();
    let state = if done == all {
        let plural = if all == 1 { "cell" } else { "cells" };
        format!("all {all} {plural} run")
    } else {
        format!("{done} of {all} cells run")
    };
    let parts = if parts.is_empty() { vec![state] } else { parts };
    format!("{}: {}.", plan.name, parts.join("; "))
}
