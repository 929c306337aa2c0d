//! `cargo xtask semver`: the public interfaces of the published crates against the last release.

use std::path::Path;
use std::process::Command;

use crate::dist::CRATES;
use crate::stage::{Ending, run as show};
use crate::tools::SEMVER;

/// Compares the crates with the last tag of a release before this commit. Fails if an interface
/// changed more than the version says.
pub(crate) fn run(root: &Path) -> anyhow::Result<Ending> {
    let mut git = Command::new("git");
    let words = ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"];
    let output = git.current_dir(root).args(words).output()?;
    if !output.status.success() {
        println!("no tag v* before this commit: there is no release to compare with");
        return Ok(Ending::Passed);
    }
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let mut command = Command::new(SEMVER.installed(root)?);
    command.current_dir(root).args(["semver-checks", "--baseline-rev", &tag]);
    show(command.args(CRATES.iter().flat_map(|name| ["--package", name])))
}
