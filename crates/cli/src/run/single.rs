//! The single-user mode of AIM9.

use super::args::Run;
use super::progress::Live;
use super::{host, repeats};
use crate::fail::Failure;
use crate::output;
use convoy_host::aim9;
use convoy_report::Aim9Report;
use convoy_workload::mix::Mix;
use convoy_workload::reaim_config::ReaimConfig;
use convoy_workload::schedule::Schedule;
use std::process::ExitCode;
use std::time::Duration;

/// The command.
pub(super) fn run(args: &Run, mix: Mix, config: &ReaimConfig) -> Result<ExitCode, Failure> {
    let period = repeats::seconds("--period", args.host.period)?;
    if period == Duration::ZERO {
        return Err(Failure::usage("--period must be above 0 seconds"));
    }
    let title = format!(
        "{}: each job alone for {} s, this machine, files of {} KB",
        mix.name,
        args.host.period,
        mix.file_kb(1)
    );
    output::ready(args.results.files.record.as_deref())?;
    let options = host::options(args, mix, Schedule::List(vec![1]), config)?;
    let mut live = Live::new(&args.common, &options);
    let rates = aim9::run(&options, period, |progress| live.show(progress));
    live.finish();
    let report = Aim9Report { title, rows: rates.map_err(Failure::environment)? };
    output::print(&args.common, || report.to_text(), || report.to_json(), || report.to_csv())?;
    if let Some(path) = &args.results.files.record {
        output::file(path, &(report.to_json() + "\n"))?;
    }
    let failed: Vec<&str> =
        report.rows.iter().filter(|row| row.failures > 0).map(|row| row.job.as_str()).collect();
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::environment(format!(
        "runs failed of {}; see the column, run one with --job to learn why",
        failed.join(", ")
    )))
}
