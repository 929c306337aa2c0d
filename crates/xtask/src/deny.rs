//! `cargo xtask deny`: licences, duplicates, sources and advisories of all dependencies, as
//! `deny.toml` wants them.

use std::path::Path;
use std::process::Command;

use crate::stage::{Ending, run as show};
use crate::tools::DENY;

/// Runs all checks. Without access to the database of advisories, this one is left out with a
/// message.
pub(crate) fn run(root: &Path) -> anyhow::Result<Ending> {
    let program = DENY.installed(root)?;
    let fetched = matches!(show(deny(&program, root).args(["fetch", "db"]))?, Ending::Passed);
    let checks = ["check", "licenses", "bans", "sources"];
    let ending = show(deny(&program, root).args(checks).args(fetched.then_some("advisories")))?;
    if !fetched {
        println!("advisories were not checked: their database cannot be fetched");
    }
    Ok(ending)
}

fn deny(program: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).args(["--workspace", "--locked"]);
    command
}
