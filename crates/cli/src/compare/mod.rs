//! `convoy compare`: a baseline and candidates, measured or read, judged, printed and kept.

mod args;
mod plot;
mod records;
mod report;

pub(crate) use args::Compare;

use crate::args::Common;
use crate::fail::{FINDING, Failure};
use crate::output;
use convoy_measure::compare::{Case, Measured, Operand, Operands, Request, Side, Stage, resolve};
use convoy_os::Interrupts;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::process::ExitCode;

/// Maximum number of runs of each side without `--max-runs`.
const MOST_RUNS: u32 = 100;

/// Seconds for which short runs continue past [`MOST_RUNS`]: programs of 12 ms varied by half of
/// their mean next to others, and 100 runs found a slowdown of 1.3 times in 37 of 59 cases.
const GO_ON_S: f64 = 10.0;

/// Relative difference that does not matter without `--same-within`.
const SAME_WITHIN: f64 = 0.01;

/// The widest margin of *same* without `--same-within`: runs that vary by a fifth next to other
/// programs do not decide 1 % within [`GO_ON_S`].
const WIDEST: f64 = 0.1;

/// Version of the record.
const SCHEMA: u32 = 1;

pub(crate) fn run(args: &Compare) -> Result<ExitCode, Failure> {
    let common = &args.common;
    output::ready(common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref(), false)?;
    if let Some(records) = records::records(args)? {
        return records::print(args, &records).map(|()| ExitCode::SUCCESS);
    }
    let ranges = args::ranges(&args.ranges).ok_or_else(|| {
        Failure::usage(format!("--ranges {}: a list such as 10-100,200-1000", args.ranges))
    })?;
    if args.name.len() > args.operands.len().max(2) {
        return Err(Failure::usage("more --name than sides; leave some out"));
    }
    let operands = resolve(&operands(args)?)?;
    let operands: Vec<_> = labels(args, &operands).into_iter().zip(operands).collect();
    let request = request(args, &operands);
    let (mut sides, mut measured) = measure(&request, common, &operands)?;
    let live = |(_, operand): &(String, Operand)| matches!(operand, Operand::Command(_));
    let live: Vec<bool> = operands.iter().map(live).collect();
    // Without --runs the runs were watched, and the verdict must be worth it.
    let sequential = args.runs.is_none() && live.iter().all(|live| *live);
    let case = Case { request: &request, live: &live, sequential };
    let again = (args.aa && measured.blocks > 0).then(|| sides.pop()).flatten();
    let rows = case.rows(&sides, again.as_ref())?;
    let report = report::report(case, &sides, &rows, &measured, &ranges);
    let text = || report.to_text(args.layout);
    output::print(common, text, || report.to_json(), || report.to_csv())?;
    if let Some(path) = &args.plot {
        output::plot(common, path, &plot::distributions(&report, &sides, &rows).to_svg(), None)?;
    }
    let record = serde_json::json!({
        "schema": SCHEMA,
        "report": report,
        "sides": sides,
        "again": again,
        "order": measured.order,
    });
    args.store.keep(common, "compare", Some(request.seed), record);
    if let Some(broken) = measured.broken.take() {
        let done = format!("; the {} finished runs above count", measured.blocks);
        return Err(broken.with(&done).into());
    }
    let slower = report.rows.iter().any(|row| row.is_slower_by(args.fail_if));
    Ok(if slower { ExitCode::from(FINDING) } else { ExitCode::SUCCESS })
}

/// Where the operands are looked for.
fn operands(args: &Compare) -> Result<Operands, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::environment(format!("cannot find this program to run it again: {error}"))
    })?;
    Ok(Operands {
        given: args.operands.clone(),
        store: args.store.path().or_else(crate::keep::default_path),
        no_shell: args.no_shell,
        program: (!args.metric.is_printed()).then_some(own),
        experiment: convoy_lab::comparable::experiment,
    })
}

/// The comparison that the flags select.
fn request(args: &Compare, operands: &[(String, Operand)]) -> Request {
    Request {
        metric: args.metric.choice(),
        runs: args.runs,
        max_runs: args.max_runs.unwrap_or(MOST_RUNS),
        go_on: args.max_runs.is_none().then_some(GO_ON_S),
        max_time: args.max_time,
        warmup: args.warmup,
        prepare: args.prepare.clone(),
        cpus: args.pin.as_ref().map(|cpus| cpus.0.clone()),
        timeout: args.timeout,
        ignore_failure: args.ignore_failure,
        across: args.across.clone(),
        aa: args.aa,
        higher_is_better: args.higher_is_better,
        same_within: args.same_within.unwrap_or(SAME_WITHIN),
        widest: args.same_within.unwrap_or(WIDEST),
        tail: args.tail,
        alpha: args.alpha,
        interval: args.ci,
        correction: args.correction,
        seed: args.seed.unwrap_or_else(|| default_seed(operands)),
    }
}

fn measure(
    request: &Request,
    common: &Common,
    operands: &[(String, Operand)],
) -> Result<(Vec<Side>, Measured), Failure> {
    let bar = output::progress(common, u64::from(request.max_runs));
    let done = request.sides(operands, &Interrupts::catch(), &mut |at, most, stage| {
        bar.set_length(u64::from(most));
        bar.set_position(at as u64);
        match stage {
            Stage::WarmUp => bar.set_message("warm-up"),
            Stage::Runs => bar.set_message("runs of each side at most"),
            Stage::Begin(None) => {}
            Stage::Begin(Some(plan)) => {
                bar.suspend(|| output::message(common, &plan.to_string()));
            }
        }
    });
    bar.finish_and_clear();
    Ok(done?)
}

/// The seed if none is given. Simulations return the same numbers each time. On a real machine the
/// test depends on a random order of the runs: with a fixed order, an event that recurs on the
/// machine would favour the same side in every repetition.
fn default_seed(operands: &[(String, Operand)]) -> u64 {
    let simulated = |(_, operand): &(String, Operand)| match operand {
        Operand::Command(command) => command.ours,
        Operand::Numbers(_) => true,
    };
    if operands.iter().all(simulated) {
        return 1;
    }
    // The standard library's hasher is keyed by the operating system's random numbers.
    RandomState::new().build_hasher().finish() >> 32
}

/// The names of the sides: as given, else their commands or files, with numbers where two are
/// equal.
fn labels(args: &Compare, operands: &[Operand]) -> Vec<String> {
    let mut labels = args.name.clone();
    labels.extend(operands.iter().skip(labels.len()).map(|operand| match operand {
        Operand::Command(command) => command.text.trim().to_owned(),
        Operand::Numbers(side) => side.label.clone(),
    }));
    labels.truncate(operands.len());
    let unique = labels.iter().enumerate().map(|(at, label)| {
        let twins = labels.iter().filter(|other| *other == label).count();
        if twins > 1 { format!("{label} #{}", at + 1) } else { label.clone() }
    });
    unique.collect()
}
