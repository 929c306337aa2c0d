//! `cargo xtask semver`: the public interfaces of the published crates against the last release.

use std::path::Path;
use std::process::Command;

use crate::dist::CRATES;
use crate::stage::{Ending, run as show};
use crate::tools::SEMVER;

/// Compares the crates with the last tag of a release before this commit.
pub(crate) fn run(root: &Path) -> anyhow::Result<Ending> {
    let Some(tag) = last_tag(root)? else {
        println!("no tag v* before this commit: there is no release to compare with");
        return Ok(Ending::Passed);
    };
    compare(&SEMVER.installed(root)?, root, &tag, &CRATES)
}

/// Returns the last tag of a release that this commit contains.
fn last_tag(root: &Path) -> anyhow::Result<Option<String>> {
    let mut git = Command::new("git");
    let words = ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"];
    let output = git.current_dir(root).args(words).output()?;
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(tag))
}

/// Fails if an interface of `crates` changed more since `tag` than the version says.
fn compare(program: &Path, root: &Path, tag: &str, crates: &[&str]) -> anyhow::Result<Ending> {
    let mut command = Command::new(program);
    command.current_dir(root).args(["semver-checks", "--baseline-rev", tag]);
    show(command.args(crates.iter().flat_map(|name| ["--package", name])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::output;

    #[test]
    #[ignore = "builds cargo-semver-checks: minutes; cargo xtask nightly"]
    fn a_removed_function_is_a_break_and_an_added_one_is_not() {
        let place = std::env::temp_dir().join(format!("convoy-semver-{}", std::process::id()));
        std::fs::create_dir_all(place.join("src")).unwrap();
        let manifest = "[package]\nname = \"planted\"\nversion = \"1.0.0\"\nedition = \"2024\"\n";
        std::fs::write(place.join("Cargo.toml"), manifest).unwrap();
        let source = |text| std::fs::write(place.join("src/lib.rs"), text).unwrap();
        source("pub fn kept() {}\npub fn removed() {}\n");
        let git = |words: &[&str]| {
            let identity = ["-c", "user.name=planted", "-c", "user.email=planted@localhost"];
            output(Command::new("git").current_dir(&place).args(identity).args(words)).unwrap();
        };
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-qm", "Release"]);
        assert_eq!(last_tag(&place).unwrap(), None);
        git(&["tag", "v1.0.0"]);
        assert_eq!(last_tag(&place).unwrap().as_deref(), Some("v1.0.0"));
        let program = SEMVER.installed(&crate::root()).unwrap();
        let ending = |text| {
            source(text);
            compare(&program, &place, "v1.0.0", &["planted"]).unwrap()
        };
        let same = ending("pub fn kept() {}\npub fn removed() {}\n");
        let broken = ending("pub fn kept() {}\n");
        std::fs::remove_dir_all(&place).unwrap();
        assert!(matches!(same, Ending::Passed));
        assert!(matches!(broken, Ending::Failed));
    }
}
