//! The files that the rules check.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

/// Everything we write lives in these folders or at the root itself.
const FOLDERS: &[&str] = &[
    ".cargo",
    ".ci",
    "crates",
    "docs",
    "examples",
    "experiments",
    "kernels",
    "machines",
    "results",
    "tests",
];

/// Files at the root that tools write; `.git` is a file in a linked worktree.
const NOT_OURS: &[&str] = &[".git", "Cargo.lock"];

/// The files of the tree, by path (relative, with `/`).
#[derive(Default)]
pub(crate) struct Files {
    /// Content of each text file.
    pub(crate) texts: BTreeMap<String, String>,
    /// Files that are not UTF-8.
    pub(crate) binaries: Vec<String>,
}

/// Reads the tree at `root`.
pub(crate) fn read(root: &Path) -> anyhow::Result<Files> {
    let mut files = Files::default();
    visit(root, "", &mut files)?;
    Ok(files)
}

fn visit(root: &Path, inside: &str, files: &mut Files) -> anyhow::Result<()> {
    let directory = root.join(inside);
    for entry in std::fs::read_dir(&directory).with_context(|| inside.to_owned())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
        let kind = entry.file_type()?;
        let ours = !inside.is_empty() || FOLDERS.contains(&name.as_str());
        if kind.is_dir() && ours && name != "target" {
            visit(root, &path, files)?;
        } else if kind.is_file() && !NOT_OURS.contains(&path.as_str()) {
            let bytes = std::fs::read(entry.path()).with_context(|| path.clone())?;
            match String::from_utf8(bytes) {
                Ok(text) => drop(files.texts.insert(path, text)),
                Err(_) => files.binaries.push(path),
            }
        }
    }
    Ok(())
}
