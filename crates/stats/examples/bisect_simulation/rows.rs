//! Rows of tables, printed and put into a document.

use std::process::Command;

/// Destination of rows in addition to standard output.
#[derive(Default)]
pub(crate) struct Rows {
    file: Option<String>,
    commit: String,
}

impl Rows {
    /// Into the tables of `file`, with the commit that is checked out.
    pub(crate) fn into_file(file: &str) -> Self {
        let git = Command::new("git").args(["rev-parse", "--short=9", "HEAD"]).output();
        let commit = git.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
        Self { file: Some(file.to_owned()), commit: commit.unwrap_or_default() }
    }

    /// Prints `| key | cells | commit |`, and puts it in the place of the row that begins with
    /// `| key |` and has as many cells, if the file has one: other tables have such keys, too.
    pub(crate) fn put(&self, key: &str, cells: &str) {
        let begin = format!("| {key} |");
        let row = format!("{begin} {cells} | {} |", self.commit);
        println!("{row}");
        let Some(file) = &self.file else { return };
        let done = std::fs::read_to_string(file).and_then(|text| {
            let cells = |row: &str| row.matches('|').count();
            let is_old = |old: &str| old.starts_with(&begin) && cells(old) == cells(&row);
            let line = |old: &str| if is_old(old) { row.clone() } else { old.to_owned() };
            let lines: Vec<String> = text.lines().map(line).collect();
            std::fs::write(file, lines.join("\n") + "\n")
        });
        if let Err(error) = done {
            eprintln!("bisect_simulation: --write {file}: {error}; the row is only printed");
        }
    }
}
