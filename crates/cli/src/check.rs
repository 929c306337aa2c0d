//! `convoy check`: explore the interleavings of a lock's source, or replay one.

use crate::args::Check;
use crate::fail::{FINDING, Failure};
use crate::output;
use convoy_checker::{Budget, LOCKS, Row};
use convoy_host::Interrupts;
use convoy_lab::pool::LOOK;
use convoy_report::{CheckReport, CheckRow};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};

/// Environment variable by which `cargo xtask nightly` raises every budget.
const BUDGET: &str = "CONVOY_BUDGET";

/// The command.
pub(crate) fn run(args: &Check) -> Result<ExitCode, Failure> {
    let known = LOCKS.iter().find(|(lock, _)| *lock == args.lock);
    let Some((_, variants)) = known else {
        let known: Vec<_> = LOCKS.iter().map(|(lock, _)| *lock).collect();
        let (lock, known) = (&args.lock, known.join(", "));
        return Err(Failure::usage(format!("unknown lock {lock:?}; known: {known}")));
    };
    output::ready(args.common.output.as_deref())?;
    match &args.replay {
        Some(schedule) => replay(args, schedule),
        None => explore(args, variants),
    }
}

fn explore(args: &Check, variants: &[&'static str]) -> Result<ExitCode, Failure> {
    let budget = budget(args)?;
    let variants: Vec<&str> = match &args.variant {
        Some(variant) => vec![variant.as_str()],
        None => variants.to_vec(),
    };
    let (rows, interrupted) = rows(args, &variants, budget)?;
    if interrupted && rows.is_empty() {
        return Err(Failure::interrupted(0));
    }
    let report = CheckReport {
        title: format!(
            "{}: {} variants, at most {} interleavings for each scenario",
            args.lock,
            variants.len(),
            budget.executions
        ),
        rows,
        notes: vec![
            "explored with sequentially consistent memory: signals and deadlines may come at any \
             step"
                .to_owned(),
        ],
    };
    output::print(&args.common, || report.to_text(), || report.to_json(), || report.to_csv())?;
    if interrupted {
        return Err(Failure::interrupted(report.rows.len()));
    }
    Ok(if report.violation() { ExitCode::from(FINDING) } else { ExitCode::SUCCESS })
}

/// The rows of all variants, and whether an interrupt came before the last; they are then those of
/// the variants before.
fn rows(args: &Check, variants: &[&str], budget: Budget) -> Result<(Vec<CheckRow>, bool), Failure> {
    let interrupts = Interrupts::catch();
    let bar = output::progress(&args.common, variants.len() as u64);
    let (sender, receiver) = mpsc::channel();
    let lock = args.lock.clone();
    let all: Vec<String> = variants.iter().map(|variant| (*variant).to_owned()).collect();
    // Detached: after an interrupt the process ends without waiting for the variant under way.
    std::thread::spawn(move || {
        for variant in all {
            let found = convoy_checker::check_lock(&lock, &variant, budget);
            if sender.send(found).is_err() {
                return;
            }
        }
    });
    let mut rows = Vec::new();
    for variant in variants {
        bar.set_message((*variant).to_owned());
        let found = loop {
            if interrupts.pending() {
                bar.finish_and_clear();
                return Ok((rows, true));
            }
            match receiver.recv_timeout(LOOK) {
                Ok(found) => break found.map_err(Failure::usage)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::environment("the search ended early; this is a defect"));
                }
            }
        };
        rows.extend(found.into_iter().map(row));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((rows, false))
}

fn budget(args: &Check) -> Result<Budget, Failure> {
    let mut budget = Budget { seed: args.seed, ..Budget::default() };
    if let Some(executions) = args.budget {
        budget.executions = executions;
    } else if let Ok(factor) = std::env::var(BUDGET) {
        let factor: u64 = factor.parse().map_err(|_| {
            Failure::usage(format!("{BUDGET}={factor} is no whole number; unset it or give one"))
        })?;
        budget.executions = budget.executions.saturating_mul(factor.max(1));
    }
    if budget.executions == 0 {
        return Err(Failure::usage("--budget 0 explores nothing; give at least 1"));
    }
    Ok(budget)
}

fn row(row: Row) -> CheckRow {
    let replay = row.schedule.as_ref();
    let replay = replay.map(|schedule| format!("convoy check {} --replay '{schedule}'", row.lock));
    CheckRow {
        lock: row.lock.to_owned(),
        variant: row.variant,
        property: row.property,
        violation: row.violation,
        schedule: row.schedule,
        explored: row.explored,
        exhaustive: row.exhaustive,
        steps: row.narrative,
        replay,
    }
}

fn replay(args: &Check, schedule: &str) -> Result<ExitCode, Failure> {
    let told = convoy_checker::replay(schedule).map_err(Failure::usage)?;
    let json = || {
        let lines = serde_json::json!({
            "lock": args.lock,
            "schedule": schedule,
            "violation": told.violation.is_some(),
            "property": told.violation,
            "steps": told.lines,
        });
        format!("{lines:#}")
    };
    output::print(&args.common, || told.lines.join("\n"), json, || told.lines.join("\n"))?;
    Ok(if told.violation.is_some() { ExitCode::from(FINDING) } else { ExitCode::SUCCESS })
}
