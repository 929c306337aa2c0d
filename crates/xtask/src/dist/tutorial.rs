//! The tutorial of docs/tutorial.md with an installed program, in a directory that becomes `/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};

use super::build::tools;
use super::release::{Machine, Release, must, output};
use crate::emulator::{self, Emulator};
use crate::stage::shown;

/// Mounts `/proc` and `/dev` below the new root and enters it; `$0` is the root.
const ENTER: &str = r#"mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" &&
    exec chroot "$0" "$@""#;

/// No command of the tutorial takes longer, in seconds; a hang is an error.
const LIMIT: &str = "300";

/// The same under an emulator: qemu takes about ten times the time of the processor.
const EMULATED_LIMIT: &str = "1800";

/// The libraries of glibc that programs of a release may need (`check_symbols`).
const LIBRARIES: [&str; 6] = [
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// A directory that becomes `/` of the programs that run in it, in separate namespaces.
pub(super) struct Room {
    root: PathBuf,
    /// Present if the programs are built for another kind of machine.
    emulator: Option<Emulator>,
}

impl Room {
    /// Returns a room with an installed system for `machine`.
    pub(super) fn of(root: &Path, machine: &Machine) -> anyhow::Result<Self> {
        for directory in ["proc", "dev", "tmp"] {
            fs::create_dir_all(root.join(directory))?;
        }
        let emulator = if machine.is_here() { None } else { Some(Emulator::required()?) };
        Ok(Self { root: root.to_owned(), emulator })
    }

    /// Returns a room with the shared libraries of `programs` and nothing else, not even a shell.
    pub(super) fn bare(root: &Path, machine: &Machine, programs: &[&Path]) -> anyhow::Result<Self> {
        let room = Self::of(root, machine)?;
        if room.emulator.is_some() {
            let libraries = emulator::sysroot()?.join("lib");
            for name in LIBRARIES {
                room.put(&libraries.join(name), &format!("/lib/{name}"))?;
            }
            return Ok(room);
        }
        for program in programs {
            let libraries = output(Command::new("ldd").arg(program))?;
            for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
                room.put(Path::new(library), library)?;
            }
        }
        Ok(room)
    }

    /// Copies the file `from` to the path `to` inside.
    pub(super) fn put(&self, from: &Path, to: &str) -> anyhow::Result<()> {
        let to = self.root.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
        fs::copy(from, to).with_context(|| from.display().to_string())?;
        Ok(())
    }

    /// Runs `command` inside and returns its output, whatever its exit code.
    pub(super) fn run(&self, command: &[&str]) -> anyhow::Result<Output> {
        let mut enter = Command::new("timeout");
        let limit = if self.emulator.is_some() { EMULATED_LIMIT } else { LIMIT };
        enter.arg(limit);
        if let Some(emulator) = &self.emulator {
            let inside = emulator.enter("sh");
            enter.arg(inside.get_program()).args(inside.get_args());
        } else {
            enter.args(["unshare", "--mount", "--pid", "--fork", "--kill-child"]);
            if !output(Command::new("id").arg("-u"))?.starts_with("0\n") {
                enter.arg("--map-root-user");
            }
            enter.arg("sh");
        }
        enter.args(["-c", ENTER]).arg(&self.root).args(command);
        enter
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        enter.env("HOME", "/tmp").env("LC_ALL", "C.UTF-8");
        println!("{}$ {}", self.root.display(), command.join(" "));
        enter.output().with_context(|| shown(&enter))
    }

    /// Runs `command` inside. Returns its output, which must contain each of `wanted`, or one of
    /// its choices, which are separated by a bar.
    pub(super) fn expect(&self, command: &[&str], wanted: &[&str]) -> anyhow::Result<String> {
        let result = self.run(command)?;
        let text =
            String::from_utf8_lossy(&result.stdout) + String::from_utf8_lossy(&result.stderr);
        ensure!(result.status.success(), "{}: {}\n{text}", command.join(" "), result.status);
        // A table may wrap a sentence anywhere.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in wanted {
            if !part.split('|').any(|choice| words.contains(choice)) {
                bail!("{} did not print {part:?}:\n{text}", command.join(" "));
            }
        }
        let first = wanted[0].split('|').find_map(|part| text.lines().find(|l| l.contains(part)));
        println!("{}", first.unwrap_or_default());
        Ok(text.into_owned())
    }
}

/// Returns the program of the tutorial and its fixed version, for the glibc of old systems.
pub(super) fn programs(release: &Release, triple: &str) -> anyhow::Result<[PathBuf; 2]> {
    let path = tools(release.root)?;
    let source = release.root.join("examples/slow-program/orders.c");
    let target = triple.replace("-unknown", "") + ".2.17";
    let place = release.root.join("target/dist-stage/tutorial").join(triple);
    fs::create_dir_all(&place)?;
    let made = [("orders", "-DJOURNALS=1"), ("orders-6", "-DJOURNALS=6")];
    let [one, six] = made.map(|(name, journals)| (place.join(name), journals));
    for (program, journals) in [&one, &six] {
        let mut compile = Command::new("cargo-zigbuild");
        compile.env("PATH", &path).args(["zig", "cc", "--", "-target", &target]);
        compile.args(["-O1", "-g", "-pthread", "-fno-sanitize=all", journals, "-o"]);
        must(compile.arg(program).arg(&source))?;
    }
    Ok([one.0, six.0])
}

/// Follows the tutorial inside `room` with its program `convoy`. If other programs use the
/// machine's CPUs, a record may show too little to predict from, so it is made at most three times.
pub(super) fn follow(room: &Room, convoy: &str, programs: &[PathBuf; 2]) -> anyhow::Result<()> {
    for _ in 1..3 {
        match once(room, convoy, programs) {
            Err(error) => println!("again: {error:#}"),
            followed => return followed,
        }
    }
    once(room, convoy, programs)
}

fn once(room: &Room, convoy: &str, programs: &[PathBuf; 2]) -> anyhow::Result<()> {
    let [orders, orders_6] = ["/tmp/orders", "/tmp/orders-6"];
    room.put(&programs[0], orders)?;
    room.put(&programs[1], orders_6)?;
    let record = "/tmp/before.json";
    room.expect(&[convoy, "--version"], &["convoy"])?;
    // The diagnosis: which lock, where it is acquired, and the cause.
    room.expect(
        &[convoy, "record", "-o", record, "--", orders],
        &["waiting for `journals`", "orders.c:36", "1200 orders"],
    )?;
    room.expect(&[convoy, "explain", record], &["longest convoy at `journals`"])?;
    room.expect(&[convoy, "report", record, "-o", "/tmp/before.html"], &[""])?;
    room.expect(
        &[convoy, "predict", record, "--cpus", "2,8,32", "--policy", "sleep"],
        &["limits the program"],
    )?;
    // Both refuse a verdict if other programs took the CPUs of this machine.
    let advice = "Splitting `journals` into 6 locks|Other programs had";
    room.expect(&[convoy, "fix", record, "--split", "6"], &[advice])?;
    let verdict = "Faster: /tmp/orders-6|Unsure: ";
    room.expect(&[convoy, "compare", "--no-shell", "--runs", "8", orders, orders_6], &[verdict])?;
    Ok(())
}
