//! `cargo xtask dist`: what a release consists of, made on any Linux machine, and its check.
//!
//! Nothing is published. The release workflow of a forge (`ci/release.yml`) calls these commands
//! and uploads `target/dist`.

mod build;
mod bundle;
mod check;
mod crates;
mod release;
mod sbom;
mod tutorial;

use std::path::Path;

use crate::stage::Ending;
use release::{MACHINES, Machine, Release};

/// Runs `cargo xtask dist` with `arguments`; `None` if they make no sense.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<Option<Ending>> {
    let release = Release::of(root)?;
    match arguments {
        [] => make(&release, &MACHINES[0], None)?,
        ["--machine", name] | ["--machine", name, "--binary", _] => {
            let Some(machine) = MACHINES.iter().find(|machine| machine.name == *name) else {
                return Ok(None);
            };
            make(&release, machine, arguments.get(3).map(Path::new))?;
        }
        ["--check"] => check::bare(&release)?,
        ["--check", "--root", system] => check::system(&release, Path::new(system))?,
        ["crates"] => crates::check(&release)?,
        _ => return Ok(None),
    }
    Ok(Some(Ending::Passed))
}

/// Builds and packs everything for `machine`, from a finished `binary` if there is one.
fn make(release: &Release, machine: &Machine, binary: Option<&Path>) -> anyhow::Result<()> {
    let built = build::build(release, machine, binary)?;
    build::check_symbols(&built)?;
    bundle::pages(release, &built.binary)?;
    let stage = bundle::stage(release, machine, &built)?;
    std::fs::create_dir_all(release.finished())?;
    bundle::archive(release, machine, &stage)?;
    bundle::debian(release, machine, &stage)?;
    bundle::wheel(release, machine, &built.binary)?;
    sbom::write(release, machine)?;
    bundle::sums(release)?;
    println!("{}", release.finished().display());
    Ok(())
}
