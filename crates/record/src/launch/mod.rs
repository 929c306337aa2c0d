//! Starts a program with the recorder's object preloaded, and decides where that object is stored.

pub mod directory;
pub mod page_budget;
pub(crate) mod program_path;
pub(crate) mod refusal;

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::fd::IntoRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{self as sys, MemfdFlags, Mode, OFlags, SealFlags, StatVfsMountFlags};
use rustix::process::geteuid;

use crate::launch::directory::{Directory, Place, is_own, is_safe, open_directory};
use crate::layout::{BUDGET, FNV, UNIT_PAD, UNIT_VARIABLES, fnv};
use crate::{DIRECTORY, OBJECT, RecordError};

/// Prefix of the name of the object, in a directory and in memory.
pub(crate) const RECORDER: &str = "libconvoy_record";
/// Environment variable that lists the objects that the loader loads before a program.
const PRELOAD: &str = "LD_PRELOAD";
/// Environment variable with the number of system call filters that were active at the start.
const FILTERS: &str = "CONVOY_RECORD_FILTERS";
/// Environment variable of a process that tests whether recording works.
const PROBE: &str = "CONVOY_RECORD_PROBE";

pub use crate::launch::program_path::find;
pub use crate::launch::refusal::{Refusal, refusal};

/// Root's directory for the object. All users can read it, because programs drop their privileges.
const OF_ROOT: &str = "/run/convoy";
/// Directory that only root can write and that is empty after each boot.
const RUN: &str = "/run";

/// Stores the object where the loader finds it, for the program that this process becomes, and
/// returns its path: in a directory of the user, after a check of the owner, or in sealed memory.
///
/// # Errors
/// Returns [`RecordError::Machine`] if the object was not built, and [`RecordError::Write`] if it
/// cannot be stored.
pub fn object() -> Result<PathBuf, RecordError> {
    if OBJECT.is_empty() {
        return Err(RecordError::Machine);
    }
    let own = if geteuid().is_root() { Some(PathBuf::from(OF_ROOT)) } else { cache() };
    own.and_then(|directory| object_in_own(&directory)).map_or_else(|| in_memory(true), Ok)
}

impl Place {
    /// Like [`object()`], for programs that are recorded from here. Files created for them are
    /// removed with the place.
    ///
    /// # Errors
    /// As [`object()`].
    pub fn object(&mut self) -> Result<PathBuf, RecordError> {
        if OBJECT.is_empty() {
            return Err(RecordError::Machine);
        }
        if geteuid().is_root() {
            // The HOME of root may be that of the user who became root.
            let name = self.directory().path.file_name().unwrap_or_default();
            let code =
                Some(RUN).filter(|run| is_safe(Path::new(run)) && self.base() != Path::new(*run));
            self.code = code.and_then(|run| Directory::new(Path::new(run), name).ok());
            let code = self.code.as_ref().and_then(|code| object_within(&code.path).ok());
            if let Some(path) = code {
                return Ok(path);
            }
        } else if let Some(path) = cache().and_then(|cache| object_in_own(&cache)) {
            return Ok(path);
        }
        let path = &self.directory().path;
        let near = if is_safe(path) { object_within(path).ok() } else { None };
        near.map_or_else(|| in_memory(false), Ok)
    }
}

/// Returns the directory for this user's cached files, which can be recreated.
fn cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || set("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).map(|cache| cache.join("convoy"))
}

/// Stores the object in a separate directory, which is created if necessary.
fn object_in_own(directory: &Path) -> Option<PathBuf> {
    let above = directory.parent()?;
    std::fs::create_dir_all(above).ok()?;
    if !is_safe(above) {
        return None;
    }
    let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
    let _there_already = std::fs::DirBuilder::new().mode(mode).create(directory);
    object_within(directory).ok()
}

/// Stores the object in a directory that belongs to this user.
fn object_within(directory: &Path) -> std::io::Result<PathBuf> {
    static WRITES: AtomicU32 = AtomicU32::new(0);
    let refused = |text: &str| Error::new(ErrorKind::PermissionDenied, text);
    let opened = open_directory(directory)?;
    if !is_own(&opened)? {
        return Err(refused("it is another user's, or others can write it"));
    }
    if sys::fstatvfs(&opened)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(refused("its file system is mounted without the right to execute"));
    }
    // These bytes separate objects in the loader's list.
    if directory.as_os_str().as_encoded_bytes().iter().any(|byte| b": \t\n".contains(byte)) {
        return Err(refused("the loader takes no such name"));
    }
    let name = format!("{RECORDER}-{:016x}.so", fnv(FNV, OBJECT));
    let path = directory.join(&name);
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(there) = sys::openat(&opened, &name, read, Mode::empty())
        && is_own(&there)?
        && is_object(there.into())
    {
        return Ok(path);
    }
    // Another convoy process, or another thread of this one, may write it at the same time. Each
    // writes a separate file, and complete files replace each other.
    let number = WRITES.fetch_add(1, Relaxed);
    let part = format!("{name}.{}-{number}.part", std::process::id());
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = sys::openat(&opened, &part, write | OFlags::NOFOLLOW, Mode::from_raw_mode(0o600))?;
    let mut file = std::fs::File::from(file);
    let written = file.write_all(OBJECT);
    // Programs that have dropped their privileges load it again when they start others.
    let written = written.and_then(|()| Ok(sys::fchmod(&file, Mode::from_raw_mode(0o555))?));
    let moved = written.and_then(|()| Ok(sys::renameat(&opened, &part, &opened, &name)?));
    if let Err(error) = moved {
        let _nothing_left = sys::unlinkat(&opened, &part, sys::AtFlags::empty());
        return Err(error);
    }
    Ok(path)
}

