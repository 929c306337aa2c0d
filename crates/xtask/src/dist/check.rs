//! `cargo xtask dist --check`: every file of a finished release, installed and used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure};

use super::build::{Built, check_symbols};
use super::release::{Machine, Release, fresh, must};
use super::tutorial::{Room, follow, programs};

/// Checks the release of `machine` where there is nothing but glibc: installed by the script, by
/// the Debian package, and by the wheel. Programs of another kind of machine run under qemu.
pub(super) fn bare(release: &Release, machine: &Machine) -> anyhow::Result<()> {
    let finished = release.finished();
    must(Command::new("sha256sum").current_dir(&finished).args([
        "--check",
        "--quiet",
        "SHA256SUMS",
    ]))?;
    let programs = programs(release, machine.triple)?;
    let place = fresh(release.root.join("target/dist-check"))?;

    let prefix = place.join("by-script/usr/local");
    if machine.is_here() {
        install(&finished, &prefix)?;
        refuses_damage(release, machine, &place)?;
    } else {
        unpack(release, machine, &prefix)?;
    }
    let [binary, object] =
        ["bin/convoy", "lib/convoy/libconvoy_record.so"].map(|name| prefix.join(name));
    check_symbols(&Built { binary: binary.clone(), object: object.exists().then_some(object) })?;
    let needs = [binary.as_path(), &programs[0]];
    let room = Room::bare(&place.join("by-script"), machine, &needs)?;
    follow(&room, "/usr/local/bin/convoy", &programs)?;

    let root = place.join("by-package");
    must(
        Command::new("dpkg-deb").arg("-x").arg(finished.join(release.package(machine))).arg(&root),
    )?;
    let room = Room::bare(&root, machine, &needs)?;
    follow(&room, "/usr/bin/convoy", &programs)?;

    let wheel = finished.join(release.wheel(machine));
    let python = place.join("python");
    must(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
    let mut pip = Command::new(python.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-index", "--no-deps"]);
    if machine.is_here() {
        must(pip.arg(wheel))?;
        let test = release.root.join("python/tests/installed.py");
        must(Command::new(python.join("bin/python")).arg(test).arg(&programs[0]))?;
    } else {
        // Python itself would have to be a program of that machine: `--root` has one.
        let root = place.join("by-wheel");
        pip.args(["--only-binary", ":all:", "--platform", machine.wheel, "--target"]);
        must(pip.arg(root.join("opt")).arg(wheel))?;
        let room = Room::bare(&root, machine, &needs)?;
        follow(&room, "/opt/bin/convoy", &programs)?;
    }
    println!("checked: archive, Debian package and wheel for {}", machine.name);
    Ok(())
}

/// Checks the release inside the system at `root`, which has dpkg, a shell, and Python with venv.
pub(super) fn system(release: &Release, machine: &Machine, root: &Path) -> anyhow::Result<()> {
    let programs = programs(release, machine.triple)?;
    let room = Room::of(root, machine)?;
    for entry in fs::read_dir(release.finished())? {
        let entry = entry?;
        room.put(&entry.path(), &format!("/tmp/dist/{}", entry.file_name().to_string_lossy()))?;
    }
    let file = |name: String| format!("/tmp/dist/{name}");
    room.expect(&["dpkg", "-i", &file(release.package(machine))], &["Setting up convoy-perf"])?;
    follow(&room, "/usr/bin/convoy", &programs)?;
    room.expect(&["dpkg", "-r", "convoy-perf"], &["Removing convoy-perf"])?;
    room.expect(&["sh", "/tmp/dist/install.sh", "--prefix", "/opt/convoy"], &["installed"])?;
    follow(&room, "/opt/convoy/bin/convoy", &programs)?;
    room.expect(&["python3", "-m", "venv", "--clear", "/tmp/venv"], &[""])?;
    let wheel = file(release.wheel(machine));
    room.expect(
        &["/tmp/venv/bin/pip", "install", "--no-index", "--no-deps", &wheel],
        &["Successfully installed convoy-perf"],
    )?;
    follow(&room, "/tmp/venv/bin/convoy", &programs)?;
    room.put(&release.root.join("python/tests/installed.py"), "/tmp/installed.py")?;
    room.expect(&["/tmp/venv/bin/python", "/tmp/installed.py", "/tmp/orders"], &["ok"])?;
    println!("checked: archive, Debian package and wheel in {}", root.display());
    Ok(())
}

/// Installs from the directory `finished` below `prefix` with the script of the release.
fn install(finished: &Path, prefix: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(prefix)?;
    must(Command::new("sh").arg(finished.join("install.sh")).arg("--prefix").arg(prefix))
}

/// Unpacks the archive below `prefix`, as the script does on a machine of that kind.
fn unpack(release: &Release, machine: &Machine, prefix: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(prefix)?;
    let archive = release.finished().join(release.archive(machine) + ".tar.gz");
    let mut tar = Command::new("tar");
    must(tar.arg("-C").arg(prefix).args(["--strip-components", "1", "-xzf"]).arg(archive))
}

/// Checks that the installer refuses an archive with one changed byte, and installs nothing of it.
fn refuses_damage(release: &Release, machine: &Machine, place: &Path) -> anyhow::Result<()> {
    let damaged = fresh(place.join("damaged"))?;
    let name = release.archive(machine) + ".tar.gz";
    for file in ["install.sh", "SHA256SUMS", &name] {
        fs::copy(release.finished().join(file), damaged.join(file))?;
    }
    let archive: PathBuf = damaged.join(name);
    let mut bytes = fs::read(&archive)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes)?;
    let prefix = place.join("damaged-prefix");
    let installed = install(&damaged, &prefix);
    ensure!(fs::read_dir(&prefix)?.next().is_none(), "files of a damaged archive were installed");
    if installed.is_ok() {
        bail!("the installer accepted a damaged archive");
    }
    Ok(())
}
