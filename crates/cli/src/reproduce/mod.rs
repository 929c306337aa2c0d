//! `convoy reproduce`: the published table out of the mechanism, with its error.

mod ablation;
mod host;
mod sensitivity;
mod spread;

use crate::args::{Common, Reproduce};
use crate::fail::Failure;
use crate::presets::Sets;
use crate::{output, pool};
use convoy_catalogue::Entry as _;
use convoy_kernel::KernelPreset;
use convoy_lab::experiment::{Case, Experiment};
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use convoy_machine::Preset;
use convoy_report::ReproduceReport;
use convoy_stats::{Estimate, Sample};
use convoy_workload::mix::Mix;
use std::path::Path;
use std::process::ExitCode;

/// The kernel with the loss.
const BASE: &str = "2.6.26-rc1";
/// Said when an interrupt ended a command.
const INTERRUPTED: &str = "interrupted; the rows above are from the simulations that had \
                           finished, start it again for the rest";

/// Metrics of the report, in their order.
const METRICS: [&str; 9] = [
    "jobs_per_min",
    "jti",
    "real_s",
    "cpu_s",
    "jobs_per_sec_per_task",
    "idle_percent",
    "context_switches_per_s",
    "owner_not_running_percent",
    "owner_change_ms",
];

/// An experiment with the flags applied.
#[derive(Clone)]
struct Plan {
    experiment: Experiment,
    mix: Mix,
    machine: Preset,
    sets: Sets,
    scale: u32,
    seeds: Vec<u64>,
}

impl Plan {
    fn new(args: &Reproduce) -> Result<Self, Failure> {
        let experiment = load(&args.experiment)?;
        let machine = args.machine.as_ref().unwrap_or(&experiment.machine);
        let count = u64::from(args.seeds.unwrap_or(experiment.seeds));
        let scale = if args.full { 1 } else { args.scale.unwrap_or(experiment.scale) };
        if scale > experiment.tasks {
            let tasks = experiment.tasks;
            return Err(Failure::usage(format!(
                "--scale {scale} leaves no task of {tasks}; give 1 to {tasks}"
            )));
        }
        let Some(end) = args.seed.checked_add(count) else {
            let seed = args.seed;
            return Err(Failure::usage(format!(
                "--seed {seed} leaves no room for {count} seeds; give a smaller one"
            )));
        };
        let plan = Self {
            mix: Mix::load(&experiment.mix).map_err(Failure::usage)?,
            machine: args.sets.machine(machine, None)?.value,
            sets: args.sets.clone(),
            scale,
            seeds: (args.seed..end).collect(),
            experiment,
        };
        plan.validate()?;
        Ok(plan)
    }

