//! The text of Go benchmarks, the input of benchstat: lines of a name, a count, and pairs of value
//! and unit; `key: value` lines before them; `Unit` lines that state the direction.

use super::error::ReadError;
use crate::compare::series::Series;
use std::collections::BTreeMap;
use std::path::Path;

/// Whether some line is a result.
pub(super) fn is_go(text: &str) -> bool {
    text.lines().any(|line| fields(line).is_some())
}

/// Returns the name and the pairs of value and unit, unchanged.
fn fields(line: &str) -> Option<(&str, Vec<(&str, &str)>)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.strip_prefix("Benchmark")?;
    words.next()?.parse::<u64>().ok()?;
    let rest: Vec<&str> = words.collect();
    let whole = !rest.is_empty() && rest.len().is_multiple_of(2);
    whole.then(|| (name, rest.chunks(2).map(|pair| (pair[0], pair[1])).collect()))
}

/// One series for each benchmark and unit.
pub(super) fn series(path: &Path, text: &str) -> Result<Vec<Series>, ReadError> {
    let better = units(text);
    let packages: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("pkg:")).collect();
    let several = packages.iter().any(|package| package.trim() != packages[0].trim());
    let mut package = "";
    let mut all: Vec<Series> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("pkg:") {
            package = name.trim();
        }
        let Some((name, pairs)) = fields(line) else { continue };
        let benchmark = if several { format!("{package}.{name}") } else { name.to_owned() };
        for (value, unit) in pairs {
            let parsed: Option<f64> = value.parse().ok();
            let value = parsed.filter(|value| value.is_finite()).ok_or_else(|| {
                let text = format!("line {}: {value:?} is no finite number", number + 1);
                ReadError::new(path, text + "; correct or remove the line")
            })?;
            let higher = better.get(unit).copied().unwrap_or_else(|| rate(unit));
            let (factor, shown) = scaled(unit);
            let like = Series::new(&benchmark, unit, &shown, higher);
            let found = all.iter_mut().find(|series| series.same(&like));
            match found {
                Some(series) => series.values.push(value * factor),
                None => all.push(Series { values: vec![value * factor], ..like }),
            }
        }
    }
    Ok(all)
}

/// Times become seconds, so that they can be compared with other tools'.
fn scaled(unit: &str) -> (f64, String) {
    match unit.strip_prefix("ns/") {
        Some("op") => (1e-9, "s".to_owned()),
        Some(rest) => (1e-9, format!("s/{rest}")),
        None => (1.0, unit.to_owned()),
    }
}

/// Rates are better when higher.
fn rate(unit: &str) -> bool {
    unit.ends_with("/s") || unit.ends_with("/sec")
}

/// `Unit NAME better=higher` lines.
fn units(text: &str) -> BTreeMap<&str, bool> {
    let mut better = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("Unit") {
            let unit = words.next().unwrap_or_default();
            match words.find_map(|word| word.strip_prefix("better=")) {
                Some("higher") => drop(better.insert(unit, true)),
                Some("lower") => drop(better.insert(unit, false)),
                _ => {}
            }
        }
    }
    better
}
