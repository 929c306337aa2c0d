//! `--into FILE` of `convoy reproduce` and `sweep`: the report in a document, between the marks
//! that name its grid. The command and the build are above it, so an outdated
//! table is noticed.

use crate::build::build;
use crate::fail::Failure;
use crate::output;
use convoy_lab::experiment::Plan;
use convoy_report::{ExperimentReport, wrap};
use std::path::Path;

/// Columns of a document.
const WIDTH: usize = 100;

/// The marks around the report of a plan, which has one grid.
fn marks(plan: &Plan) -> Result<[String; 2], Failure> {
    let [grid] = &plan.grids[..] else {
        return Err(Failure::usage("--into writes the table of one grid; name it with --only"));
    };
    let name = format!("reproduce {} {}", plan.name, grid.grid.name);
    Ok(["begin", "end"].map(|end| format!("<!-- {name}: {end} -->")))
}

/// The parts of a document before and after the marks.
fn around<'a>(text: &'a str, marks: &[String; 2]) -> Option<(&'a str, &'a str)> {
    let from = text.find(&marks[0])? + marks[0].len();
    let to = from + text[from..].find(&marks[1])?;
    Some((&text[..from], &text[to..]))
}

/// That the document has the marks, asked before anything runs.
pub(super) fn ready(plan: &Plan, path: &Path) -> Result<(), Failure> {
    let marks = marks(plan)?;
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--into {}: {error}", path.display())))?;
    around(&text, &marks).map(|_| ()).ok_or_else(|| {
        Failure::usage(format!(
            "--into {}: there are no lines {} and {}; put them where the table belongs",
            path.display(),
            marks[0],
            marks[1]
        ))
    })
}

/// Writes the report there.
pub(super) fn write(plan: &Plan, report: &ExperimentReport, path: &Path) -> Result<(), Failure> {
    let marks = marks(plan)?;
    let text = std::fs::read_to_string(path).map_err(Failure::environment)?;
    let Some((before, after)) = around(&text, &marks) else { return ready(plan, path) };
    let body =
        document(&report.to_markdown(), &command(crate::keep::arguments().into_iter()), &build());
    output::file(path, &format!("{before}\n{body}{after}"))
}

/// The command without the document that it writes and the directories of its cells.
fn command(words: impl Iterator<Item = String>) -> String {
    let (mut text, mut words) = ("convoy".to_owned(), words);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--into" | "--dir" | "--merge" => drop(words.next()),
            "-q" | "--quiet" => {}
            one if ["--into=", "--dir=", "--merge="].iter().any(|flag| one.starts_with(flag)) => {}
            other => text.extend([" ", other]),
        }
    }
    text
}

/// The part between the marks: prose in lines of a document, rows as they are.
fn document(markdown: &str, command: &str, build: &str) -> String {
    let mut text = String::new();
    let head = format!("Written by `{command}`, commit {build}.");
    for line in [head.as_str(), ""].into_iter().chain(markdown.lines()) {
        if line.starts_with('|') {
            text.extend([line, "\n"]);
            continue;
        }
        let indent = if line.starts_with("- ") { "  " } else { "" };
        for (at, part) in wrap(line, WIDTH - indent.len()).iter().enumerate() {
            text.extend([if at > 0 { indent } else { "" }, part.trim(), "\n"]);
        }
    }
    // A list or a table ends before what follows it.
    format!("{}\n\n", text.trim_end().replace("\n\n\n", "\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_what_is_around_and_names_its_command() {
        let marks = ["<!-- a: begin -->", "<!-- a: end -->"].map(str::to_owned);
        let around = around("x\n<!-- a: begin -->\nold\n<!-- a: end -->\ny\n", &marks);
        assert_eq!(around, Some(("x\n<!-- a: begin -->", "<!-- a: end -->\ny\n")));
        assert!(super::around("nothing", &marks).is_none());
        let words = ["reproduce", "e", "--into", "d.md", "--quick", "-q"].map(str::to_owned);
        assert_eq!(command(words.into_iter()), "convoy reproduce e --quick");
        let words = ["sweep", "e", "--dir", "cells", "--merge=more", "--seeds", "2", "--into=d.md"];
        assert_eq!(command(words.map(str::to_owned).into_iter()), "convoy sweep e --seeds 2");
    }

    #[test]
    fn prose_is_broken_and_rows_are_not() {
        let row = format!("| {} |", "x".repeat(200));
        let note = format!("- {}", "word ".repeat(40));
        let text = document(&format!("**t**\n\n{row}\n\n{note}\n"), "convoy", "0");
        assert!(text.lines().all(|line| line.starts_with('|') || line.len() <= WIDTH), "{text}");
        assert!(text.contains(&row) && text.contains("\n  word"), "{text}");
        assert!(text.starts_with("Written by `convoy`, commit 0.\n\n**t**\n\n|"), "{text}");
    }
}
