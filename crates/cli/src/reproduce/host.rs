//! `convoy reproduce host`: the virtual machine against a real one.

use crate::args::{Common, Reproduce};
use crate::fail::Failure;
use crate::{output, pool};
use convoy_lab::host_experiment::{HostCell, HostExperiment, KIND};
use convoy_report::{HostReport, HostRow};
use convoy_stats::Sample;
use convoy_workload::mix::Mix;
use std::path::Path;
use std::process::ExitCode;

/// The experiment of this kind that `name` names, if it names one.
pub(super) fn named(name: &str) -> Result<Option<HostExperiment>, Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::usage(format!("experiment {name}: {error}"));
    if name == KIND {
        return HostExperiment::shipped().map(Some).map_err(|error| wrong(&error));
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(None);
    }
    let text = convoy_catalogue::read::text(path)
        .map_err(|error| Failure::usage(format!("experiment {name}: {error}")))?;
    let ours = text.lines().any(|line| line.replace(' ', "") == format!("kind=\"{KIND}\""));
    if !ours {
        return Ok(None);
    }
    HostExperiment::parse(&text).map(Some).map_err(|error| wrong(&error))
}

/// The command.
pub(super) fn run(args: &Reproduce, mut experiment: HostExperiment) -> Result<ExitCode, Failure> {
    let foreign = [
        ("--full", args.full),
        ("--scale", args.scale.is_some()),
        ("--ablation", args.ablation),
        ("--sensitivity", args.sensitivity),
    ];
    if let Some((flag, _)) = foreign.iter().find(|(_, given)| *given) {
        let text = format!("{flag} is not for {}; drop it", experiment.name);
        return Err(Failure::usage(text));
    }
    if let Some(path) = &args.measure {
        output::ready(Some(path))?;
        measure(&args.common, &mut experiment)?;
        let text = experiment.to_toml().map_err(Failure::environment)?;
        output::file(path, &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (cells, seeds) = cells(args, &experiment)?;
    let done = pool::run(&args.common, "cells measured on the host", cells, args.threads)?;
    let mut values = done.points.chunks(seeds);
    let mut rows = Vec::new();
    let mut row = |load: (&str, &str), size, rounds: &[f64], fitted| -> Result<(), Failure> {
        let points = values.next().unwrap_or_default();
        let simulated: Vec<f64> = points.iter().flatten().copied().collect();
        // An interrupt may have come before the cell.
        if let Ok(simulated) = Sample::new(simulated) {
            let rounds = Sample::new(rounds.to_vec()).map_err(Failure::environment)?;
            let both = (&rounds, &simulated);
            let row = HostRow::new(load, size, both, experiment.bistable_factor);
            rows.push(HostRow { fitted, ..row });
        }
        Ok(())
    };
    for lock in &experiment.lock {
        let size = (lock.cpus, Some(lock.section_ns), lock.threads);
        row((&lock.policy.to_string(), "sections/s"), size, &lock.per_s, lock.fitted)?;
    }
    for mix in &experiment.aim7 {
        row((&mix.mix, "Jobs/Min"), (mix.cpus, None, mix.users), &mix.jobs_per_min, false)?;
    }
    let mut report = HostReport::new(&experiment.name, &sentence(&experiment), rows);
    report.notes = notes(&experiment, seeds);
    let text = || report.to_text();
    output::print(&args.common, text, || report.to_json(), || report.to_csv())?;
    if done.interrupted {
        return Err(Failure::environment(super::INTERRUPTED));
    }
    let record = serde_json::to_value(&report).map_err(Failure::environment)?;
    args.store.keep(&args.common, "reproduce", Some(args.seed), record);
    Ok(ExitCode::SUCCESS)
}

fn measure(common: &Common, experiment: &mut HostExperiment) -> Result<(), Failure> {
    let bar = output::progress(common, 0);
    let result = experiment.measure(&mut |what| bar.set_message(what.to_owned()));
    bar.finish_and_clear();
    result.map_err(Failure::environment)
}

/// The simulations of all rows in their order, and how many each row has.
fn cells(args: &Reproduce, experiment: &HostExperiment) -> Result<(Vec<HostCell>, usize), Failure> {
    let kernel = args.kernel.first().unwrap_or(&experiment.kernel);
    let kernel = args.sets.kernel(kernel)?.value;
    let machine = args.machine.as_ref().unwrap_or(&experiment.machine);
    let machine = args.sets.machine(machine, None)?.value;
    let count = u64::from(args.seeds.unwrap_or(experiment.seeds));
    let seeds: Vec<u64> = (args.seed..args.seed.saturating_add(count)).collect();
    let mut cells = Vec::new();
    for row in &experiment.lock {
        cells.extend(experiment.lock_cells(row, &kernel, &machine, &seeds));
    }
    for row in &experiment.aim7 {
        let mix = Mix::load(&row.mix).map_err(Failure::usage)?;
        cells.extend(experiment.mix_cells(row, &mix, &kernel, &machine, &seeds));
    }
    Ok((cells, seeds.len()))
}

fn sentence(experiment: &HostExperiment) -> String {
    format!(
        "measured on {}; simulated: machine {}, kernel {}",
        experiment.measured, experiment.machine, experiment.kernel
    )
}

fn notes(experiment: &HostExperiment, seeds: usize) -> Vec<String> {
    vec![
        format!(
            "Locks: {} ns outside, window of {} ms after {} ms. AIM7: loop counts / {}, measured \
             and simulated.",
            experiment.outside_ns, experiment.window_ms, experiment.warmup_ms, experiment.shrink
        ),
        format!(
            "Measured: median [smallest–largest] of the rounds. Simulated: median of {seeds} \
             seeds. With fewer CPUs than the machine has, all threads are kept to the first."
        ),
        format!(
            "bistable: the largest round is more than {} times the smallest.",
            experiment.bistable_factor
        ),
        "fitted: a rule of the scheduler was chosen by this row; every other row is a prediction."
            .to_owned(),
    ]
}
