//! `cargo xtask tidy`: the house rules of STYLE.md, executed.
//!
//! Each rule is a function from text to findings and knows nothing of the file system, so its tests
//! are good and bad snippets. Parameters of the rules for this repository (figures, exceptions) are
//! in `tidy.toml` at the root.

mod circles;
mod config;
mod docs;
pub(crate) mod files;
mod finding;
mod locks;
mod manifests;
mod names;
mod prose;
mod ratchets;
mod rust;
mod sentences;
mod source;
mod text;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::outcome::Outcome;
use crate::stage::output;
use config::Config;
use finding::{Finding, Findings};

/// Prints every finding in the tree at `root`.
pub(crate) fn run(root: &Path) -> anyhow::Result<Outcome> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(if findings.is_empty() { Outcome::Done } else { Outcome::Finding })
}

/// Wraps the comments of the Rust files in which a line is too wide, with a nightly rustfmt, then
/// checks.
pub(crate) fn wrap(root: &Path) -> anyhow::Result<Outcome> {
    let wide = check(root)?.into_iter().filter(|finding| finding.rule == "columns");
    let files: BTreeSet<String> =
        wide.map(|finding| finding.file).filter(|file| file.ends_with(".rs")).collect();
    if !files.is_empty() {
        let mut rustfmt = Command::new("rustup");
        rustfmt.current_dir(root).args(["run", "nightly", "rustfmt", "--edition", "2024"]);
        rustfmt.args(["--config", "wrap_comments=true,comment_width=100,skip_children=true"]);
        output(rustfmt.args(files))?;
    }
    run(root)
}

/// Pictures and archives come into a tree by accident; those that belong there are listed.
fn strays(findings: &mut Findings, binaries: &[String], config: &Config) {
    for path in binaries.iter().filter(|path| !config.binary_files.contains(path)) {
        findings.begin(path);
        findings.add(0, "stray-binary", "remove it, or list it as a binary file in tidy.toml");
    }
}

/// Returns every finding in the tree at `root`, in the order of files and lines.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join("tidy.toml")).context("tidy.toml")?;
    let config: Config = toml::from_str(&text).context("tidy.toml")?;
    let files::Files { texts: files, binaries } = files::read(root)?;
    let sources = source::sources(&files);
    let mut findings = Findings::default();
    strays(&mut findings, &binaries, &config);
    for (path, text) in &files {
        findings.begin(path);
        text::check(&mut findings, path, text);
        if let Some(source) = sources.get(path.as_str()) {
            rust::check(&mut findings, path, text, source, &config);
            locks::check(&mut findings, path, text, source, &config);
        }
    }
    docs::check(&mut findings, &files, |path| root.join(path).exists());
    manifests::check(&mut findings, &files)?;
    circles::check(&mut findings, &sources);
    prose::check(&mut findings, &files, &sources, &config.prose);
    findings.begin("tidy.toml");
    rust::stale(&mut findings, &sources, &config);
    let Config { lines, pronouns, closures, .. } = &config;
    ratchets::check(&mut findings, &sources, &ratchets::Limits { lines, pronouns, closures });
    sentences::check(&mut findings, &sources, &config.sentences);
    findings.list.sort();
    Ok(findings.list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_text_is_listed() {
        let font = "crates/report/font.ttf".to_owned();
        let config = Config { binary_files: vec![font.clone()], ..Config::default() };
        let mut findings = Findings::default();
        strays(&mut findings, &[font, "crates/cli/x.png".to_owned()], &config);
        let strays: Vec<_> = findings.list.iter().map(|it| (it.file.as_str(), it.rule)).collect();
        assert_eq!(strays, [("crates/cli/x.png", "stray-binary")]);
    }
}
