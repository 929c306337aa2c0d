//! Records of experiments as sides of a comparison.

use convoy_measure::compare::{Experiment, Series, Settings, list, sizes, words};
use serde::Deserialize as _;
use serde_json::Value;

use crate::figures::metric;
use crate::job::sha256;
use crate::record::{CellRecord, PartRecord, Record};

/// Reads the record of an experiment; returns `None` for other records.
pub fn experiment(body: &Value) -> Option<Experiment> {
    let record = Record::deserialize(body).ok()?;
    Some(Experiment { series: series(&record), settings: settings(&record) })
}

/// Every metric of every point of an experiment, seed by seed.
fn series(record: &Record) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for cell in record.grids.iter().flat_map(|grid| &grid.cells) {
        let labels: Vec<&str> = cell.at.values().map(String::as_str).collect();
        let name = labels.join(", ");
        for (key, value) in cell.outcome.iter().flat_map(|outcome| &outcome.metrics) {
            let matches = |one: &&mut Series| one.benchmark == name && one.metric == *key;
            if let Some(one) = series.iter_mut().find(matches) {
                one.values.push(*value);
                continue;
            }
            let rates = ["jobs_per_min", "jobs_per_sec_per_task", "jti", "acquisitions_per_s"];
            let unit = metric(key).map_or("", |metric| metric.unit);
            let mut one = Series::new(&name, key, unit, rates.contains(&key.as_str()));
            one.values.push(*value);
            series.push(one);
        }
    }
    series
}

/// The settings of an experiment's cells. Its kernels are compared and therefore not a setting.
fn settings(record: &Record) -> Settings {
    let cells = || record.grids.iter().flat_map(|grid| &grid.cells);
    let parts = |kind: &'static str| {
        cells().filter_map(move |cell| record.parts.get(cell.parts.get(kind)?))
    };
    let mix = |key: &'static str| parts("mix").filter_map(move |mix| mix.content.get(key));
    let input =
        |key: &'static str| cells().filter_map(move |cell: &CellRecord| cell.inputs.get(key));
    let told = [
        ("dialect", words(mix("dialect").filter_map(Value::as_str))),
        ("file-system", words(input("fs").filter_map(Value::as_str))),
        ("first", words(mix("first"))),
        ("jobs", words(mix("jobs"))),
        ("machine", words(parts("machine").map(labelled))),
        ("mix", words(parts("mix").map(|mix| &mix.label))),
        ("shell-sleep", words(input("shell_sleep").filter_map(Value::as_bool))),
        ("shrink", words(input("shrink"))),
        ("sizes", words(mix("sizes").filter_map(sizes))),
        ("start-delay", words(input("start_delay_ns"))),
        ("users", list(input("users").filter_map(Value::as_u64))),
    ];
    let told = told.into_iter().filter(|(_, value)| !value.is_empty());
    told.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns a preset's name and content, since a key may have been changed.
fn labelled(part: &PartRecord) -> String {
    let hash = sha256(&part.content.to_string());
    format!("{} {}", part.label, &hash[..8])
}
