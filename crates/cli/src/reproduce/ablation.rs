//! Which rule breaks work conservation: the row with the loss again, one rule removed at a time.

use super::{BASE, INTERRUPTED, Plan, estimate};
use crate::args::Reproduce;
use crate::fail::Failure;
use crate::{output, pool};
use convoy_catalogue::Set;
use convoy_kernel::KernelPreset;
use convoy_lab::experiment::AblationCase;
use convoy_lab::virtual_run::{BklUse, VirtualPoint};
use convoy_report::{Cell, Column, Table, fixed};
use std::process::ExitCode;

pub(super) fn ablated(case: &AblationCase) -> Result<KernelPreset, Failure> {
    let sets = case.set.iter().map(|set| set.parse()).collect::<Result<Vec<Set>, _>>();
    let loaded = sets.and_then(|sets| convoy_catalogue::load::<KernelPreset>(BASE, &sets));
    let mut kernel = loaded.map_err(Failure::usage)?.value;
    kernel.bkl_traffic.events_per_shell *= case.traffic.unwrap_or(1.0);
    kernel.config.group_sched = case.group_sched.unwrap_or(kernel.config.group_sched);
    kernel.config.no_hz = case.no_hz.unwrap_or(kernel.config.no_hz);
    kernel.config.preempt = case.preempt.unwrap_or(kernel.config.preempt);
    Ok(kernel)
}

/// The cell of half an interval; one seed has none.
fn half_width(value: f64) -> Cell {
    let text = if value.is_finite() { format!("± {}", fixed(value, 1)) } else { String::new() };
    Cell::shown(text, value)
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("2.6.26-rc1, but").key("variant"),
        Column::number("Jobs/Min", "").key("jobs_per_min"),
        Column::number("loss", "%").key("loss_percent"),
        Column::number("", "").key("loss_half_width_percent").joined(),
        Column::number("idle", "%").key("idle_percent"),
        Column::number("change", "ms").key("owner_change_ms").group("BKL owner"),
        Column::number("off CPU", "%").key("owner_not_running_percent").group("BKL owner"),
        Column::number("pulled", "1/s").key("pulled_newidle_per_s").group("newly idle"),
        Column::number("failed", "1/s").key("newidle_failed_per_s").group("newly idle"),
    ]
}

/// `convoy reproduce --ablation`.
pub(super) fn run(args: &Reproduce, plan: &Plan) -> Result<ExitCode, Failure> {
    let base = plan.kernel(BASE)?;
    let mut kernels = vec![
        ("2.6.25".to_owned(), plan.kernel("2.6.25")?),
        (format!("{BASE}, every rule"), base.clone()),
    ];
    for case in &plan.experiment.ablation {
        kernels.push((case.name.clone(), ablated(case)?));
    }
    let cells = kernels
        .iter()
        .flat_map(|(_, kernel)| {
            plan.seeds.iter().map(|&seed| plan.cell(kernel, &plan.machine, seed))
        })
        .collect();
    let done = pool::run(&args.common, "ablations", cells, args.threads)?;
    let baseline = done.points.iter().take(plan.seeds.len());
    if done.interrupted && baseline.into_iter().any(Option::is_none) {
        return Err(Failure::environment("interrupted before the baseline had finished; repeat"));
    }
    let title = format!("{}: ablations of the hand-off row", plan.experiment.name);
    let mut table = Table::new(&title, columns());
    let rows: Vec<&[Option<VirtualPoint>]> = done.points.chunks(plan.seeds.len()).collect();
    let rates = |points: &[Option<VirtualPoint>], value: fn(&VirtualPoint) -> f64| {
        points.iter().flatten().map(value).collect::<Vec<f64>>()
    };
    let base = rates(rows[0], |point| point.columns.jobs_per_min);
    for ((name, _), points) in kernels.iter().zip(&rows) {
        if points.iter().any(Option::is_none) {
            continue;
        }
        let jobs = rates(points, |point| point.columns.jobs_per_min);
        let loss = base.iter().zip(&jobs).map(|(b, j)| 100.0 * (1.0 - j / b)).collect();
        let loss = estimate(loss)?;
        let mean = |value| estimate(rates(points, value)).map(|estimate| estimate.mean);
        let bkl = |value: fn(BklUse) -> f64| {
            let uses = points.iter().flatten().filter_map(|point| point.bkl).map(value);
            estimate(uses.filter(|value| value.is_finite()).collect())
                .map_or(f64::NAN, |estimate| estimate.mean)
        };
        table.row(vec![
            Cell::text(name),
            Cell::number(estimate(jobs)?.mean, 0),
            Cell::number(loss.mean, 1),
            half_width(loss.half_width()),
            Cell::number(mean(|point| point.idle_percent)?, 1),
            Cell::number(bkl(|bkl| bkl.owner_change_ms), 2),
            Cell::number(bkl(|bkl| bkl.owner_not_running_percent), 1),
            Cell::number(mean(|point| point.sched.pulled_newidle as f64 / point.busy_s)?, 0),
            Cell::number(mean(|point| point.sched.newidle_failed as f64 / point.busy_s)?, 0),
        ]);
    }
    table.note(plan.sentence());
    table.note("loss against 2.6.25 with the same seeds; ± is the 95 % t interval of the pairs");
    output::print(
        &args.common,
        || table.to_text(),
        || {
            let rows = table.to_json();
            let name = &plan.experiment.name;
            format!("{:#}", serde_json::json!({ "experiment": name, "ablations": rows }))
        },
        || table.to_csv(),
    )?;
    if done.interrupted {
        return Err(Failure::environment(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}
