//! The files of a release: archive, Debian package, wheel and checksums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::build::Built;
use super::release::{Machine, Release, fresh, must, output};

/// Completions: the shell, and where its file is installed below `share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/convoy"),
    ("fish", "fish/vendor_completions.d/convoy.fish"),
    ("zsh", "zsh/site-functions/_convoy"),
];

/// Texts of the repository that are installed in `share/doc/convoy`.
const TEXTS: [&str; 5] = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "examples/slow-program/orders.c",
];

/// Writes manual pages and completions with `binary`. They are the same on every kind of machine,
/// so the release for a machine whose binary cannot run here reuses the pages of another one.
pub(super) fn pages(release: &Release, binary: &Path) -> anyhow::Result<()> {
    let place = release.root.join("target/dist-pages");
    let runs = Command::new(binary).arg("--version").stdout(Stdio::null()).status();
    if !runs.is_ok_and(|status| status.success()) {
        let cure = "this machine cannot run the binary: build the release for this machine first";
        ensure!(place.exists(), "{cure}, for the manual pages");
        return Ok(());
    }
    let place = fresh(place)?;
    must(Command::new(binary).arg("man").arg(place.join("man1")))?;
    for (shell, path) in COMPLETIONS {
        let path = place.join(path);
        fs::create_dir_all(path.parent().context("a completion is in a directory")?)?;
        fs::write(path, output(Command::new(binary).args(["completions", shell]))?)?;
    }
    Ok(())
}

/// Lays out the files below a prefix, and returns it.
pub(super) fn stage(
    release: &Release,
    machine: &Machine,
    built: &Built,
) -> anyhow::Result<PathBuf> {
    let place = fresh(release.root.join("target/dist-stage").join(release.archive(machine)))?;
    let put = |from: &Path, to: &str| -> anyhow::Result<()> {
        let to = place.join(to);
        fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
        fs::copy(from, to).with_context(|| from.display().to_string())?;
        Ok(())
    };
    put(&built.binary, "bin/convoy")?;
    if let Some(object) = &built.object {
        put(object, "lib/convoy/libconvoy_record.so")?;
    }
    let pages = release.root.join("target/dist-pages");
    for page in fs::read_dir(pages.join("man1"))? {
        let page = page?;
        put(&page.path(), &format!("share/man/man1/{}", page.file_name().to_string_lossy()))?;
    }
    for (_, path) in COMPLETIONS {
        put(&pages.join(path), &format!("share/{path}"))?;
    }
    for text in TEXTS {
        let name = text.rsplit('/').next().unwrap_or(text);
        put(&release.root.join(text), &format!("share/doc/convoy/{name}"))?;
    }
    Ok(place)
}

/// Packs `stage` as an archive whose bytes depend only on its contents and the commit.
pub(super) fn archive(release: &Release, machine: &Machine, stage: &Path) -> anyhow::Result<()> {
    let name = release.archive(machine);
    let file = release.finished().join(format!("{name}.tar.gz"));
    let parent = stage.parent().context("a stage is in a directory")?;
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+w,go-w,a+rX"];
    let mut tar = Command::new("tar");
    tar.args(same).arg(format!("--mtime=@{}", release.time));
    must(tar.arg("-C").arg(parent).arg("-czf").arg(file).arg(name))
}

/// Packs `stage` below `/usr` as a Debian package.
pub(super) fn debian(release: &Release, machine: &Machine, stage: &Path) -> anyhow::Result<()> {
    let place = fresh(release.root.join("target/dist-stage/debian"))?;
    must(Command::new("cp").arg("-a").arg(stage).arg(place.join("usr")))?;
    let doc = place.join("usr/share/doc");
    fs::rename(doc.join("convoy"), doc.join("convoy-perf"))?;
    let rights = "Convoy is licensed under the MIT licence (LICENSE-MIT in this directory) or the \
                  Apache License 2.0 (LICENSE-APACHE), at your option.\n";
    fs::write(doc.join("convoy-perf/copyright"), rights)?;
    let size = output(Command::new("du").arg("-sk").arg(place.join("usr")))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    fs::create_dir(place.join("DEBIAN"))?;
    let template = fs::read_to_string(release.root.join("packaging/control"))?;
    let control = template
        .replace("@VERSION@", &release.version)
        .replace("@ARCHITECTURE@", machine.debian)
        .replace("@SIZE@", size);
    fs::write(place.join("DEBIAN/control"), control)?;
    let file = release.finished().join(release.package(machine));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"]).arg(&place).arg(file);
    // dpkg-deb sets newer times to this one.
    must(pack.env("SOURCE_DATE_EPOCH", &release.time))
}

/// Packs the Python package with `binary` as a wheel.
pub(super) fn wheel(release: &Release, machine: &Machine, binary: &Path) -> anyhow::Result<()> {
    let mut pack = Command::new("python3");
    pack.arg(release.root.join("python/backend/convoy_build.py"));
    pack.args(["--platform", machine.wheel, "--binary"]).arg(binary).arg(release.finished());
    must(pack.env("SOURCE_DATE_EPOCH", &release.time))
}

/// Writes the checksums of all finished files, and the installer that verifies them.
pub(super) fn sums(release: &Release) -> anyhow::Result<()> {
    let place = release.finished();
    fs::copy(release.root.join("packaging/install.sh"), place.join("install.sh"))?;
    fs::copy(release.root.join("packaging/Containerfile"), place.join("Containerfile"))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&place)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "SHA256SUMS" {
            names.push(name);
        }
    }
    names.sort();
    let sums = output(Command::new("sha256sum").current_dir(&place).args(&names))?;
    fs::write(place.join("SHA256SUMS"), sums)?;
    Ok(())
}
