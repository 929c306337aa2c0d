//! Programs of others that a developer command needs: installed in the build directory, in the
//! version that was tested.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use crate::stage::{Ending, cargo, run as show};

/// A program, as a package of the registry.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    version: &'static str,
    /// Flags of its build.
    flags: &'static [&'static str],
}

/// Makes a site of Markdown pages. Without its server, which is half of its build.
pub(crate) const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    flags: &["--no-default-features", "--features", "search"],
};
/// Checks licences, sources, duplicates and known vulnerabilities of dependencies.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", flags: &[] };
/// Compares public interfaces of crates.
pub(crate) const SEMVER: Tool = Tool { name: "cargo-semver-checks", version: "0.51.0", flags: &[] };

impl Tool {
    /// Returns the path of the program, which is built first unless that version is there: without
    /// optimisation, because it runs for seconds.
    pub(crate) fn installed(&self, root: &Path) -> anyhow::Result<PathBuf> {
        let place = root.join("target/tools");
        let program = place.join("bin").join(self.name);
        let version = Command::new(&program).arg("--version").output();
        let is_installed = version.is_ok_and(|out| {
            String::from_utf8_lossy(&out.stdout).trim_end().ends_with(self.version)
        });
        if !is_installed {
            let package = format!("{}@{}", self.name, self.version);
            let install = ["install", "--locked", "--debug", "--force", &package, "--root"];
            let built = show(cargo(root, &install).arg(&place).args(self.flags))?;
            ensure!(matches!(built, Ending::Passed), "{package} cannot be installed");
        }
        Ok(program)
    }
}
