//! `convoy compare`: a baseline and candidates, measured or read, judged, printed and kept.

mod args;
mod judge;
mod live;
mod notes;
mod operand;
mod read;
mod series;

pub(crate) use args::Compare;
pub(crate) use operand::store_failure;

use crate::args::{Common, Format};
use crate::fail::{FINDING, Failure};
use crate::output;
use args::CompareFormat;
use convoy_host::Interrupts;
use convoy_report::CompareReport;
use judge::Case;
use live::{Measured, Plan};
use operand::Operand;
use series::Side;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::process::ExitCode;

/// Version of the record.
const SCHEMA: u32 = 1;

/// Runs of commands that are compared with stored numbers, so that there is nothing to watch.
const UNWATCHED: u32 = 20;

/// The command.
pub(crate) fn run(args: &Compare) -> Result<ExitCode, Failure> {
    let common = Common { format: Format::Table, output: args.output.clone(), quiet: args.quiet };
    output::ready(args.output.as_deref())?;
    check(args)?;
    let operands = operand::resolve(args)?;
    let seed = args.seed.unwrap_or_else(|| default_seed(&operands));
    let (mut sides, measured) = sides(args, seed, &common, &operands)?;
    let live: Vec<bool> = operands.iter().map(|o| matches!(o, Operand::Command(_))).collect();
    // Without --runs the runs were watched, and the verdict must be worth it.
    let sequential = args.runs.is_none() && live.iter().all(|live| *live);
    let case = Case { args, seed, live: &live, sequential };
    let again = (args.aa && measured.blocks > 0).then(|| sides.pop()).flatten();
    let rows = case.rows(&sides)?;
    let report = notes::report(case, &sides, again.as_ref(), &rows, &measured);
    print(args, &common, &report)?;
    let record = serde_json::json!({
        "schema": SCHEMA,
        "report": report,
        "sides": sides,
        "again": again,
        "order": measured.order,
    });
    args.store.keep(&common, "compare", Some(seed), record);
    if let Some(broken) = measured.broken {
        return Err(broken.with(&format!("; the {} finished runs above count", measured.blocks)));
    }
    let slower = report.rows.iter().any(|row| row.verdict == "slower");
    Ok(if slower { ExitCode::from(FINDING) } else { ExitCode::SUCCESS })
}

fn check(args: &Compare) -> Result<(), Failure> {
    if !(args.alpha > 0.0 && args.alpha < 0.5) {
        return Err(Failure::usage(format!("--alpha {} must lie between 0 and 0.5", args.alpha)));
    }
    if args::ranges(&args.ranges).is_none() {
        let text = format!("--ranges {}: a list such as 10-100,200-1000", args.ranges);
        return Err(Failure::usage(text));
    }
    if args.name.len() > args.operands.len().max(2) {
        return Err(Failure::usage("more --name than sides; leave some out"));
    }
    Ok(())
}

/// The seed if none is given. Simulations give the same numbers each time. On a real machine the
/// order of the runs is the coin that the test rests upon: it must fall anew each time, or luck and
/// whatever recurs on the machine would be the same in every repetition.
fn default_seed(operands: &[Operand]) -> u64 {
    let simulated = |operand: &Operand| match operand {
        Operand::Command(command) => command.ours,
        Operand::Numbers(_) => true,
    };
    if operands.iter().all(simulated) {
        return 1;
    }
    // The standard library's hasher is keyed by the operating system's random numbers.
    RandomState::new().build_hasher().finish() >> 32
}

/// The sides with their numbers: those of files and records as they are, the commands measured.
fn sides(
    args: &Compare,
    seed: u64,
    common: &Common,
    operands: &[Operand],
) -> Result<(Vec<Side>, Measured), Failure> {
    let labels = labels(args, operands);
    let commands = operands.iter().zip(&labels).filter_map(|(operand, label)| match operand {
        Operand::Command(command) => Some((label.clone(), command)),
        Operand::Numbers(_) => None,
    });
    let mut commands: Vec<_> = commands.collect();
    let mut measured = Measured::default();
    if !commands.is_empty() {
        if args.aa {
            let Operand::Command(baseline) = &operands[0] else {
                return Err(Failure::usage("--aa needs a baseline that is a command"));
            };
            commands.push((format!("{} (again)", labels[0]), baseline));
        }
        measured = measure(args, seed, common, commands, operands.len())?;
    }
    let mut live = std::mem::take(&mut measured.sides).into_iter();
    let numbers = |(operand, label): (&Operand, &String)| match operand {
        Operand::Command(_) => live.next().expect("a side for each command"),
        Operand::Numbers(side) => Side { label: label.clone(), ..side.clone() },
    };
    let mut sides: Vec<Side> = operands.iter().zip(&labels).map(numbers).collect();
    sides.extend(live);
    Ok((sides, measured))
}

fn measure(
    args: &Compare,
    seed: u64,
    common: &Common,
    commands: Vec<(String, &operand::Command)>,
    sides: usize,
) -> Result<Measured, Failure> {
    let every = commands.len() == sides + usize::from(args.aa);
    let plan = Plan::new(args, seed, commands)?;
    let plan = plan.with_cap(if every { args.max_runs } else { args.max_runs.min(UNWATCHED) });
    let bar = output::progress(common, u64::from(plan.cap));
    bar.set_message("runs of each side at most");
    let interrupts = Interrupts::catch();
    let watch = notes::Watch::new(args, every.then_some(sides));
    let mut measured = plan.measure(
        &interrupts,
        &mut |at, what| {
            bar.set_position(at as u64);
            if !what.is_empty() {
                bar.set_message(what.to_owned());
            }
        },
        &mut |sides| watch.enough(sides),
    );
    bar.finish_and_clear();
    if measured.blocks == 0 {
        return Err(match measured.broken.take() {
            Some(broken) => broken,
            None => nothing(&measured),
        });
    }
    Ok(measured)
}

fn nothing(measured: &Measured) -> Failure {
    let all = measured.failures.iter().filter(|failure| failure.failed > 0);
    let all: Vec<String> = all
        .map(|f| format!("{} failed in {} of {} runs ({})", f.label, f.failed, f.tried, f.first))
        .collect();
    Failure::environment(format!("no block of runs in which nothing failed: {}", all.join("; ")))
}

/// The names of the sides: as given, else what they are, made different where they are not.
fn labels(args: &Compare, operands: &[Operand]) -> Vec<String> {
    let own = |operand: &Operand| match operand {
        Operand::Command(command) => command.text.trim().to_owned(),
        Operand::Numbers(side) => side.label.clone(),
    };
    let given = |at: usize, operand| args.name.get(at).cloned().unwrap_or_else(|| own(operand));
    let labels: Vec<String> =
        operands.iter().enumerate().map(|(at, operand)| given(at, operand)).collect();
    let unique = |(at, label): (usize, &String)| {
        let twins = labels.iter().filter(|other| *other == label).count();
        if twins > 1 { format!("{label} #{}", at + 1) } else { label.clone() }
    };
    labels.iter().enumerate().map(unique).collect()
}

fn print(args: &Compare, common: &Common, report: &CompareReport) -> Result<(), Failure> {
    let text = match args.format {
        CompareFormat::Table => {
            let text = || report.to_text(args.layout.into());
            return output::print(common, text, String::new, String::new);
        }
        CompareFormat::Markdown => report.to_markdown(args.layout.into()),
        CompareFormat::Json => report.to_json(),
        CompareFormat::Csv => report.to_csv(),
    };
    output::result(common, &text)
}