fn is_object(file: std::fs::File) -> bool {
    let mut there = Vec::new();
    file.take(OBJECT.len() as u64 + 1).read_to_end(&mut there).is_ok() && there == OBJECT
}

/// Stores the object in memory that cannot be modified afterwards. The path is valid while this
/// process has the file open; with `inherited`, also after it has become another program.
fn in_memory(inherited: bool) -> Result<PathBuf, RecordError> {
    fn refused(source: std::io::Error) -> RecordError {
        RecordError::Write { path: "memfd:libconvoy_record".into(), source }
    }
    let mut flags = MemfdFlags::ALLOW_SEALING;
    if !inherited {
        flags |= MemfdFlags::CLOEXEC;
    }
    let memory = sys::memfd_create(RECORDER, flags).map_err(|error| refused(error.into()))?;
    let mut file = std::fs::File::from(memory);
    file.write_all(OBJECT).map_err(refused)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    sys::fcntl_add_seals(&file, seals).map_err(|error| refused(error.into()))?;
    let number = file.into_raw_fd();
    Ok(PathBuf::from(format!("/proc/{}/fd/{number}", std::process::id())))
}

/// Returns `words` as a command that loads `object` into each program that it starts.
pub fn command(words: &[OsString], object: &Path) -> Command {
    let mut command = Command::new(words.first().map_or(OsStr::new(""), OsString::as_os_str));
    command.args(words.get(1..).unwrap_or_default());
    let mut list = object.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    command.env(PRELOAD, list).env(FILTERS, convoy_os::filters().to_string());
    let own = std::process::id().to_string();
    for name in UNIT_VARIABLES {
        if std::env::var_os(name).is_some_and(|number| number == *own) {
            command.env(name, own.clone() + &String::from_utf8_lossy(UNIT_PAD));
        }
    }
    command
}

/// Returns the reason why programs cannot run with the object here. If there are system call
/// filters, this program is run with the object as a test.
pub fn forbidden(object: &Path, files: &Path) -> Option<String> {
    if convoy_os::filters() == 0 {
        return None;
    }
    let own = std::env::current_exe().ok()?;
    let mut probe = command(&[own.into(), "--version".into()], object);
    probe.env(DIRECTORY, files).env(PROBE, "1");
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = probe.status().ok()?;
    let entries = std::fs::read_dir(files).ok()?.flatten();
    for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes() != BUDGET) {
        let _stays_empty = std::fs::remove_file(entry.path());
    }
    (!ended.success()).then(|| {
        "a filter of system calls (seccomp) that this command has inherited ends programs that \
         are recorded; start it outside of that sandbox, or record the process from outside with \
         --pid"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_write_the_object_at_once_leave_all_of_it() {
        let name = format!("convoy-object-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let path = object_within(&directory).expect("it can be written");
                    assert!(std::fs::read(path).is_ok_and(|bytes| bytes == OBJECT), "cut off");
                });
            }
        });
        assert_eq!(std::fs::read_dir(&directory).expect("it is there").count(), 1);
        std::fs::remove_dir_all(directory).expect("it goes away");
    }

    #[test]
    fn what_others_can_write_is_never_loaded() {
        fn set(path: &Path, mode: u32) {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("it is ours");
        }
        let name = format!("convoy-others-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = object_within(&directory).expect("it can be written");
        // A file with the right content that others can write is replaced by another file.
        set(&path, 0o777);
        assert_eq!(object_within(&directory).expect("it can be written"), path);
        let opened = std::fs::File::open(&path).expect("it is there");
        assert!(is_own(&opened).expect("it has an owner"));
        // The target of a symbolic link is not modified.
        let other = directory.join("other");
        std::fs::write(&other, "mine").expect("written");
        std::fs::remove_file(&path).expect("it goes away");
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        assert_eq!(object_within(&directory).expect("it can be written"), path);
        assert!(std::fs::read(&other).is_ok_and(|text| text == b"mine"));
        assert!(std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()));
        set(&directory, 0o777);
        object_within(&directory).expect_err("others can write the directory");
        let memory = in_memory(false).expect("there is memory");
        assert!(std::fs::read(&memory).is_ok_and(|bytes| bytes == OBJECT));
        let open = std::fs::OpenOptions::new().write(true).open(&memory);
        open.and_then(|mut file| file.write_all(b"other code")).expect_err("it is sealed");
        std::fs::remove_dir_all(directory).expect("it goes away");
    }
}
