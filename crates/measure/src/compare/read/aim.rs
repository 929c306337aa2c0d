//! The files of multiuser loads: re-aim's CSV and output, AIM7's `suite7.ss`, output and log of
//! jobs, and Convoy's run records. A load point that is there several times has several values.

use super::error::ReadError;
use crate::compare::series::{Series, Side};
use convoy_os::Disturbance;
use serde::Deserialize as _;
use serde_json::Value;
use std::path::Path;

/// Whether it begins as re-aim's CSV does.
pub(super) fn is_reaim(text: &str) -> bool {
    text.trim_start().to_ascii_lowercase().starts_with("forks,jpm")
}

/// Whether it has the heading of a table of AIM7 or re-aim.
pub(super) fn is_table(text: &str) -> bool {
    text.lines().any(|line| heading(line).is_some())
}

/// Whether it is AIM7's log of jobs: lines of load, job, and three times.
pub(super) fn is_log(text: &str) -> bool {
    text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| logged(line).is_some())
}

/// The number of the column with Jobs per minute, if `line` is the heading of such a table: AIM7's
/// `Tasks Jobs/Min`, the second line of re-aim's output, of its log or of `stp_mdata.txt`.
fn heading(line: &str) -> Option<usize> {
    let line = line.to_ascii_lowercase();
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    match words[..] {
        ["tasks", jobs, ..] if jobs.starts_with("jobs/min") => Some(1),
        ["forked", "time", "systime", "utime"] => Some(4),
        ["forks", "jobs/min", ..] => Some(1),
        ["re-aim", "multiuser", "test", "results"] => Some(2),
        _ => None,
    }
}

/// re-aim's CSV: Jobs per minute by forks.
pub(super) fn reaim(path: &Path, text: &str, side: &mut Side) -> Result<(), ReadError> {
    for (number, line) in text.lines().enumerate() {
        // `-r` appends runs, each with its heading.
        if line.trim().is_empty() || is_reaim(line) {
            continue;
        }
        let mut fields = line.split(',').map(str::trim);
        point(path, number, side, fields.next(), fields.next())?;
    }
    Ok(())
}

/// A spreadsheet of AIM7 or what either program prints: each run appends its heading and its rows.
pub(super) fn table(path: &Path, text: &str, side: &mut Side) -> Result<(), ReadError> {
    let mut column = None;
    for (number, line) in text.lines().enumerate() {
        column = heading(line).or(column);
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = words.first().is_some_and(|users| users.parse::<u32>().is_ok());
        if let Some(jobs) = column.and_then(|column| words.get(column)).filter(|_| is_row) {
            point(path, number, side, words.first().copied(), Some(jobs))?;
        }
    }
    if side.series.is_empty() && side.notes.is_empty() {
        let what = "a heading without rows; re-aim writes the rows of its log to multiuser.ss";
        return Err(ReadError::new(path, what));
    }
    Ok(())
}

pub(super) fn point(
    path: &Path,
    number: usize,
    side: &mut Side,
    users: Option<&str>,
    jobs: Option<&str>,
) -> Result<(), ReadError> {
    let users_read = users.and_then(|text| text.parse::<u32>().ok());
    let jobs_read = jobs.and_then(|text| text.parse::<f64>().ok());
    let (Some(users), Some(jobs)) = (users_read, jobs_read) else {
        let found = format!("{:?}, {:?}", users.unwrap_or(""), jobs.unwrap_or(""));
        let text = format!("line {}: users and jobs per minute are {found}", number + 1);
        return Err(ReadError::new(path, text + "; correct or remove the line"));
    };
    if jobs.is_finite() {
        side.push(&Series::jobs_per_min("", users), jobs);
    } else {
        // What re-aim writes when its clock saw no time pass.
        let file = path.display();
        side.notes.push(format!(
            "{file}: line {}: jobs per minute of {users} users are {jobs}; left out",
            number + 1
        ));
    }
    Ok(())
}

/// AIM7's log: what each job took, milliseconds, at each load.
pub(super) fn log(text: &str, side: &mut Side) {
    for (users, job, ms) in text.lines().filter_map(logged) {
        let like = Series { users: Some(users), ..Series::new(job, "time", "s", false) };
        side.push(&like, ms / 1e3);
    }
}

fn logged(line: &str) -> Option<(u32, &str, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[users, job, real, user, system] = words.as_slice() else { return None };
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let [real, _, _] = [number(real)?, number(user)?, number(system)?];
    Some((users.parse().ok()?, job, real))
}

/// Returns the activity of other programs from a record of `convoy run`.
pub(in crate::compare) fn disturbance(record: &Value) -> Option<Disturbance> {
    Disturbance::deserialize(record.get("disturbance")?).ok()
}

/// The points of `convoy run`, as its record and its `--format json` have them: every execution of
/// a point is a value.
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
        let like = Series::jobs_per_min(mix, users);
        let single = point["repeats"].as_array().into_iter().flatten();
        let single: Vec<f64> = single.filter_map(|one| one["jobs_per_min"].as_f64()).collect();
        // The mean of one execution is that execution.
        for value in if single.len() > 1 { single } else { vec![jobs] } {
            side.push(&like, value);
        }
    }
    Ok(side.series)
}
