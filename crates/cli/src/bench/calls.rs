//! `convoy bench calls`: the loops of the workload `lmbench` on this machine's kernel.

use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use clap::Args;
use convoy_catalogue::{Sheet, WORKLOADS};
use convoy_lab::figures;
use convoy_report::{Cell, Column, Table};
use convoy_stats::Sample;
use convoy_workload::workload::{Operation, Workload};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The workload with the loops.
const NAME: &str = "lmbench";

#[derive(Debug, Args)]
pub(crate) struct BenchCalls {
    /// Number of rounds; each runs every loop once, and the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &BenchCalls) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    let sheet = Sheet::open(&WORKLOADS, NAME, None).map_err(Failure::usage)?;
    let workload = sheet.read::<Workload>(&[]).map_err(Failure::usage)?.value;
    let mut loops = workload.loops.ok_or_else(|| Failure::environment("no loops"))?;
    // A program on this machine has an image already and would only fork.
    loops.operations.retain(|each| each.call != Operation::Exec);
    let order: Vec<&str> = loops.operations.iter().map(|each| each.call.key()).collect();
    let mut series: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    convoy_host::in_work_directory(|k, directory| {
        loops.prepare(k, directory)?;
        for _ in 0..args.rounds {
            for (key, figure) in loops.run(k, directory)? {
                series.entry(key).or_default().push(figure);
            }
        }
        Ok(())
    })
    .map_err(Failure::environment)?
    .map_err(|error: convoy_workload::jobs::JobError| Failure::environment(error))?;
    let columns =
        vec![Column::text("operation"), Column::number("median", ""), Column::text("unit")];
    let mut table = Table::new("loops of lmbench on this machine's kernel", columns);
    let mut values = Vec::new();
    for key in order {
        let Some(metric) = figures::metric(key) else { continue };
        let sample = Sample::new(series.remove(key).unwrap_or_default());
        let median = sample.map_or(f64::NAN, |sample| sample.median());
        let name = key.trim_end_matches("_us").trim_end_matches("_mb_s").replace('_', " ");
        let cells =
            [Cell::text(&name), Cell::number(median, metric.decimals), Cell::text(metric.unit)];
        table.row(cells.to_vec());
        values.push(json!({ "operation": name, "median": median, "unit": metric.unit }));
    }
    output::print_table(&args.common, &table, values)
}
