//! `cargo xtask dist`: makes the files of a release on any Linux machine, and checks them.
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
pub(crate) use crates::CRATES;
pub(crate) use release::fresh;
use release::{Machine, Release};

/// Runs `cargo xtask dist` with `arguments`; `None` if they make no sense.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<Option<Ending>> {
    let release = Release::of(root)?;
    if let ["crates"] = arguments {
        crates::check(&release)?;
        return Ok(Some(Ending::Passed));
    }
    let Some(wanted) = Wanted::of(arguments) else { return Ok(None) };
    match (wanted.check, wanted.root) {
        (true, Some(system)) => check::system(&release, wanted.machine, system)?,
        (true, None) => check::bare(&release, wanted.machine)?,
        (false, _) => make(&release, wanted.machine, wanted.binary)?,
    }
    Ok(Some(Ending::Passed))
}

/// Returns the version of the workspace at `root`.
pub(crate) fn version(root: &Path) -> anyhow::Result<String> {
    Ok(Release::of(root)?.version)
}

/// The flags of making and checking a release.
struct Wanted<'a> {
    machine: &'static Machine,
    check: bool,
    binary: Option<&'a Path>,
    root: Option<&'a Path>,
}

impl<'a> Wanted<'a> {
    /// Reads the flags; `None` if they make no sense.
    fn of(mut arguments: &'a [&'a str]) -> Option<Self> {
        let machine = Machine::named(std::env::consts::ARCH)?;
        let mut wanted = Self { machine, check: false, binary: None, root: None };
        loop {
            arguments = match arguments {
                [] => break,
                ["--check", rest @ ..] => {
                    wanted.check = true;
                    rest
                }
                ["--machine" | "--target", name, rest @ ..] => {
                    wanted.machine = Machine::named(name)?;
                    rest
                }
                ["--binary", file, rest @ ..] => {
                    wanted.binary = Some(Path::new(file));
                    rest
                }
                ["--root", directory, rest @ ..] => {
                    wanted.root = Some(Path::new(directory));
                    rest
                }
                _ => return None,
            };
        }
        let unused = if wanted.check { wanted.binary } else { wanted.root };
        unused.is_none().then_some(wanted)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_in_any_order_and_contradictions_are_refused() {
        let wanted = Wanted::of(&["--target", "aarch64-unknown-linux-gnu", "--check"]).unwrap();
        assert!(wanted.check && wanted.machine.name == "aarch64" && wanted.root.is_none());
        let wanted = Wanted::of(&["--check", "--root", "/sid", "--machine", "x86_64"]).unwrap();
        assert_eq!((wanted.machine.debian, wanted.root), ("amd64", Some(Path::new("/sid"))));
        for wrong in [&["--machine"][..], &["--machine", "vax"], &["--root", "/sid"], &["check"]] {
            assert!(Wanted::of(wrong).is_none(), "{wrong:?}");
        }
        assert!(Wanted::of(&["--check", "--binary", "convoy"]).is_none());
    }
}
