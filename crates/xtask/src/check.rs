//! The stage that explores every lock.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use serde::Deserialize;

use crate::stage::Ending;

/// Violations of published patches. Nothing else may be violated.
const PUBLISHED: [(&str, &str); 2] =
    [("published-fix", "no-lost-wakeup"), ("published-release-each", "no-deadlock")];

/// Exit code of `convoy lab check` after a violation.
const VIOLATION: i32 = 1;

#[derive(Deserialize)]
struct Report {
    verdict: String,
    rows: Vec<Row>,
}

/// A scenario of a lock.
#[derive(Deserialize)]
struct Row {
    /// The lock.
    variant: String,
    violated: Option<String>,
    replay: Option<String>,
}

/// Runs `convoy lab check all` with its default budget, and prints how far the search came.
pub(crate) fn every_lock(root: &Path, convoy: &Path) -> anyhow::Result<Ending> {
    let mut command = Command::new(convoy);
    command.args(["lab", "check", "all", "--quiet", "--format", "json"]);
    let output = command.current_dir(root).env("CONVOY_STORE", "none").output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(VIOLATION), "{}: {errors}", output.status);
    let Report { verdict, rows } = serde_json::from_slice(&output.stdout)?;
    println!("{verdict}");
    let violated = |row: &'_ Row| Some((row.variant.clone(), row.violated.clone()?));
    let violated: BTreeSet<_> = rows.iter().filter_map(violated).collect();
    let published = PUBLISHED.map(|(lock, property)| (lock.to_owned(), property.to_owned()));
    if violated == BTreeSet::from(published) {
        return Ok(Ending::Passed);
    }
    println!("expected violations of {PUBLISHED:?} only; replay the others with");
    rows.iter().filter_map(|row| row.replay.as_ref()).for_each(|replay| println!("{replay}"));
    Ok(Ending::Failed)
}
