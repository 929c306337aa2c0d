//! What the source does not say about its machine: every combination, as losses against 2.6.25.

use super::Plan;
use crate::args::Reproduce;
use crate::fail::Failure;
use crate::pool;
use convoy_kernel::{Config, KernelPreset, Preempt};
use convoy_machine::Preset;
use convoy_report::{Cell, Column, Table};

struct Combination {
    machine: Preset,
    hz: u32,
    preempt: Preempt,
    group_sched: bool,
}

/// Machine x HZ x preemption as the presets have them, and each machine once more with the other
/// setting of group scheduling.
fn combinations(plan: &Plan, base: &Config) -> Result<Vec<Combination>, Failure> {
    let unknown = &plan.experiment.unknown;
    let mut all = Vec::new();
    for name in &unknown.machines {
        let machine = plan.sets.machine(name, None)?.value;
        for &hz in &unknown.hz {
            for &preempt in &unknown.preempt {
                let group_sched = base.group_sched;
                all.push(Combination { machine: machine.clone(), hz, preempt, group_sched });
            }
        }
        let (hz, preempt, group_sched) = (base.hz, base.preempt, !base.group_sched);
        all.push(Combination { machine, hz, preempt, group_sched });
    }
    Ok(all)
}

/// The spread is run at least this much scaled down: it has eight times the cells of the table.
const SCALE_MIN: u32 = 4;

/// The table, and whether an interrupt left out some of its rows.
pub(super) struct Spread {
    pub(super) table: Table,
    pub(super) interrupted: bool,
}

/// Runs every combination with one seed.
pub(super) fn run(args: &Reproduce, plan: &Plan) -> Result<Spread, Failure> {
    let plan = &plan.scaled(plan.scale.max(SCALE_MIN));
    let cases = plan.cases(&[])?;
    let Some(config) = cases.first().map(|(_, kernel)| kernel.config.clone()) else {
        return Err(Failure::usage("the experiment has no case to run"));
    };
    let combinations = combinations(plan, &config)?;
    let mut cells = Vec::new();
    for combination in &combinations {
        for (_, kernel) in &cases {
            let mut kernel: KernelPreset = kernel.clone();
            kernel.config.hz = combination.hz;
            kernel.config.preempt = combination.preempt;
            kernel.config.group_sched = combination.group_sched;
            cells.push(plan.cell(&kernel, &combination.machine, plan.seeds[0]));
        }
    }
    let what = "machine and configuration that the source does not name";
    let done = pool::run(&args.common, what, cells, args.threads)?;
    let mut columns = vec![
        Column::text("machine"),
        Column::number("HZ", ""),
        Column::text("PREEMPT"),
        Column::text("groups"),
        Column::number("2.6.25", "jobs/min").key("baseline_jobs_per_min"),
    ];
    for (case, _) in cases.iter().skip(1) {
        let short = case.kernel.split_once('+').map_or("26-rc1", |(_, policy)| policy);
        let key = format!("loss_percent {}", case.kernel);
        columns.push(Column::number(short, "loss %").key(&key));
    }
    columns.push(Column::number("26-rc1", "idle %").key("idle_percent"));
    let title = "Spread over what the source does not say: loss of Jobs/Min against 2.6.25, 1 seed";
    let mut table = Table::new(title, columns);
    for (combination, points) in combinations.iter().zip(done.points.chunks(cases.len())) {
        let Some(points) = points.iter().cloned().collect::<Option<Vec<_>>>() else { continue };
        let base = points[0].columns.jobs_per_min;
        let preempt = match combination.preempt {
            Preempt::None => "none",
            Preempt::Voluntary => "voluntary",
            Preempt::Full => "full",
        };
        let mut row = vec![
            Cell::text(&combination.machine.name),
            Cell::count(u64::from(combination.hz)),
            Cell::text(preempt),
            Cell::text(if combination.group_sched { "yes" } else { "no" }),
            Cell::number(base, 0),
        ];
        for point in points.iter().skip(1) {
            row.push(Cell::number(100.0 * (1.0 - point.columns.jobs_per_min / base), 1));
        }
        let idle = points.get(1).map_or(f64::NAN, |point| point.idle_percent);
        row.push(Cell::number(idle, 1));
        table.row(row);
    }
    let tasks = plan.experiment.tasks / plan.scale;
    table.note(format!("{tasks} tasks with full-size jobs, start delay / {}", plan.scale));
    table.note(format!(
        "default of the table above: {}, HZ {}, PREEMPT {}, group scheduling {}",
        plan.machine.name,
        config.hz,
        format!("{:?}", config.preempt).to_lowercase(),
        if config.group_sched { "yes" } else { "no" }
    ));
    Ok(Spread { table, interrupted: done.interrupted })
}
