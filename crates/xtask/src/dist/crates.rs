//! The crates of a release: packed as for the registry, and used by a crate outside the tree that
//! has nothing but the packed files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::release::{Release, fresh, must};
use crate::stage::cargo;

/// The crates that can be published, each after the crates that it depends on.
pub(crate) const CRATES: [&str; 4] = ["convoy-sync", "convoy-mm", "convoy-checker", "convoy-stats"];

/// Packs all crates and compiles the packed sources, then tests a lock that is written outside the
/// tree.
pub(super) fn check(release: &Release) -> anyhow::Result<()> {
    let names: Vec<&str> = CRATES.iter().flat_map(|name| ["-p", name]).collect();
    let dry = ["publish", "--dry-run", "--locked", "--allow-dirty"];
    must(&mut cargo(release.root, &[&dry[..], &names].concat()))?;
    // The files that a registry would serve. Whether a dry run unpacks them depends on cargo's
    // version.
    must(&mut cargo(
        release.root,
        &[&["package", "--no-verify", "--locked", "--allow-dirty"][..], &names].concat(),
    ))?;
    let place = std::env::temp_dir().join(format!("convoy-outside-{}", std::process::id()));
    let place = fresh(place)?;
    let ended = outside(release, &place);
    fs::remove_dir_all(&place)?;
    ended
}

/// Tests the example of a lock in `place`, with the packed crates instead of a registry.
fn outside(release: &Release, place: &Path) -> anyhow::Result<()> {
    let version = &release.version;
    let mut patches = String::from("[patch.crates-io]\n");
    for name in CRATES {
        let packed = release.root.join(format!("target/package/{name}-{version}.crate"));
        must(Command::new("tar").arg("-C").arg(place).arg("-xzf").arg(packed))?;
        let unpacked = place.join(format!("{name}-{version}"));
        writeln!(patches, "{name} = {{ path = '{}' }}", unpacked.display())?;
    }
    let lock = place.join("own-lock");
    must(Command::new("cp").arg("-r").arg(release.root.join("examples/own-lock")).arg(&lock))?;
    let manifest = format!(
        "[package]\nname = \"own-lock\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nconvoy-sync = \"{version}\"\n\n\
         [dev-dependencies]\nconvoy-checker = \"{version}\"\nconvoy-stats = \"{version}\"\n"
    );
    fs::write(lock.join("Cargo.toml"), manifest)?;
    fs::create_dir(lock.join(".cargo"))?;
    fs::write(lock.join(".cargo/config.toml"), patches)?;
    for file in ["Cargo.lock", "target"] {
        let _absent = fs::remove_file(lock.join(file));
    }
    let mut test = cargo(&lock, &["test"]);
    must(test.env("CARGO_TARGET_DIR", release.root.join("target/outside")))
}
