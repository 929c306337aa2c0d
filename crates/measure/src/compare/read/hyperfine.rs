//! hyperfine's `--export-json`: one result for each command, with all times in seconds.

use super::error::{ReadError, numbers};
use crate::compare::series::{Series, Side};
use serde_json::Value;
use std::path::Path;

/// One side for each command.
pub(super) fn sides(path: &Path, value: &Value) -> Result<Vec<Side>, ReadError> {
    let results = value["results"].as_array();
    let results = results.ok_or_else(|| ReadError::new(path, "\"results\" is no list"))?;
    let side = |(at, result): (usize, &Value)| {
        let command = result["command"].as_str().unwrap_or("a command").to_owned();
        let mut series = Series::new("", "wall time", "s", false);
        if result.get("times").is_none_or(Value::is_null) {
            let text = format!("result {at} ({command}) has no single times; export it again");
            return Err(ReadError::new(path, text + " with --export-json"));
        }
        series.values = numbers(path, "times", result)
            .map_err(|error| ReadError::new(path, format!("result {at}: {}", error.what)))?;
        let codes = result["exit_codes"].as_array();
        let failed =
            codes.map_or(0, |codes| codes.iter().filter(|c| c.as_i64() != Some(0)).count());
        if failed > 0 {
            let text = format!("{failed} runs of {command:?} failed; their times mean nothing");
            return Err(ReadError::new(path, text + ", measure again without them"));
        }
        let (source, series) = (path.display().to_string(), vec![series]);
        Ok(Side { label: command, source, series, ..Side::default() })
    };
    results.iter().enumerate().map(side).collect()
}
