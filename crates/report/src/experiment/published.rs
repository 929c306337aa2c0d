//! Published, reproduced, error: each point of the single axis is a row of the source.

use convoy_lab::experiment::{Change, Published};
use convoy_lab::job::{Job, Outcome};

use super::results::Results;
use super::{beside, sentence};
use crate::changes::{ChangeRow, Changes};
use crate::reproduce::{ReproduceReport, family};

/// The figures of an AIM7 table and of its causes, in the order in which they are told.
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

const JTI: &str = "jti";

pub(super) fn report(results: Results) -> ReproduceReport {
    let Results { plan, grid, .. } = results;
    let users = sentence::users(grid).unwrap_or_default();
    let mut report = ReproduceReport::new(&plan.name, &sentence::setup(grid), u64::from(users));
    let own: Vec<&str> = grid.grid.metrics.iter().map(String::as_str).collect();
    let metrics = if own.is_empty() { &METRICS[..] } else { &own[..] };
    let estimate = |values: Option<Vec<f64>>| results.estimate(values?);
    let mut possible = 0;
    for (index, point) in grid.points.iter().enumerate() {
        let published = grid.published(&point.at);
        let mut counted = Vec::new();
        for metric in metrics {
            // Kernels without a big kernel lock do not have this value.
            let Some(found) = estimate(results.values(index, metric)) else { continue };
            let compared = *metric != JTI || grid.scale <= 1 || grid.grid.full_size_jti.is_empty();
            let theirs = published.and_then(|row| value(row, metric, &point.jobs[0]));
            let fitted = published.is_some_and(|row| row.fitted.iter().any(|name| name == metric));
            if theirs.is_some() && !fitted && !counted.contains(&family(metric)) {
                counted.push(family(metric));
                possible += 1;
            }
            let theirs = theirs.filter(|_| compared);
            report.push(&case(results, index), metric, theirs, &found, fitted);
        }
    }
    report.possible = Some(possible);
    report.changes = changes(results);
    notes(results, &mut report);
    report
}

/// What titles call a point.
fn case(results: Results, index: usize) -> String {
    results.grid.labels(&results.grid.points[index]).join(", ")
}

/// Mean of the published runs for `metric`. Idle time follows from the other columns: it is the CPU
/// time that the tasks did not use during Real without the start delay.
fn value(row: &Published, metric: &str, job: &Job) -> Option<f64> {
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    if let Some(values) = row.values.get(metric) {
        return Some(mean(values.clone()));
    }
    let (real, cpu) = (row.values.get("real_s")?, row.values.get("cpu_s")?);
    let job = job.sim()?;
    if metric != "idle_percent" {
        return None;
    }
    let cpus = job.load_point().machine.topology.cpus as f64;
    let delay_s = job.inputs().start_delay_ns as f64 / 1e9 * f64::from(job.inputs().scale);
    let idle = |(real, cpu): (&f64, &f64)| 100.0 * (1.0 - cpu / (cpus * (real - delay_s)));
    Some(mean(real.iter().zip(cpu).map(idle).collect()))
}

fn changes(results: Results) -> Option<Changes> {
    let grid = results.grid;
    let compare = grid.grid.compare.as_ref()?;
    let percent = |base: f64, value: f64| Change::Gain.of(base, value);
    let mut rows = Vec::new();
    for (index, point) in grid.points.iter().enumerate() {
        let Some(base) = results.baseline(index).filter(|base| *base != index) else { continue };
        let change = beside::change_as(results, Change::Gain, [base, index], &compare.metric);
        let Some(change) = change else { continue };
        let mean = |metric: &str| {
            let (before, after) =
                results.values(base, metric).zip(results.values(index, metric))?;
            Some([results.estimate(before)?.mean, results.estimate(after)?.mean])
        };
        let own = grid.published(&point.at);
        let theirs = |at: usize| {
            let point = &grid.points[at];
            value(grid.published(&point.at)?, &compare.metric, &point.jobs[0])
        };
        rows.push(ChangeRow {
            case: case(results, index),
            published_percent: theirs(base)
                .zip(theirs(index))
                .map(|(base, own)| percent(base, own)),
            reproduced_percent: change.mean,
            ci95: [change.lo, change.hi],
            cpu_per_job_percent: mean("cpu_ms_per_job").map(|[base, own]| percent(base, own)),
            idle_percent: mean("idle_percent"),
            fitted: own.is_some_and(|row| row.fitted.contains(&compare.metric)),
        });
    }
    (!rows.is_empty()).then(|| Changes::new(&compare.against(), &compare.metric, rows))
}

