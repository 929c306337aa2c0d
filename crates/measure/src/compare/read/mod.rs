//! Readers of other tools' files, recognised by content.

pub(super) mod aim;
mod criterion;
pub(super) mod error;
mod go;
mod hyperfine;
mod reaim;

use super::series::Side;
use super::settings;
use error::{FORMATS, ReadError, text};
use std::path::Path;

/// Reads what `path` names. A file with several commands has several sides, which are compared with
/// each other if it is the only operand.
pub(super) fn read(path: &Path) -> Result<Vec<Side>, ReadError> {
    let sides = if path.is_dir() { directory(path)? } else { file(path)? };
    for series in sides.iter().flat_map(|side| &side.series) {
        if let Some(at) = series.values.iter().position(|value| !value.is_finite()) {
            let text = format!("value {} of {} is not a finite number", at + 1, series.name());
            return Err(ReadError::new(path, text + "; measure it again, or take it out"));
        }
    }
    if sides.iter().all(|side| side.series.is_empty()) {
        return Err(ReadError::new(path, format!("no measurements in it; known are {FORMATS}")));
    }
    Ok(sides)
}

fn file(path: &Path) -> Result<Vec<Side>, ReadError> {
    let text = text(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if text.trim().is_empty() {
        return Err(ReadError::new(path, format!("the file is empty; known are {FORMATS}")));
    }
    if text.trim_start().starts_with(['{', '[']) {
        return json(path, &text);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut side = Side { label: stem, source: path.display().to_string(), ..Side::default() };
    if aim::is_reaim(&text) {
        aim::reaim(path, &text, &mut side)?;
    } else if aim::is_table(&text) {
        aim::table(path, &text, &mut side)?;
    } else if go::is_go(&text) {
        side.series = go::series(path, &text)?;
    } else if aim::is_log(&text) {
        aim::log(&text, &mut side);
    } else if reaim::is_debug(&text) {
        reaim::debug(&text, &mut side);
    } else if reaim::is_single(&text) {
        reaim::single(&text, &mut side);
    } else if reaim::is_rows(&text) {
        reaim::rows(path, &text, &mut side)?;
    } else {
        let text = format!("{name} has no format that is known; known are {FORMATS}");
        return Err(ReadError::new(path, text));
    }
    Ok(vec![side])
}

fn json(path: &Path, text: &str) -> Result<Vec<Side>, ReadError> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        let cure = if error.is_eof() { "it ends too early; write it again" } else { "correct it" };
        ReadError::new(path, format!("{error}; {cure}; known are {FORMATS}"))
    })?;
    let source = path.display().to_string();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let one = |series| {
        vec![Side { label: stem.clone(), source: source.clone(), series, ..Side::default() }]
    };
    if value.get("results").is_some() {
        hyperfine::sides(path, &value)
    } else if value.get("iters").is_some() {
        Ok(one(vec![criterion::series(path, "", &value)?]))
    } else if value.get("points").is_some() {
        let mut sides = one(aim::points(path, &value)?);
        sides[0].disturbance = aim::disturbance(&value);
        sides[0].settings = settings::of_run(&value);
        Ok(sides)
    } else if value.get("sides").is_some() {
        let sides = value["sides"].clone();
        serde_json::from_value(sides).map_err(|e| ReadError::new(path, format!("sides: {e}")))
    } else {
        Err(ReadError::new(path, format!("JSON of an unknown kind; known are {FORMATS}")))
    }
}

/// A folder of criterion, or one of files of the same kind, each a workload.
fn directory(path: &Path) -> Result<Vec<Side>, ReadError> {
    let found = criterion::folder(path)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut side = Side { label, source: path.display().to_string(), ..Side::default() };
    let list = std::fs::read_dir(path).map_err(|error| ReadError::new(path, error.to_string()))?;
    let mut files: Vec<_> = list.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.is_file()) {
        let known = ["csv", "ss", "json"].iter().any(|e| path.extension().is_some_and(|p| p == *e));
        if known {
            for read in file(path)? {
                side.notes.extend(read.notes);
                side.series.extend(read.series.into_iter().map(|mut series| {
                    series.benchmark.clone_from(&read.label);
                    series
                }));
            }
        }
    }
    Ok(vec![side])
}

#[cfg(test)]
mod tests;
