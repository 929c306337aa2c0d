//! `cargo xtask tidy`: the house rules of STYLE.md, executed.
//!
//! Each rule is a function from text to findings and knows nothing of the file system, so its tests
//! are good and bad snippets. Parameters of the rules for this repository (figures, exceptions) are
//! in `tidy.toml` at the root.

mod circles;
mod docs;
pub(crate) mod files;
mod locks;
mod manifests;
mod names;
mod prose;
mod rust;
mod source;
mod text;
mod wrap;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use crate::Outcome;

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) file: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) cure: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.cure)
    }
}

/// Collects the findings of one file.
pub(crate) struct Findings<'a> {
    file: &'a str,
    list: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(file: &'a str) -> Self {
        Self { file, list: Vec::new() }
    }

    /// Adds a finding; `index` is the line from 0.
    pub(crate) fn add(&mut self, index: usize, rule: &'static str, cure: impl Into<String>) {
        let (file, line) = (self.file.to_owned(), index + 1);
        self.list.push(Finding { file, line, rule, cure: cure.into() });
    }
}

/// `tidy.toml`: facts and exceptions, each with its reason as a comment there.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Figures of the published tables; they belong into `experiments/` and nowhere else.
    pub(crate) published_figures: Vec<String>,
    /// Prefixes of the paths that may contain `unsafe`.
    pub(crate) unsafe_places: Vec<String>,
    /// Modules of `crates/sync/src` that are not locks and do not need a file card.
    pub(crate) not_locks: Vec<String>,
    /// Binary files.
    #[serde(default)]
    pub(crate) binary_files: Vec<String>,
    /// Files that may be longer than the limit, with their own limit. A ratchet: only downwards.
    #[serde(default)]
    pub(crate) long_files: BTreeMap<String, usize>,
    /// Functions (`path::name`) that may be longer than the limit, with their own limit.
    #[serde(default)]
    pub(crate) long_functions: BTreeMap<String, usize>,
    /// Files in import circles, by crate. A ratchet: only downwards.
    #[serde(default)]
    pub(crate) circles: BTreeMap<String, usize>,
    /// Phrases to avoid, and their largest rate by directory. A ratchet: only downwards.
    #[serde(default)]
    pub(crate) prose: prose::Prose,
}

/// Prints every finding in the tree at `root`.
pub(crate) fn run(root: &Path) -> anyhow::Result<Outcome> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(if findings.is_empty() { Outcome::Done } else { Outcome::Finding })
}

/// Wraps the wide comments of every Rust file, then checks.
pub(crate) fn wrap(root: &Path) -> anyhow::Result<Outcome> {
    for (path, text) in files::read(root)?.texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let wrapped = wrap::wrap(text);
        if wrapped != *text {
            std::fs::write(root.join(path), wrapped).with_context(|| path.clone())?;
            println!("wrapped {path}");
        }
    }
    run(root)
}

/// Pictures and archives come into a tree by accident; those that belong there are listed.
fn strays(binaries: &[String], config: &Config) -> Vec<Finding> {
    let stray = |path: &&String| !config.binary_files.contains(path);
    let mut findings = Vec::new();
    for path in binaries.iter().filter(stray) {
        let mut found = Findings::new(path);
        found.add(0, "stray-binary", "remove it, or list it as a binary file in tidy.toml");
        findings.append(&mut found.list);
    }
    findings
}

/// Every finding in the tree at `root`, in the order of files and lines.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join("tidy.toml")).context("tidy.toml")?;
    let config: Config = toml::from_str(&text).context("tidy.toml")?;
    let files::Files { texts: files, binaries } = files::read(root)?;
    let mut findings = strays(&binaries, &config);
    for (path, text) in &files {
        let mut found = Findings::new(path);
        text::check(&mut found, path, text);
        // The changelog names files that existed when its entry was written.
        if path.ends_with(".md") && path != "CHANGELOG.md" {
            text::check_paths(&mut found, path, text, |target| root.join(target).exists());
        }
        if path.ends_with(".rs") {
            let source = source::Source::new(text);
            rust::check(&mut found, path, text, &source, &config);
            locks::check(&mut found, path, text, &source, &config);
        }
        findings.append(&mut found.list);
    }
    findings.append(&mut docs::check(&files));
    findings.append(&mut rust::stale(&files, &config));
    findings.append(&mut manifests::check(&files)?);
    findings.append(&mut circles::check(&files, &config.circles));
    findings.append(&mut prose::check(&files, &config.prose));
    findings.sort();
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_text_is_listed() {
        let font = "crates/report/fonts/font.ttf".to_owned();
        let config = Config { binary_files: vec![font.clone()], ..Config::default() };
        assert!(strays(std::slice::from_ref(&font), &config).is_empty());
        let found = strays(&[font, "crates/cli/x.png".to_owned()], &config);
        assert_eq!((found.len(), found[0].rule), (1, "stray-binary"));
        assert_eq!(found[0].file, "crates/cli/x.png");
    }
}
