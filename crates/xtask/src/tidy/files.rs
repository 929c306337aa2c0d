//! The files that the rules check.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::stage::output;

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

/// The files of the tree, by path (relative, with `/`).
#[derive(Default)]
pub(crate) struct Files {
    /// Content of each text file.
    pub(crate) texts: BTreeMap<String, String>,
    /// Files that are not UTF-8.
    pub(crate) binaries: Vec<String>,
}

/// Returns the paths of all files that git tracks or would track.
pub(crate) fn list(root: &Path) -> anyhow::Result<Vec<String>> {
    let flags = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let list = output(Command::new("git").current_dir(root).args(flags))?;
    let paths = list.split_terminator('\0').filter(|path| root.join(path).is_file());
    Ok(paths.map(str::to_owned).collect())
}

/// Reads the files that the rules check.
pub(crate) fn read(root: &Path) -> anyhow::Result<Files> {
    let mut files = Files::default();
    for path in list(root)? {
        let is_ours = path.split_once('/').is_none_or(|(folder, _)| FOLDERS.contains(&folder));
        if !is_ours || path == "Cargo.lock" {
            continue;
        }
        match String::from_utf8(std::fs::read(root.join(&path))?) {
            Ok(text) => drop(files.texts.insert(path, text)),
            Err(_) => files.binaries.push(path),
        }
    }
    Ok(files)
}
