//! The files that re-aim writes in addition to its CSV: rows without a heading (`multiuser.ss`),
//! the debug log and the report of its single-user mode.

use super::aim::point;
use super::error::ReadError;
use crate::compare::series::{Series, Side};
use std::path::Path;

/// Numbers in a row of `multiuser.ss`.
const COLUMNS: usize = 11;

/// Whether it is `multiuser.ss`: its first row has users and ten numbers, and no heading.
pub(super) fn is_rows(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let numbers = first.split_whitespace().map(|word| word.parse::<f64>().is_ok());
    let users = first.split_whitespace().next().is_some_and(|word| word.parse::<u32>().is_ok());
    users && numbers.clone().count() == COLUMNS && numbers.into_iter().all(|number| number)
}

/// Jobs per minute by forks, as in the CSV; each run appends its rows.
pub(super) fn rows(path: &Path, text: &str, side: &mut Side) -> Result<(), ReadError> {
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        point(path, number, side, words.next(), words.next())?;
    }
    Ok(())
}

pub(super) fn is_debug(text: &str) -> bool {
    text.lines().any(|line| tested(line).is_some() || called(line).is_some())
}

/// What jobs took at each load: every run of one (level 2), else each user's mean (level 1).
pub(super) fn debug(text: &str, side: &mut Side) {
    let mut push = |users, job: &str, ms: f64| {
        let like = Series { users: Some(users), ..Series::new(job, "time", "s", false) };
        side.push(&like, ms / 1e3);
    };
    if text.lines().any(|line| tested(line).is_some()) {
        text.lines().filter_map(tested).for_each(|(users, job, ms)| push(users, job, ms));
        return;
    }
    // The load stands behind what its users wrote.
    let mut waiting = Vec::new();
    for line in text.lines() {
        waiting.extend(called(line));
        if let Some(users) = line.strip_prefix("loop ").and_then(|users| users.trim().parse().ok())
        {
            waiting.drain(..).for_each(|(job, ms)| push(users, job, ms));
        }
    }
}

/// `pid 7 CUload:2 Test:add_int delta:80 st:123 seconds 0.08`: a run of a job, milliseconds.
fn tested(line: &str) -> Option<(u32, &str, f64)> {
    let value = |key| line.split_whitespace().find_map(|word| word.strip_prefix(key));
    Some((value("CUload:")?.parse().ok()?, value("Test:")?, milliseconds(value("delta:")?)?))
}

/// `Func add_int called 4 times avg: 82.500 max 90`: a user's mean, milliseconds.
fn called(line: &str) -> Option<(&str, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["Func", job, "called", _, "times", "avg:", mean, "max", _] => {
            Some((job, milliseconds(mean)?))
        }
        _ => None,
    }
}

fn milliseconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Whether it is the report of the single-user mode, in a file or as it is printed.
pub(super) fn is_single(text: &str) -> bool {
    text.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        words == ["Number", "Name", "Time(sec)"]
    })
}

/// Runs per second of each job.
pub(super) fn single(text: &str, side: &mut Side) {
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[number, job, _, _, rate, ..] = words.as_slice() else { continue };
        let rate = rate.parse().ok().filter(|rate: &f64| rate.is_finite());
        if let (Ok(_), Some(rate)) = (number.parse::<u32>(), rate) {
            side.push(&Series::new(job, "rate", "runs/s", true), rate);
        }
    }
}