    /// Everything that the experiment names is there and in its range, asked before the first
    /// simulation.
    fn validate(&self) -> Result<(), Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("experiment {}: {error}", self.experiment.name))
        };
        for case in &self.experiment.case {
            self.kernel(&case.kernel)?;
        }
        let base = self.kernel(BASE)?;
        for case in &self.experiment.ablation {
            ablation::ablated(case)?;
        }
        for name in &self.experiment.unknown.machines {
            self.sets.machine(name, None)?;
        }
        for &hz in &self.experiment.unknown.hz {
            let mut kernel = base.clone();
            kernel.config.hz = hz;
            kernel.check().map_err(|fault| wrong(&fault))?;
        }
        Ok(())
    }

    /// The same with another divisor of tasks and start delay.
    fn scaled(&self, scale: u32) -> Self {
        Self { scale: scale.min(self.experiment.tasks), ..self.clone() }
    }

    fn kernel(&self, name: &str) -> Result<KernelPreset, Failure> {
        self.sets.kernel(name).map(|kernel| kernel.value)
    }

    fn cases(&self, only: &[String]) -> Result<Vec<(Case, KernelPreset)>, Failure> {
        for name in only {
            self.kernel(name)?;
        }
        let plain = |name: &str| name.strip_prefix('v').unwrap_or(name).to_owned();
        let wanted =
            |case: &&Case| only.is_empty() || only.iter().any(|name| plain(name) == case.kernel);
        let cases: Result<Vec<_>, _> = self
            .experiment
            .case
            .iter()
            .filter(wanted)
            .map(|case| self.kernel(&case.kernel).map(|kernel| (case.clone(), kernel)))
            .collect();
        let cases = cases?;
        if cases.is_empty() {
            let known: Vec<&str> =
                self.experiment.case.iter().map(|case| case.kernel.as_str()).collect();
            return Err(Failure::usage(format!(
                "experiment {} has no case {}; its cases: {}",
                self.experiment.name,
                only.join(", "),
                known.join(", ")
            )));
        }
        Ok(cases)
    }

    /// One simulation at the plan's size.
    fn cell(&self, kernel: &KernelPreset, machine: &Preset, seed: u64) -> VirtualRun {
        let users = self.experiment.tasks / self.scale;
        let delay = self.experiment.start_delay_s * 1e9 / f64::from(self.scale);
        VirtualRun {
            seed,
            start_delay_ns: delay as u64,
            pool_users: self.experiment.tasks,
            ..VirtualRun::new(self.mix.clone(), users, kernel.clone(), machine.clone())
        }
    }

    /// `metric` of a point, at the full size.
    fn metric(&self, metric: &str, point: &VirtualPoint) -> f64 {
        let scale = f64::from(self.scale);
        match metric {
            "jobs_per_min" => point.columns.jobs_per_min,
            "jti" => f64::from(point.columns.jti),
            "real_s" => point.columns.real_s * scale,
            "cpu_s" => point.cpu_s * scale,
            "jobs_per_sec_per_task" => point.columns.jobs_per_sec_per_task / scale,
            "idle_percent" => point.idle_percent,
            "context_switches_per_s" => point.context_switches_per_s,
            "owner_not_running_percent" => {
                point.bkl.map_or(f64::NAN, |bkl| bkl.owner_not_running_percent)
            }
            "owner_change_ms" => point.bkl.map_or(f64::NAN, |bkl| bkl.owner_change_ms),
            _ => f64::NAN,
        }
    }

    fn sentence(&self) -> String {
        let experiment = &self.experiment;
        let size = if self.scale == 1 {
            "full size".to_owned()
        } else {
            format!(
                "scaled down: {} of {} tasks with full-size jobs, start delay / {}, Real and CPU \
                 x {}",
                experiment.tasks / self.scale,
                experiment.tasks,
                self.scale,
                self.scale
            )
        };
        format!(
            "{}, {} CPUs, mix {}, {} seeds, 95 % t interval; {size}",
            self.machine.name,
            self.machine.topology.cpus,
            experiment.mix,
            self.seeds.len()
        )
    }
}

/// Mean and interval of `values`; one value has no interval.
fn estimate(values: Vec<f64>) -> Result<Estimate, Failure> {
    Sample::new(values).map(|sample| sample.estimate()).map_err(Failure::environment)
}

pub(crate) fn load(name: &str) -> Result<Experiment, Failure> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|extension| extension == "toml");
    if !is_file {
        return Experiment::named(name).map_err(Failure::usage);
    }
    let text = convoy_catalogue::read::text(path)
        .map_err(|error| Failure::usage(format!("experiment {name}: {error}")))?;
    Experiment::parse(name, &text).map_err(Failure::usage)
}

