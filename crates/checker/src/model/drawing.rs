//! The steps of an execution as a table: a column for each task, and time from top to bottom.

use super::narrative::Step;
use std::fmt::Write;

/// Columns of the table, like a terminal.
const WIDTH: usize = 80;
/// The most columns of a place in the source.
const SOURCE: usize = 22;
/// The fewest columns of a task. Tables of more tasks are wider than a terminal.
const NARROWEST: usize = 10;
/// Between two columns.
const GAP: &str = "  ";
/// Marks stale steps.
const STALE: &str = "~ ";

/// Returns the last `columns` characters of `text`.
fn end(text: &str, columns: usize) -> String {
    text.chars().skip(text.chars().count().saturating_sub(columns)).collect()
}

/// Breaks `text` into lines of at most `columns` characters, between words if possible.
fn broken(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut left: Vec<char> = word.chars().collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + left.len() <= columns => {
                line.push(' ');
                line.push_str(word);
                continue;
            }
            _ => {}
        }
        while !left.is_empty() {
            lines.push(left.drain(..left.len().min(columns)).collect());
        }
    }
    lines
}

/// Returns `steps` as a table with a column for each task, in at most 80 columns for up to five
/// tasks. Each row has the step's number, what the task did, and the place in the source.
/// Stale steps are marked with `~`.
pub fn drawing(steps: &[Step]) -> String {
    let tasks = steps.iter().map(|step| step.task as usize + 1).max().unwrap_or(0);
    let places: Vec<String> = steps.iter().map(|step| end(&step.place(), SOURCE)).collect();
    let digits = steps.len().to_string().len();
    let last = places.iter().map(|place| place.chars().count()).max().unwrap_or(0);
    let left = WIDTH.saturating_sub(digits + last + GAP.len() * (tasks + 1));
    let columns = (left / tasks.max(1)).max(NARROWEST);
    let mut text = format!("{:digits$}", "");
    for task in 0..tasks {
        let _ = write!(text, "{GAP}{:<columns$}", format!("task {task}"));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    let mut calls = vec![""; tasks];
    for ((step, place), number) in steps.iter().zip(&places).zip(1..) {
        let task = step.task as usize;
        let mut lines = Vec::new();
        if step.call != std::mem::replace(&mut calls[task], step.call) {
            lines.push(end(&format!("[{}]", step.call), columns));
        }
        let mark = if step.is_stale { STALE } else { "" };
        lines.extend(broken(&format!("{mark}{}", step.told()), columns));
        for (row, line) in lines.iter().enumerate() {
            let number = if row == 0 { format!("{number}") } else { String::new() };
            let before = (columns + GAP.len()) * task;
            let mut out = format!("{number:>digits$}{:before$}{GAP}{line:<columns$}", "");
            if row == 0 {
                let after = (columns + GAP.len()) * (tasks - 1 - task);
                let _ = write!(out, "{:after$}{GAP}{place}", "");
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
    }
    if steps.iter().any(|step| step.is_stale) {
        text.push_str(
            "~ a stale step: it reads an old value, or writes before newer ones or late\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(task: u32, text: &str, is_stale: bool) -> Step {
        let source = Some(("crates/sync/src/a/long/path/of/some-lock.rs", 96));
        let note = is_stale.then(|| "(stale: the newest is 1)".to_owned());
        Step { task, call: "lock", text: text.to_owned(), note, is_stale, source }
    }

    #[test]
    fn a_table_fits_a_terminal_and_marks_what_is_stale() {
        for tasks in 1..=5 {
            let steps: Vec<_> = (0..3 * tasks)
                .map(|number| {
                    let text = "changes the-count-of-a-semaphore: 0 -> 1";
                    step(number % tasks, text, number == tasks)
                })
                .collect();
            let text = drawing(&steps);
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert_eq!(text.matches("lock.rs:96").count(), steps.len());
            assert_eq!(text.matches("~ ").count(), 2, "a step and the legend\n{text}");
            assert_eq!(text.matches("[lock]").count(), tasks as usize);
        }
    }

    #[test]
    fn tasks_have_columns_in_their_order() {
        let text = drawing(&[step(0, "reads x = 0", false), step(1, "reads y = 0", false)]);
        let column =
            |part: &str| text.lines().find_map(|line| line.find(part)).expect("it is in the table");
        assert_eq!(column("task 0"), column("reads x"));
        assert_eq!(column("task 1"), column("reads y"));
        assert!(column("task 1") > column("task 0"));
    }
}
