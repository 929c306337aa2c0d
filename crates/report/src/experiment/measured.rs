//! Measured on a real machine against simulated, cell by cell.

use convoy_lab::job::Job;
use convoy_stats::Sample;

use super::published::ending;
use super::results::Results;
use crate::host::{HostReport, HostRow};
use crate::metric::metric;

/// Factor between rounds from which a cell is called bistable, if the file does not say.
const BISTABLE: f64 = 1.5;

pub(super) fn report(results: Results) -> HostReport {
    let grid = results.grid;
    let bistable = grid.grid.bistable_factor.unwrap_or(BISTABLE);
    let mut rows = Vec::new();
    for (index, point) in grid.points.iter().enumerate() {
        let Some(published) = grid.published(&point.at) else { continue };
        for (key, rounds) in &published.values {
            let simulated = results.values(index, key).and_then(|values| Sample::new(values).ok());
            let (Some(simulated), Ok(rounds)) = (simulated, Sample::new(rounds.clone())) else {
                continue;
            };
            let fitted = published.fitted.contains(key);
            let row = row(&point.jobs[0], key, &rounds, &simulated, bistable);
            rows.extend(row.map(|row| HostRow { fitted, ..row }));
        }
    }
    let on = |kind: &str| {
        let mut parts = grid.points.iter().flat_map(|point| point.jobs[0].parts());
        parts.find(|part| part.kind == kind).map_or_else(String::new, |part| part.source.label())
    };
    let place = results.plan.experiment.measured.as_deref().unwrap_or("a real machine");
    let sentence = format!(
        "measured on {place}; simulated: machine {}, kernel {}",
        on("machine"),
        on("kernel")
    );
    let mut report = HostReport::new(&results.plan.name, &sentence, rows);
    report.notes.extend(grid.grid.notes.iter().cloned());
    report.notes.push(format!(
        "Measured: median [smallest–largest] of the rounds. Simulated: median of {} seeds. With \
         fewer CPUs than the machine has, all threads are kept to the first.",
        grid.seeds.len()
    ));
    report
        .notes
        .push(format!("bistable: the largest round is more than {bistable} times the smallest."));
    report.notes.push(
        "fitted: a rule of the scheduler was chosen by this row; every other row is a prediction."
            .to_owned(),
    );
    report.notes.extend(ending(results).into_iter().filter(|note| !note.starts_with("schedule")));
    report
}

fn row(
    job: &Job,
    key: &str,
    rounds: &Sample,
    simulated: &Sample,
    bistable: f64,
) -> Option<HostRow> {
    let inputs = job.settings();
    let count = |key: &str| inputs[key].as_u64().and_then(|value| u32::try_from(value).ok());
    let lock = inputs["lock"].as_str();
    let mix = job.parts().iter().find(|part| part.kind == "mix");
    let load = lock.map(str::to_owned).or_else(|| mix.map(|part| part.source.label()))?;
    let unit = match lock {
        Some(_) => "sections/s",
        None => metric(key).map_or(key, |metric| metric.title),
    };
    let tasks = count("threads").or_else(|| count("users"))?;
    Some(HostRow {
        load,
        cpus: count("kept_to").unwrap_or_default(),
        section_ns: count("section_ns"),
        tasks,
        unit: unit.to_owned(),
        ..HostRow::figures(rounds, simulated, bistable)
    })
}
