//! `convoy lab check`: explore the interleavings of a lock's source, or replay one.

mod orderings;

use crate::args::Common;
use crate::experiment::{Told, execute, threads};
use crate::fail::{FINDING, Failure};
use crate::output;
use clap::Args;
use convoy_checker::{Budget, Memory, Row, Subject};
use convoy_lab::job::JobError;
use convoy_lab::pool::{Watch, simulate};
use convoy_report::{Cell, CheckReport, CheckRow, Column, Table};
use std::process::ExitCode;

/// Environment variable by which `cargo xtask nightly` raises every budget.
const BUDGET: &str = "CONVOY_BUDGET";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub(crate) struct Check {
    /// Locks or families from --list, `all`, or `busted`
    #[arg(value_name = "LOCK", required_unless_present_any = ["list", "replay"])]
    locks: Vec<String>,
    /// List the locks that can be checked, and their guarantees
    #[arg(long, conflicts_with_all = ["locks", "replay", "budget", "seed"])]
    list: bool,
    /// Also print each property, and each violating interleaving step by step
    #[arg(long, conflicts_with_all = ["list", "replay"])]
    details: bool,
    /// Executions of each scenario [default: 40000, and up to 1500000 for two preemptions; zone,
    /// rcu and with --every-order: 20000 of the former]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    budget: Option<u64>,
    /// Memory model: `sc` sequentially consistent, `tso` as x86, `c11` what the orderings admit.
    /// The weaker ones are explored after `sc`
    #[arg(long, value_name = "MODEL", default_value = "c11", value_parser = ["sc", "tso", "c11"])]
    #[arg(conflicts_with_all = ["list", "replay"])]
    memory: String,
    /// Explore each interleaving to its end, even from a state that was explored before
    #[arg(long, conflicts_with_all = ["list", "replay"])]
    every_order: bool,
    /// Search for the weakest memory orderings of the source with which no scenario fails, each
    /// alone and then all together
    #[arg(long, conflicts_with_all = ["list", "replay", "every_order", "seed", "memory"])]
    orderings: bool,
    /// Seed of the random part, which begins when the systematic search has used its share
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Replay a schedule that an earlier check printed
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "budget")]
    replay: Option<String>,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Check) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    if args.list {
        return list(&args.common);
    }
    match &args.replay {
        Some(schedule) => replay(args, schedule),
        None if args.orderings => {
            orderings::run(&args.locks, args.budget, args.details, &args.common)
        }
        None => explore(args),
    }
}

fn explore(args: &Check) -> Result<ExitCode, Failure> {
    let subjects = convoy_checker::select(&args.locks).map_err(Failure::usage)?;
    let memory: Memory = args.memory.parse().expect("one of the values");
    let of = |subject: Subject| {
        let subject = subject.under(memory);
        if args.every_order { subject.in_every_order() } else { subject }
    };
    let subjects: Vec<_> = subjects.into_iter().map(of).collect();
    let factor = factor()?;
    let budgets: Vec<_> = subjects.iter().map(|subject| budget(args, subject, factor)).collect();
    let most = budgets.iter().map(Budget::most).max().unwrap_or(0);
    let fewest = budgets.iter().map(Budget::most).min().filter(|&fewest| fewest < most);
    let fewer = fewest.map_or(String::new(), |fewest| format!(", {fewest} of zone and rcu"));
    let cases = |(&subject, budget): (&Subject, Budget)| {
        (0..subject.count()).map(move |place| (subject, place, budget))
    };
    let searched = subjects.iter().zip(budgets);
    let searched = searched.filter(|(subject, _)| subject.same_among(&subjects).is_none());
    let cells: Vec<_> = searched.flat_map(cases).enumerate().collect();
    let (count, threads) = (cells.len(), threads(None)?);
    let check = |&(subject, place, budget): &(Subject, usize, Budget)| {
        Ok::<_, JobError>(subject.check_one(place, budget))
    };
    let start = |watch: &mut Watch<Option<Row>>| simulate(cells, threads, check, watch);
    let done = execute(&args.common, "scenarios", count, start, |_, row| {
        let told = |row: &Row| format!("{}/{}: {} explored", row.name, row.scenario, row.explored);
        Ok(Told { latest: row.as_ref().map(told), ..Told::default() })
    })?;
    let rows: Vec<_> = done.outcomes.into_iter().flatten().flatten().collect();
    let rows = subjects.iter().flat_map(|subject| rows_of(subject, &subjects, &rows));
    let rows: Vec<_> = rows.map(row).collect();
    if done.interrupted && rows.is_empty() {
        return Err(Failure::interrupted(0));
    }
    let report = CheckReport {
        title: format!("at most {most} interleavings of each scenario{fewer}"),
        rows,
        memory: memory.name().to_owned(),
    };
    let text = || if args.details { report.to_details() } else { report.to_text() };
    output::print(&args.common, text, || report.to_json(), || report.to_csv())?;
    if done.interrupted {
        return Err(Failure::interrupted(report.rows.len()));
    }
    Ok(if report.violation() { ExitCode::from(FINDING) } else { ExitCode::SUCCESS })
}

