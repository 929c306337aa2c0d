//! The multiuser load's files: re-aim's CSV, AIM7's `suite7.ss`, and our own run records. A load
//! point that is there several times has several values.

use super::ReadError;
use crate::compare::series::{Series, Side};
use serde_json::Value;
use std::path::Path;

/// Whether it begins as re-aim's CSV does.
pub(super) fn is_reaim(text: &str) -> bool {
    text.trim_start().to_ascii_lowercase().starts_with("forks,jpm")
}

/// Whether it has the heading of AIM7's table.
pub(super) fn is_suite7(text: &str) -> bool {
    text.lines().any(heading)
}

fn heading(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("Tasks") && words.next().is_some_and(|w| w.starts_with("Jobs/Min"))
}

/// re-aim's CSV: Jobs per minute by forks.
pub(super) fn reaim(path: &Path, text: &str) -> Result<Vec<Series>, ReadError> {
    let mut side = Side::default();
    for (number, line) in text.lines().enumerate() {
        // `-r` appends runs, each with its heading.
        if line.trim().is_empty() || is_reaim(line) {
            continue;
        }
        let mut fields = line.split(',').map(str::trim);
        point(path, number, &mut side, fields.next(), fields.next())?;
    }
    Ok(side.series)
}

/// AIM7's spreadsheet: each run appends its heading and its rows.
pub(super) fn suite7(path: &Path, text: &str) -> Result<Vec<Series>, ReadError> {
    let mut side = Side::default();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        if heading(line) {
            inside = true;
            continue;
        }
        let mut fields = line.split_whitespace();
        let first = fields.next();
        let is_row = first.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        inside = inside && (is_row || first.is_none());
        if inside && is_row {
            point(path, number, &mut side, first, fields.next())?;
        }
    }
    Ok(side.series)
}

fn point(
    path: &Path,
    number: usize,
    side: &mut Side,
    users: Option<&str>,
    jobs: Option<&str>,
) -> Result<(), ReadError> {
    let users_read = users.and_then(|text| text.parse::<u32>().ok());
    let jobs_read = jobs.and_then(|text| text.parse::<f64>().ok()).filter(|jobs| jobs.is_finite());
    let (Some(users), Some(jobs)) = (users_read, jobs_read) else {
        let found = format!("{:?}, {:?}", users.unwrap_or(""), jobs.unwrap_or(""));
        let text = format!("line {}: users and jobs per minute are {found}", number + 1);
        return Err(ReadError::new(path, text + "; correct or remove the line"));
    };
    side.push(&Series::jobs_per_min("", users), jobs);
    Ok(())
}

/// The points of `convoy run`, as its record and its `--format json` have them.
pub(in crate::compare) fn points(path: &Path, value: &Value) -> Result<Vec<Series>, ReadError> {
    let mix = value["mix"].as_str().unwrap_or_default();
    let points = value["points"].as_array();
    let points = points.ok_or_else(|| ReadError::new(path, "\"points\" is no list"))?;
    let mut side = Side::default();
    for (at, point) in points.iter().enumerate() {
        // A load point that failed has no numbers.
        if point["jobs_per_min"].is_null() && point.get("failed").is_some_and(|f| !f.is_null()) {
            continue;
        }
        let users = point["users"].as_u64().and_then(|users| u32::try_from(users).ok());
        let (Some(users), Some(jobs)) = (users, point["jobs_per_min"].as_f64()) else {
            let text = format!("points[{at}] has no numbers \"users\" and \"jobs_per_min\"");
            return Err(ReadError::new(path, text + "; is it a record of convoy run?"));
        };
        side.push(&Series::jobs_per_min(mix, users), jobs);
    }
    Ok(side.series)
}
