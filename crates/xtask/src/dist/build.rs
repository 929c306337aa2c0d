//! The binary of a release: compiled with zig as linker, so that it runs on old systems.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::release::{Machine, Release, must, output};
use crate::stage::cargo;

/// The newest version of glibc whose symbols may be used.
const GLIBC: (u32, u32) = (2, 17);

/// The tools that link, as packages of the Python index, with the versions that were tested.
const TOOLS: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// A built binary, and the object inside it that is loaded into recorded programs.
pub(super) struct Built {
    pub(super) binary: PathBuf,
    /// Missing if the binary was built elsewhere.
    pub(super) object: Option<PathBuf>,
}

/// Builds `convoy` for `machine`, or takes `binary`.
pub(super) fn build(
    release: &Release,
    machine: &Machine,
    binary: Option<&Path>,
) -> anyhow::Result<Built> {
    if let Some(binary) = binary {
        return Ok(Built { binary: binary.to_owned(), object: None });
    }
    let path = tools(release.root)?;
    let (major, minor) = GLIBC;
    let target = format!("{}.{major}.{minor}", machine.triple);
    let flags = ["zigbuild", "--profile", "dist", "--locked", "-p", "convoy", "--bin", "convoy"];
    let place = ["--target", &target, "--target-dir", "target/zig"];
    let mut command = cargo(release.root, &[&flags[..], &place].concat());
    must(command.env("PATH", path))?;
    let place = release.root.join("target/zig").join(machine.triple).join("dist");
    Ok(Built { binary: place.join("convoy"), object: Some(newest_object(&place)?) })
}

/// Returns a `PATH` with zig and its front end, which are installed in the build directory if they
/// are missing.
pub(super) fn tools(root: &Path) -> anyhow::Result<String> {
    fn present(path: &str) -> bool {
        let run = Command::new("cargo-zigbuild").env("PATH", path).arg("--version").output();
        run.is_ok_and(|run| run.status.success())
    }
    let path = std::env::var("PATH").unwrap_or_default();
    if present(&path) {
        return Ok(path);
    }
    let place = root.join("target/zig-tools");
    let path = format!("{}:{path}", place.join("bin").display());
    if !present(&path) {
        must(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        must(Command::new(place.join("bin/pip")).args(["install", "-q"]).args(TOOLS))?;
        ensure!(present(&path), "install cargo-zigbuild and zig, then run again");
    }
    Ok(path)
}

/// Returns the preload object of the last build under `place`.
fn newest_object(place: &Path) -> anyhow::Result<PathBuf> {
    let mut objects = Vec::new();
    for entry in std::fs::read_dir(place.join("build"))? {
        let object = entry?.path().join("out/libconvoy_record.so");
        if let Ok(data) = object.metadata() {
            objects.push((data.modified()?, data.len(), object));
        }
    }
    let (_, bytes, object) =
        objects.into_iter().max().context("crates/record has built no object")?;
    ensure!(bytes > 0, "crates/record has built an empty object: is this machine supported?");
    Ok(object)
}

/// Fails if a file of the release needs symbols of a newer glibc or other libraries, or if the
/// preload object defines symbols that must not precede the symbols of a program.
pub(super) fn check_symbols(built: &Built) -> anyhow::Result<()> {
    for file in [Some(&built.binary), built.object.as_ref()].into_iter().flatten() {
        let newest = newest_glibc(&readelf(file, "--version-info")?)?;
        println!("{}: symbols up to glibc {}.{}", file.display(), newest.0, newest.1);
        ensure!(newest <= GLIBC, "{} needs glibc {}.{}", file.display(), newest.0, newest.1);
        for library in needed(&readelf(file, "--dynamic")?) {
            let stem = library.split('.').next().unwrap_or_default();
            let of_glibc = ["libc", "libm", "libdl", "librt", "libpthread"].contains(&stem)
                || library.starts_with("ld-linux");
            ensure!(of_glibc, "{} needs {library}, which is not in glibc", file.display());
        }
    }
    if let Some(object) = &built.object {
        let symbols = readelf(object, "--dyn-syms")?;
        let foreign =
            symbols.lines().find(|line| line.contains("_Unwind") && !line.contains("UND"));
        if let Some(line) = foreign {
            bail!("the preload object replaces the unwinder of programs: {line}");
        }
    }
    Ok(())
}

fn readelf(file: &Path, what: &str) -> anyhow::Result<String> {
    output(Command::new("readelf").args(["--wide", what]).arg(file))
}

/// Returns the newest version `GLIBC_x.y` that `text` of `readelf --version-info` requires.
fn newest_glibc(text: &str) -> anyhow::Result<(u32, u32)> {
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    let versions = words.filter_map(|word| {
        let mut parts = word.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    versions.max().context("readelf shows no version of glibc")
}

/// Returns the libraries that `text` of `readelf --dynamic` requires.
fn needed(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| line.split(['[', ']']).nth(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_decides_and_two_digits_count() {
        let text = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 3\n\
                    0x0020:   Name: GLIBC_2.17  Flags: none  Version: 2\n\
                    0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 4\n";
        assert_eq!(newest_glibc(text).unwrap(), (2, 17));
        assert_eq!(newest_glibc("Name: GLIBC_2.34 Flags").unwrap(), (2, 34));
        assert!(newest_glibc("no versions").is_err());
    }

    #[test]
    fn needed_libraries_are_read() {
        let text =
            " 0x1 (NEEDED)  Shared library: [libgcc_s.so.1]\n 0xe (SONAME) Library soname: [x]";
        assert_eq!(needed(text).collect::<Vec<_>>(), ["libgcc_s.so.1"]);
    }
}
