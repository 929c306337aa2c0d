//! criterion's directories: `sample.json` has iteration counts and their nanoseconds.

use super::error::{ReadError, numbers, text};
use crate::compare::series::{Series, Side};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How deep benchmarks lie below the folder: group, function, parameter, new.
const DEPTH: usize = 6;

/// Seconds of one iteration, a value for each sample.
pub(super) fn series(path: &Path, benchmark: &str, value: &Value) -> Result<Series, ReadError> {
    let (iters, times) = (numbers(path, "iters", value)?, numbers(path, "times", value)?);
    if iters.len() != times.len() {
        let text = format!("{} iters and {} times do not match", iters.len(), times.len());
        return Err(ReadError::new(path, text + "; run the benchmark again"));
    }
    if let Some(at) = iters.iter().position(|&count| count < 1.0) {
        return Err(ReadError::new(path, format!("iters[{at}] is below 1; run it again")));
    }
    let mut series = Series::new(benchmark, "time", "s", false);
    series.values = times.iter().zip(&iters).map(|(ns, count)| ns / count / 1e9).collect();
    Ok(series)
}

/// What lies below `path`: the `new` samples, and as a first side the `base` ones if there are any
/// for all of them. Returns no sides if it is not a directory of criterion.
pub(super) fn folder(path: &Path) -> Result<Vec<Side>, ReadError> {
    let direct = path.join("sample.json");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let side = |label: &str, series| Side {
        label: label.to_owned(),
        source: path.display().to_string(),
        series,
        ..Side::default()
    };
    if direct.is_file() {
        return Ok(vec![side(&name, vec![sample(&direct, "")?])]);
    }
    let mut found = Vec::new();
    walk(path, DEPTH, &mut found);
    found.sort();
    let mut new = Vec::new();
    let mut base = Vec::new();
    for folder in &found {
        let benchmark = title(path, folder);
        new.push(sample(&folder.join("new/sample.json"), &benchmark)?);
        let older = folder.join("base/sample.json");
        if older.is_file() {
            base.push(sample(&older, &benchmark)?);
        }
    }
    Ok(match (new.is_empty(), base.len() == new.len()) {
        (true, _) => Vec::new(),
        // The last one is what the folder stands for.
        (false, true) => vec![side("base", base), side(&name, new)],
        (false, false) => vec![side(&name, new)],
    })
}

fn sample(path: &Path, benchmark: &str) -> Result<Series, ReadError> {
    let value: Value = serde_json::from_str(&text(path)?)
        .map_err(|error| ReadError::new(path, format!("{error}; run the benchmark again")))?;
    series(path, benchmark, &value)
}

fn walk(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if path.join("new/sample.json").is_file() {
        found.push(path.to_owned());
    } else if depth > 0 {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).for_each(|path| {
            walk(&path, depth - 1, found);
        });
    }
}

/// criterion's own name for the benchmark, else its place.
fn title(root: &Path, folder: &Path) -> String {
    let file = convoy_catalogue::read::text(&folder.join("new/benchmark.json")).unwrap_or_default();
    let value: Value = serde_json::from_str(&file).unwrap_or_default();
    let place = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
    value["full_id"].as_str().map_or(place, str::to_owned)
}
