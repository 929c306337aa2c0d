//! Programs for another kind of machine, which qemu runs in separate namespaces.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

/// Registers the emulator `$1` for programs of aarch64 and runs the other arguments. The
/// registration belongs to the user namespace, so it needs no root and the machine keeps its own.
/// `F` opens the emulator now: the programs may have another root. The numbers are the
/// identification of an ELF file and its fields type (executable or shared) and machine (183).
const REGISTER: &str = r#"emulator=$1; shift
begin='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
mount -t proc proc /proc &&
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
printf %s ":qemu-aarch64:M::$begin:$mask:$emulator:F" >/proc/sys/fs/binfmt_misc/register &&
exec "$@""#;

/// Contents of the packages of [`CURE`]: the emulator, and libraries of aarch64 for programs that
/// run without their own system.
const NAMES: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// How to install the missing parts.
pub(crate) const CURE: &str = "qemu for aarch64 and user namespaces of Linux 6.7 or later: \
                               apt-get install qemu-user-static gcc-aarch64-linux-gnu";

/// qemu for programs of aarch64.
pub(crate) struct Emulator {
    program: PathBuf,
}

impl Emulator {
    /// Returns the emulator if it is installed and this kernel lets a user namespace register it.
    pub(crate) fn find() -> Option<Self> {
        let places = std::env::var_os("PATH")?;
        let places = std::env::split_paths(&places);
        let mut programs = places.flat_map(|place| NAMES.map(|name| place.join(name)));
        let emulator = Self { program: programs.find(|program| program.is_file())? };
        let works = emulator.enter("true").output();
        works.is_ok_and(|run| run.status.success()).then_some(emulator)
    }

    /// Returns the same, or an error that names the packages.
    pub(crate) fn required() -> anyhow::Result<Self> {
        Self::find().ok_or_else(|| anyhow::anyhow!("this needs {CURE}"))
    }

    /// Returns a command that runs `program` where programs of aarch64 can be started. They and
    /// their children end with it.
    pub(crate) fn enter(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]);
        command.args(["sh", "-c", REGISTER, "sh"]).arg(&self.program).arg(program.as_ref());
        command
    }
}

/// Returns the directory of the libraries of aarch64, below which `lib` is.
pub(crate) fn sysroot() -> anyhow::Result<&'static Path> {
    let place = Path::new(SYSROOT);
    ensure!(place.join("lib/ld-linux-aarch64.so.1").exists(), "there are no libraries: {CURE}");
    Ok(place)
}
