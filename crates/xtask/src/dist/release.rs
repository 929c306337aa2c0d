//! What all files of a release share: machines, version, time, and how commands are run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::stage::shown;

/// A kind of machine that releases are built for, by its names in each format.
pub(super) struct Machine {
    /// As `uname -m` prints it, and in names of files.
    pub(super) name: &'static str,
    pub(super) triple: &'static str,
    pub(super) debian: &'static str,
    pub(super) wheel: &'static str,
}

/// The kinds. glibc 2.17 is the oldest that Rust's standard library supports, and the base of the
/// wheel tag `manylinux_2_17`.
pub(super) const MACHINES: [Machine; 2] = [
    Machine {
        name: "x86_64",
        triple: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        wheel: "manylinux_2_17_x86_64",
    },
    Machine {
        name: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        debian: "arm64",
        wheel: "manylinux_2_17_aarch64",
    },
];

impl Machine {
    /// Returns the kind called `name`: as `uname -m` prints it, or its Rust target.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        MACHINES.iter().find(|machine| machine.name == name || machine.triple == name)
    }

    /// Returns whether this machine runs programs of that kind itself.
    pub(super) fn is_here(&self) -> bool {
        self.name == std::env::consts::ARCH
    }
}

/// A release under construction: paths, version and time.
pub(super) struct Release<'a> {
    pub(super) root: &'a Path,
    /// The version of the workspace.
    pub(super) version: String,
    /// Seconds since 1970 of the commit, the time of every packed file: the same commit produces
    /// the same archives.
    pub(super) time: String,
}

impl<'a> Release<'a> {
    pub(super) fn of(root: &'a Path) -> anyhow::Result<Self> {
        let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let version = version.context("Cargo.toml has a version")?.to_owned();
        let time =
            output(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]));
        // An unpacked archive of the sources has no commits.
        let time = time.map_or_else(|_| "0".to_owned(), |text| text.trim().to_owned());
        Ok(Self { root, version, time })
    }

    /// Returns the directory of the finished files.
    pub(super) fn finished(&self) -> PathBuf {
        self.root.join("target/dist")
    }

    /// Returns the name of the archive without its extension, which is also its only directory.
    pub(super) fn archive(&self, machine: &Machine) -> String {
        format!("convoy-{}-{}-linux", self.version, machine.name)
    }

    pub(super) fn package(&self, machine: &Machine) -> String {
        format!("convoy-perf_{}_{}.deb", self.version, machine.debian)
    }

    pub(super) fn wheel(&self, machine: &Machine) -> String {
        format!("convoy_perf-{}-py3-none-{}.whl", self.version, machine.wheel)
    }
}

/// Runs `command` and fails unless it exits with 0.
pub(super) fn must(command: &mut Command) -> anyhow::Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    ensure!(status.success(), "{} failed: {status}", shown(command));
    Ok(())
}

/// Returns the standard output of `command`, which must exit with 0.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let result = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    let errors = String::from_utf8_lossy(&result.stderr);
    ensure!(result.status.success(), "{} failed: {}\n{errors}", shown(command), result.status);
    Ok(String::from_utf8(result.stdout)?)
}

/// Returns an empty directory at `path`.
pub(crate) fn fresh(path: PathBuf) -> anyhow::Result<PathBuf> {
    if path.exists() {
        std::fs::remove_dir_all(&path)?;
    }
    std::fs::create_dir_all(&path)?;
    Ok(path)
}