/// The command.
pub(crate) fn run(args: &Reproduce) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    if let Some(experiment) = host::named(&args.experiment)? {
        return host::run(args, experiment);
    }
    if args.measure.is_some() {
        return Err(Failure::usage("--measure is for the experiment host; drop it"));
    }
    let plan = Plan::new(args)?;
    if args.sensitivity {
        return sensitivity::run(args, &plan);
    }
    if args.ablation {
        return ablation::run(args, &plan);
    }
    let cases = plan.cases(&args.kernel)?;
    let cells = cases
        .iter()
        .flat_map(|(_, kernel)| {
            plan.seeds.iter().map(|&seed| plan.cell(kernel, &plan.machine, seed))
        })
        .collect();
    let done = pool::run(&args.common, "the published table", cells, args.threads)?;
    let mut report = ReproduceReport::new(
        &plan.experiment.name,
        &plan.sentence(),
        u64::from(plan.experiment.tasks),
    );
    for ((case, kernel), points) in cases.iter().zip(done.points.chunks(plan.seeds.len())) {
        let points: Vec<&VirtualPoint> = points.iter().flatten().collect();
        if !points.is_empty() {
            rows(&plan, case, &kernel.name, &points, &mut report)?;
        }
    }
    notes(&plan, &cases, &done.points, &mut report);
    let wanted = !args.no_spread && args.kernel.is_empty() && !done.interrupted;
    let spread = if wanted { Some(spread::run(args, &plan)?) } else { None };
    print(&args.common, &report, spread.as_ref().map(|spread| &spread.table))?;
    if done.interrupted || spread.is_some_and(|spread| spread.interrupted) {
        return Err(Failure::environment(INTERRUPTED));
    }
    let record = serde_json::to_value(&report).map_err(Failure::environment)?;
    args.store.keep(&args.common, "reproduce", Some(args.seed), record);
    Ok(ExitCode::SUCCESS)
}

fn print(
    common: &Common,
    report: &ReproduceReport,
    spread: Option<&convoy_report::Table>,
) -> Result<(), Failure> {
    let text = || {
        let mut text = report.to_text();
        if let Some(table) = spread {
            text.push('\n');
            text.push_str(&table.to_text());
        }
        text
    };
    let json =
        || spread.map_or_else(|| report.to_json(), |table| report.to_json_with_spread(table));
    output::print(common, text, json, || report.to_csv())
}

fn rows(
    plan: &Plan,
    case: &Case,
    kernel: &str,
    points: &[&VirtualPoint],
    report: &mut ReproduceReport,
) -> Result<(), Failure> {
    for metric in METRICS {
        let values: Vec<f64> = points.iter().map(|point| plan.metric(metric, point)).collect();
        // A kernel without a big kernel lock has no owner of it.
        if values.iter().any(|value| !value.is_finite()) {
            continue;
        }
        let cpus = plan.machine.topology.cpus;
        let published = case.published(metric, cpus, plan.experiment.start_delay_s);
        let fitted = case.fitted.iter().any(|name| name == metric);
        report.push(kernel, metric, published, &estimate(values)?, fitted);
    }
    Ok(())
}

fn notes(
    plan: &Plan,
    cases: &[(Case, KernelPreset)],
    points: &[Option<VirtualPoint>],
    report: &mut ReproduceReport,
) {
    for (case, _) in cases {
        if let Some(parameter) = &case.fitted_parameter {
            report.notes.push(format!("f: fitted to the row {}: {parameter}", case.kernel));
        }
    }
    report.notes.push(
        "idle: over Real without the start delay; the published value follows from Real and CPU"
            .to_owned(),
    );
    if plan.scale == plan.experiment.scale && !plan.experiment.scale_error.is_empty() {
        let errors: Vec<String> = plan
            .experiment
            .scale_error
            .iter()
            .map(|(kernel, ratio)| format!("{kernel} {:+.1} %", (ratio - 1.0) * 100.0))
            .collect();
        report.notes.push(format!(
            "Jobs/Min at this size against the full size, measured once: {}",
            errors.join(", ")
        ));
    }
    let finished: Vec<&VirtualPoint> = points.iter().flatten().collect();
    if let Some(failure) = finished.iter().find_map(|point| point.first_failure.as_ref()) {
        report.notes.push(format!("a job failed: {failure}"));
    }
    let mut hash = 0_u64;
    for point in &finished {
        hash = hash.rotate_left(7) ^ point.hash;
    }
    report.notes.push(format!("schedule hash of all simulations: {hash:016x}"));
}
