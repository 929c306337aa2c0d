//! `--dry-run`: how many commits there are, and how many runs to expect.

use super::args::Bisect;
use super::settings;
use crate::fail::Failure;
use crate::output;
use convoy_measure::bisect::{Git, expected};
use convoy_report::{Cell, Column, Table};
use std::process::ExitCode;

/// Effects over the standard deviation of one run.
const EFFECTS: [f64; 4] = [10.0, 5.0, 2.0, 1.0];
/// Searches for each effect.
const TRIALS: u64 = 5;

/// The command with `--dry-run`.
pub(crate) fn run(args: &Bisect) -> Result<ExitCode, Failure> {
    let git = Git::open(&args.repo)?;
    let settings = settings::of(args, &git)?;
    let (commits, candidates, expected) = expected(&git, &settings, &EFFECTS, TRIALS)?;
    let columns = vec![
        Column::number("effect / noise", "").key("effect_over_noise"),
        Column::number("runs", "").key("runs"),
        Column::number("least", "").key("runs_least"),
        Column::number("most", "").key("runs_most"),
        Column::number("builds", "").key("builds"),
    ];
    let [good, bad] = commits.ends().map(|end| commits.list[end].short());
    let title = format!("{candidates} commits suspected from {good} to {bad}");
    let mut table = Table::new(&title, columns);
    for row in expected {
        let (runs, builds) = (row.runs, row.builds);
        let mean = f64::from(runs.iter().sum::<u32>()) / runs.len() as f64;
        let (least, most) = (u64::from(runs[0]), u64::from(runs[runs.len() - 1]));
        table.row(vec![
            Cell::number(row.effect, 0),
            Cell::number(mean, 0),
            Cell::count(least),
            Cell::count(most),
            Cell::number(builds, 0),
        ]);
    }
    table.note(format!(
        "{TRIALS} simulated searches each of this history, at {} confidence, Gaussian noise; the \
         confirmation adds {} runs",
        settings.confidence,
        2 * settings.confirm
    ));
    let json = serde_json::json!({
        "good": settings.good, "bad": settings.bad, "commits": candidates,
        "expected": table.to_json(),
    });
    let json = || format!("{json:#}");
    output::print(&args.common, || table.to_text(), json, || table.to_csv())?;
    Ok(ExitCode::SUCCESS)
}
