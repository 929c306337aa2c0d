//! `cargo xtask dist`: makes the files of a release on any Linux machine, and checks them, with the
//! scripts of `packaging`.
//!
//! Nothing is published. The release workflow of a forge (`ci/release.yml`) calls these commands
//! and uploads `target/dist`.

use std::path::Path;
use std::process::Command;

use crate::stage::{Ending, run as show};

/// The crates that can be published, each after the crates that it depends on.
pub(crate) const CRATES: [&str; 4] = ["convoy-sync", "convoy-mm", "convoy-checker", "convoy-stats"];

/// The kinds of machines that releases are built for, as `uname -m` prints them.
const MACHINES: [&str; 2] = ["x86_64", "aarch64"];

/// Runs `cargo xtask dist` with `arguments`; `None` if they make no sense.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<Option<Ending>> {
    let Some((script, words)) = call(arguments) else { return Ok(None) };
    show(Command::new(root.join("packaging").join(script)).args(words)).map(Some)
}

fn call<'a>(arguments: &[&'a str]) -> Option<(&'static str, Vec<&'a str>)> {
    if arguments == ["crates"] {
        return Some(("crates.sh", CRATES.to_vec()));
    }
    let (mut machine, mut check) = (std::env::consts::ARCH, false);
    let (mut binary, mut system) = (None, None);
    let mut words = arguments.iter().copied();
    while let Some(flag) = words.next() {
        match flag {
            "--check" => check = true,
            // Also the name of a Rust target.
            "--machine" | "--target" => machine = words.next()?.split('-').next()?,
            "--binary" => binary = Some(words.next()?),
            "--root" => system = Some(words.next()?),
            _ => return None,
        }
    }
    let (script, path, unused) =
        if check { ("check.sh", system, binary) } else { ("build.sh", binary, system) };
    let makes_sense = unused.is_none() && MACHINES.contains(&machine);
    makes_sense.then(|| (script, std::iter::once(machine).chain(path).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_in_any_order_and_contradictions_are_refused() {
        let arguments = ["--target", "aarch64-unknown-linux-gnu", "--check"];
        assert_eq!(call(&arguments), Some(("check.sh", vec!["aarch64"])));
        let arguments = ["--check", "--root", "/sid", "--machine", "x86_64"];
        assert_eq!(call(&arguments), Some(("check.sh", vec!["x86_64", "/sid"])));
        let arguments = ["--machine", "x86_64", "--binary", "convoy"];
        assert_eq!(call(&arguments), Some(("build.sh", vec!["x86_64", "convoy"])));
        for wrong in [&["--machine"][..], &["--machine", "vax"], &["--root", "/sid"], &["check"]] {
            assert_eq!(call(wrong), None, "{wrong:?}");
        }
        assert_eq!(call(&["--check", "--binary", "convoy"]), None);
    }
}