fn notes(results: Results, report: &mut ReproduceReport) {
    let grid = results.grid;
    for (index, point) in grid.points.iter().enumerate() {
        let parameter = grid.published(&point.at).and_then(|row| row.fitted_parameter.as_ref());
        if let Some(parameter) = parameter {
            let case = case(results, index);
            report.notes.push(format!("f: fitted to the row {case}: {parameter}"));
        }
    }
    if report.rows.iter().any(|row| row.metric == "idle_percent" && row.published.is_some()) {
        report.notes.push(
            "idle: over Real without the start delay; the published value follows from Real and CPU"
                .to_owned(),
        );
    }
    if grid.scale == grid.grid.scale && !grid.grid.scale_error.is_empty() {
        let errors = grid.grid.scale_error.iter();
        let errors: Vec<String> = errors
            .map(|(kernel, ratio)| format!("{kernel} {:+.1} %", (ratio - 1.0) * 100.0))
            .collect();
        report.notes.push(format!(
            "Jobs/Min at this size against the full size, measured once: {}",
            errors.join(", ")
        ));
    }
    if grid.scale > 1 && !grid.grid.full_size_jti.is_empty() {
        let all = grid.points.iter().enumerate().filter_map(|(index, point)| {
            let case = case(results, index);
            let full = grid.grid.full_size_jti.get(&case)?;
            let published = value(grid.published(&point.at)?, JTI, &point.jobs[0])?;
            Some(format!("{case} {full:.1} (published {published:.1})"))
        });
        report.notes.push(format!(
            "JTI depends on the number of users; at full size, measured once, it is: {}; --full \
             measures it again",
            all.collect::<Vec<_>>().join(", ")
        ));
    }
    report.notes.extend(sentence::looks(grid));
    report.notes.extend(grid.grid.notes.iter().cloned());
    report.notes.extend(ending(results));
}

/// Returns the kernels with mechanisms that are older than their names say, and these mechanisms.
pub(super) fn older(results: Results) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for job in results.grid.points.iter().filter_map(|point| point.jobs.first()) {
        let Some(kernel) = job.kernel() else { continue };
        let older = kernel.older();
        let note = format!("{} has older mechanisms: {}", kernel.name, older.join("; "));
        if !older.is_empty() && !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Returns the notes on fitted parameters, the notes of the grid, and the lines below every table.
pub(super) fn fitted_and_ending(results: Results) -> Vec<String> {
    let grid = results.grid;
    let mut notes = Vec::new();
    for point in &grid.points {
        let parameter = grid.published(&point.at).and_then(|row| row.fitted_parameter.as_ref());
        if let Some(parameter) = parameter {
            notes.push(format!("f: fitted to {}: {parameter}", grid.labels(point).join(", ")));
        }
    }
    notes.extend(grid.grid.notes.iter().cloned());
    notes.extend(ending(results));
    notes
}

/// Returns the lines below every table: older mechanisms, failed jobs, and the hash of all
/// schedules.
pub(super) fn ending(results: Results) -> Vec<String> {
    fn lasting(outcome: &Outcome) -> Option<f64> {
        let ms = outcome.metric("settle_ms").unwrap_or(0.0);
        outcome.metric("unsettled").filter(|unsettled| *unsettled > 0.0).map(|_| ms)
    }
    let finished = || results.outcomes.iter().flatten();
    let mut notes = older(results);
    if let Some(failure) = finished().find_map(|outcome| outcome.failure.as_ref()) {
        notes.push(format!("a job failed: {failure}"));
    }
    let unsettled: Vec<f64> = finished().filter_map(lasting).collect();
    if let Some(most) = unsettled.iter().copied().reduce(f64::max) {
        notes.push(format!(
            "{} of {} runs had not settled: throughput or the number of CPUs in use still drifted \
             after {most:.0} ms of virtual time, when the window began",
            unsettled.len(),
            finished().count()
        ));
    }
    let hashes: Vec<u64> = finished()
        .filter_map(|outcome| u64::from_str_radix(outcome.schedule_hash.as_ref()?, 16).ok())
        .collect();
    if !hashes.is_empty() {
        let hash = hashes.iter().fold(0_u64, |hash, own| hash.rotate_left(7) ^ own);
        notes.push(format!("schedule hash of all simulations: {hash:016x}"));
    }
    notes
}