/// Returns the rows of `subject`: its own, or those of a lock among `subjects` with the same
/// executions.
fn rows_of(subject: &Subject, subjects: &[Subject], rows: &[Row]) -> Vec<Row> {
    let name = subject.same_among(subjects).unwrap_or(subject).name;
    rows.iter().filter(|row| row.name == name).map(|row| row.of(subject)).collect()
}

/// Returns the number by which [`BUDGET`] multiplies every budget.
fn factor() -> Result<u64, Failure> {
    let Ok(factor) = std::env::var(BUDGET) else { return Ok(1) };
    let factor: u64 = factor.parse().map_err(|_| {
        Failure::usage(format!("{BUDGET}={factor} is not a whole number; unset it or give one"))
    })?;
    Ok(factor.max(1))
}

/// Returns the budget of each scenario of `subject`.
fn budget(args: &Check, subject: &Subject, factor: u64) -> Budget {
    let usual = Budget { seed: args.seed, ..subject.budget() };
    match args.budget {
        Some(executions) => Budget { executions, few_preemptions: 0, ..usual },
        None => Budget {
            executions: usual.executions.saturating_mul(factor),
            few_preemptions: usual.few_preemptions.saturating_mul(factor),
            ..usual
        },
    }
}

fn row(row: Row) -> CheckRow {
    let Row { scenario, about, .. } = row;
    let violated = row.violated.map(|property| property.name().to_owned());
    let property = match &violated {
        Some(violated) => format!("{scenario}: {about}: {violated}"),
        None => format!("{scenario}: {about}"),
    };
    let replay = row.schedule.as_ref();
    CheckRow {
        lock: row.family.to_owned(),
        variant: row.name.to_owned(),
        property,
        checks: row.checks.iter().map(|property| property.name().to_owned()).collect(),
        violation: violated.is_some(),
        violated,
        replay: replay.map(|schedule| format!("convoy lab check --replay '{schedule}'")),
        schedule: row.schedule,
        explored: row.explored,
        exhaustive: row.exhaustive,
        preemptions: row.preemptions,
        share: row.share,
        weak: row.weak.map(orderings::weak),
        drawing: convoy_checker::drawing(&row.steps),
        steps: row.narrative,
    }
}

fn replay(args: &Check, schedule: &str) -> Result<ExitCode, Failure> {
    let told = convoy_checker::replay(schedule).map_err(Failure::usage)?;
    let subject = told.subject;
    if !args.locks.is_empty() && !args.locks.iter().any(|word| subject.is(word)) {
        let (name, other) = (subject.name, args.locks.join(" "));
        let text = format!("the schedule is one of {name}, not of {other}; leave the lock out");
        return Err(Failure::usage(text));
    }
    let verdict = match &told.violation {
        Some((property, text)) => format!("violated: {}: {text}", property.name()),
        None => "nothing is violated in this order".to_owned(),
    };
    let text = || convoy_checker::drawing(&told.steps) + &verdict;
    let json = || {
        let lines = serde_json::json!({
            "verdict": verdict,
            "lock": subject.family,
            "variant": subject.name,
            "schedule": schedule,
            "violation": told.violation.is_some(),
            "property": told.violation.as_ref().map(|(property, _)| property.name()),
            "steps": told.narrative,
        });
        format!("{lines:#}")
    };
    output::print(&args.common, text, json, || {
        let mut table = Table::new("", ["step", "text"].map(Column::text).to_vec());
        for (number, step) in (1..).zip(&told.narrative) {
            table.row(vec![Cell::count(number), Cell::text(step)]);
        }
        table.row(vec![Cell::empty(), Cell::text(&verdict)]);
        table.to_csv()
    })?;
    Ok(if told.violation.is_some() { ExitCode::from(FINDING) } else { ExitCode::SUCCESS })
}

/// Everything that can be checked, by family.
fn list(common: &Common) -> Result<ExitCode, Failure> {
    let columns = ["Family", "Lock", "Promises", "What it is"].map(Column::text);
    let mut table = Table::new("what `convoy lab check` can check", columns.to_vec());
    let mut above = "";
    for subject in convoy_checker::subjects() {
        let family = if subject.busted { "busted" } else { subject.family };
        if family != above {
            table.rule();
        }
        let first = if family == above { Cell::repeated(family) } else { Cell::text(family) };
        above = family;
        let promises: Vec<_> = subject.promises.iter().map(|promise| promise.word()).collect();
        table.row(vec![
            first,
            Cell::text(subject.name),
            Cell::text(promises.join(" ")),
            Cell::text(subject.about),
        ]);
    }
    table.note(
        "Locks promise mutual exclusion, no lost wakeup and no deadlock; rcu that nothing in use \
         is freed.",
    );
    table.note("busted: broken on purpose; the checker must catch each of them.");
    let json = || format!("{:#}", table.to_json());
    output::print(common, || table.to_text(), json, || table.to_csv())?;
    Ok(ExitCode::SUCCESS)
}
