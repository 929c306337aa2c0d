//! `convoy reproduce --sensitivity`: the loss over tasks, CPUs and hold time.

use super::{Plan, estimate};
use crate::args::Reproduce;
use crate::fail::Failure;
use crate::{output, pool};
use convoy_kernel::KernelPreset;
use convoy_lab::virtual_run::VirtualRun;
use convoy_report::{Axis, Panel, Plot, Point, Scale, Series};
use std::process::ExitCode;

/// One x of a panel: what is varied, and the two kernels to compare.
struct Setting {
    x: f64,
    users: u32,
    cpus: usize,
    hold_ns: Option<f64>,
}

/// A panel before it is run.
struct Sweep {
    title: &'static str,
    label: &'static str,
    settings: Vec<Setting>,
}

fn sweeps(plan: &Plan) -> Vec<Sweep> {
    let ranges = &plan.experiment.sensitivity;
    let cpus = plan.machine.topology.cpus;
    let tasks = |&users: &u32| Setting { x: f64::from(users), users, cpus, hold_ns: None };
    let count = |&cpus: &usize| Setting {
        x: cpus as f64,
        users: ranges.tasks_per_cpu * cpus as u32,
        cpus,
        hold_ns: None,
    };
    let hold =
        |&ns: &f64| Setting { x: ns / 1e3, users: ranges.hold_tasks, cpus, hold_ns: Some(ns) };
    vec![
        Sweep {
            title: "Tasks",
            label: "tasks on the experiment's machine",
            settings: ranges.tasks.iter().map(tasks).collect(),
        },
        Sweep {
            title: "CPUs",
            label: "CPUs, tasks in proportion",
            settings: ranges.cpus.iter().map(count).collect(),
        },
        Sweep {
            title: "Hold time",
            label: "hold of a short section, us",
            settings: ranges.hold_ns.iter().map(hold).collect(),
        },
    ]
}

fn cell(plan: &Plan, kernel: &KernelPreset, setting: &Setting, seed: u64) -> VirtualRun {
    let mut kernel = kernel.clone();
    if let Some(ns) = setting.hold_ns {
        kernel.bkl_traffic.hold_short_ns = ns;
    }
    let machine = plan.machine.clone().with_cpus(setting.cpus);
    VirtualRun { users: setting.users, start_delay_ns: 0, ..plan.cell(&kernel, &machine, seed) }
}

/// The command.
pub(super) fn run(args: &Reproduce, plan: &Plan) -> Result<ExitCode, Failure> {
    output::ready(Some(&args.plot))?;
    let kernels = [
        plan.kernel("2.6.26-rc1+semaphore-speedup")?,
        plan.kernel("2.6.26-rc1")?,
        plan.kernel("2.6.26-rc1+bkl-spinlock")?,
    ];
    let sweeps = sweeps(plan);
    let mut cells = Vec::new();
    for setting in sweeps.iter().flat_map(|sweep| &sweep.settings) {
        for kernel in &kernels {
            cells.extend(plan.seeds.iter().map(|&seed| cell(plan, kernel, setting, seed)));
        }
    }
    let done = pool::run(&args.common, "sensitivity", cells, args.threads)?;
    if done.interrupted {
        return Err(Failure::environment("interrupted; a sweep has no result without all cells"));
    }
    let rates: Vec<f64> =
        done.points.iter().flatten().map(|point| point.columns.jobs_per_min).collect();
    let plot = plot(plan, &sweeps, &rates)?;
    output::file(&args.plot, &plot.to_svg())?;
    let csv = args.plot.with_extension("csv");
    output::file(&csv, &plot.to_csv())?;
    let text = format!("wrote {} and {}", args.plot.display(), csv.display());
    output::message(&args.common, &text);
    output::result(&args.common, &plot.to_csv())?;
    Ok(ExitCode::SUCCESS)
}

fn plot(plan: &Plan, sweeps: &[Sweep], rates: &[f64]) -> Result<Plot, Failure> {
    let seeds = plan.seeds.len();
    let mut rows = rates.chunks(3 * seeds);
    let mut panels = Vec::new();
    for sweep in sweeps {
        let names = ["hand-off", "spinlock"];
        let mut series: Vec<Series> =
            names.map(|name| Series { name: name.to_owned(), points: Vec::new() }).into();
        for setting in &sweep.settings {
            let row = rows.next().unwrap_or_default();
            let (base, others) = row.split_at(seeds.min(row.len()));
            for (series, rates) in series.iter_mut().zip(others.chunks(seeds)) {
                let losses = base.iter().zip(rates).map(|(b, r)| 100.0 * (1.0 - r / b)).collect();
                let loss = estimate(losses)?;
                let point = Point { x: setting.x, y: loss.mean, lo: loss.lo, hi: loss.hi };
                series.points.push(point);
            }
        }
        panels.push(Panel {
            title: sweep.title.to_owned(),
            x: Axis { label: sweep.label.to_owned(), scale: Scale::Log },
            y: Axis { label: "loss of Jobs/Min, %".to_owned(), scale: Scale::Linear },
            series,
        });
    }
    Ok(Plot {
        title: format!("{}: loss against the patched semaphore", plan.experiment.name),
        subtitle: format!(
            "2.6.26-rc1, mix {}, {seeds} seeds in pairs, 95 % t interval",
            plan.experiment.mix
        ),
        panels,
    })
}
