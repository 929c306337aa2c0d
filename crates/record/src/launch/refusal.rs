//! Detects, from their files, programs into which the object cannot or must not be preloaded.

use std::ffi::OsStr;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{self as sys, Mode, OFlags};
use rustix::process::{getegid, geteuid};

use crate::launch::program_path::find;
use crate::layout::program::{ELF_HEADER, Unfit, fitness};

/// Names of the sanitizers, which must be loaded first, in the order of [`Unfit::Sanitized`].
const SANITIZERS: [&str; 5] = [
    "AddressSanitizer",
    "HWAddressSanitizer",
    "ThreadSanitizer",
    "MemorySanitizer",
    "LeakSanitizer",
];
/// Bytes of the names in a program that are searched, more than any program has.
const MOST: u64 = 64 << 20;
const FROM_OUTSIDE: &str =
    "record it from outside with --pid, or as root: the kernel sees its locks";

/// Why the object cannot be loaded into a program, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {cure}")]
pub struct Refusal {
    /// The program and its property.
    pub problem: String,
    /// What to do instead.
    pub cure: String,
}

/// Returns whether this is a Go program, by the note that Go's linker places near the start of the
/// file.
pub(crate) fn is_go(file: &std::fs::File) -> bool {
    /// Type and owner of the note, which only Go programs have in their first bytes.
    const MARK: &[u8] = b"\x04\0\0\0Go\0\0";
    let mut head = vec![0; 8192];
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    head[..read].windows(MARK.len()).any(|part| part == MARK)
}

/// Returns the reason why the loader cannot, or must not, preload an object into this program, if
/// there is one.
pub fn refusal(program: &OsStr) -> Option<Refusal> {
    let path = find(program)?;
    let name = path.display();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(sys::open(&path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    if let Some(rights) = rights(&path, &found) {
        let problem =
            format!("{name} has {rights}, so the loader takes in nothing that its user chooses");
        return Some(Refusal { problem, cure: FROM_OUTSIDE.to_owned() });
    }
    let mut head = [0; ELF_HEADER];
    let read = |offset, bytes: &mut [u8]| file.read_at(bytes, offset).ok();
    if read(0, &mut head)? < ELF_HEADER || !head.starts_with(b"\x7fELF") {
        return None;
    }
    let unfit = fitness(&head, MOST, read)?.err()?;
    // The loader itself, which is started with a program.
    let is_loader =
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-linux"));
    let (problem, cure) = match unfit {
        Unfit::Foreign => {
            let machine = std::env::consts::ARCH;
            (
                format!("{name} is a program for another kind of machine than {machine}"),
                FROM_OUTSIDE,
            )
        }
        _ if is_loader => return None,
        Unfit::Static => {
            let cure = if is_go(&file) {
                "record it as root, with --pid or without, or give convoy explain Go's mutex \
                 profile (runtime.SetMutexProfileFraction, /debug/pprof/mutex)"
            } else {
                "link it dynamically, or record it as root: the kernel sees its locks"
            };
            let problem =
                format!("{name} is linked statically, so libc's functions in it cannot be reached");
            (problem, cure)
        }
        Unfit::Musl => {
            (format!("{name} is linked to musl, and the recorder to glibc"), FROM_OUTSIDE)
        }
        Unfit::Sanitized(index) => {
            let checker = SANITIZERS[index];
            let problem = format!(
                "{name} is built with {checker}, which must be loaded first and reports every \
                 access"
            );
            (problem, "record a build without it, or this one from outside with --pid")
        }
    };
    Some(Refusal { problem, cure: cure.to_owned() })
}

/// Returns the rights that a file gives to every user that starts it.
fn rights(path: &Path, found: &std::fs::Metadata) -> Option<&'static str> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let (mode, mut value) = (found.mode(), [0_u8; 64]);
    if mode & SET_USER != 0 && found.uid() != geteuid().as_raw() {
        return Some("the rights of its owner (set-user-ID)");
    }
    if mode & SET_GROUP == SET_GROUP && found.gid() != getegid().as_raw() {
        return Some("the rights of its group (set-group-ID)");
    }
    let capable = sys::getxattr(path, "security.capability", &mut value[..]).is_ok();
    (capable && !geteuid().is_root()).then_some("file capabilities")
}
