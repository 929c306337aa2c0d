//! The directory in which a run keeps its files until it ends. It belongs to the user of the run.
//!
//! Other users cannot list it, and the part in which processes leave their files has a name that
//! cannot be guessed. Processes that a recorded program starts as another user learn the name from
//! their environment. They may add files there, but cannot change existing ones.
//!
//! ```text
//! convoy-record-UID-16 digits   0711  a lock while the recorder runs, a description of the run,
//! |                                   the object if no other directory can be used
//! `- 32 digits                 01733  one file per process, and the number of remaining pages
//! ```

use std::ffi::OsStr;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Error, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self as sys, FileType, FlockOperation, Mode, OFlags};
use rustix::process::geteuid;

use convoy_os::groups;

use crate::RecordError;
use crate::launch::page_budget;
use crate::layout::BUDGET;

/// Prefix of the names of these directories.
const PREFIX: &str = "convoy-record-";
/// Name of the file that the recorder keeps locked while it runs.
const LOCK: &str = "lock";
/// Description of the run, for a process that finds the directory later.
const NOTE: &str = "run.json";
/// Free bytes that suffice to choose a directory. A program with many threads uses this much.
const ENOUGH: u64 = 128 << 20;
/// Fraction of the free bytes that a recording may use if the user specifies neither a size nor a
/// directory. The program may need the rest.
const SHARE: (u64, u64) = (3, 4);
/// A directory with fewer free bytes is not used.
const LEAST: u64 = 64 << 10;

/// A directory that is removed on drop. Its lock shows that it belongs to a running process.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) opened: OwnedFd,
    _lock: OwnedFd,
    stays: bool,
}

/// Opens a directory. Fails if the path is a symbolic link.
pub(crate) fn open_directory(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(sys::open(path, flags, Mode::empty())?)
}

/// Returns whether an open file or directory belongs to this user and other users cannot write it.
/// A file must also have a single hard link.
pub(crate) fn is_own(opened: impl AsFd) -> std::io::Result<bool> {
    let found = sys::fstat(opened)?;
    let mode = Mode::from_raw_mode(found.st_mode);
    let is_regular = FileType::from_raw_mode(found.st_mode) != FileType::Directory;
    let is_alone = !is_regular || found.st_nlink == 1;
    let others = Mode::WGRP | Mode::WOTH;
    Ok(found.st_uid == geteuid().as_raw() && !mode.intersects(others) && is_alone)
}

/// Returns 16 hexadecimal digits that cannot be guessed.
fn digits() -> String {
    // The keys of such a hasher are random numbers from the system.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

fn foreign(path: &Path) -> Error {
    Error::new(ErrorKind::PermissionDenied, format!("{} is another user's", path.display()))
}

impl Directory {
    /// Creates a directory in `base` and locks it.
    pub(crate) fn new(base: &Path, name: &OsStr) -> std::io::Result<Self> {
        let path = base.join(name);
        std::fs::DirBuilder::new().mode(0o711).create(&path)?;
        let opened = open_directory(&path)?;
        if !is_own(&opened)? {
            return Err(foreign(&path));
        }
        sys::fchmod(&opened, Mode::from_raw_mode(0o711))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let lock = sys::openat(&opened, LOCK, flags, Mode::from_raw_mode(0o600))?;
        sys::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, opened, _lock: lock, stays: false })
    }

    /// Opens a directory that a process left behind. Returns `None` if that process is still
    /// running, or if the directory cannot be opened.
    fn left(path: PathBuf) -> Option<Self> {
        let opened = open_directory(&path).ok()?;
        if !is_own(&opened).ok()? {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = sys::openat(&opened, LOCK, flags, Mode::empty()).ok()?;
        sys::flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { path, opened, _lock: lock, stays: true })
    }
}

impl Directory {
    /// Removes the directory.
    fn go(mut self) {
        self.stays = false;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.stays {
            let _left_behind = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Directory of a run. Removed when dropped.
#[derive(Debug)]
pub struct Place {
    directory: Directory,
    files: PathBuf,
    /// Directory of the object, if that is a separate one.
    pub(crate) code: Option<Directory>,
}

impl Place {
    /// Creates the directory in `buffer`. Without it, prefers memory if that has enough room,
    /// because pages of a disk are written back while the program runs, and otherwise takes the
    /// directory with the most room. All processes together write at most `size` bytes. The default
    /// is all free bytes of `buffer`, or three quarters of the free bytes elsewhere.
    ///
    /// # Errors
    /// No directory can be created, or none has room for `size` bytes.
    pub fn new(buffer: Option<&Path>, size: Option<u64>) -> Result<Self, RecordError> {
        let mut last = None;
        for (free, base) in order(buffer, size) {
            if let Some(size) = size.filter(|size| *size > free) {
                last.get_or_insert_with(|| (base, short(free, size)));
                continue;
            }
            let usual = if buffer.is_some() { free } else { free / SHARE.1 * SHARE.0 };
            let most = size.unwrap_or(usual);
            match Self::within(&base, most) {
                Ok(place) => return Ok(place),
                Err(source) => last = Some((base, source)),
            }
        }
        let (path, source) = last.unwrap_or_else(|| {
            let text = "there is no directory with 64 KiB of room";
            (PathBuf::from("/dev/shm"), Error::new(ErrorKind::StorageFull, text))
        });
        Err(RecordError::Place { path, source })
    }

    fn within(base: &Path, most: u64) -> std::io::Result<Self> {
        let base = std::fs::canonicalize(base)?;
        if is_everyones(&base)? {
            let text = "other users may rename or remove its files (chmod +t, or 755)";
            return Err(Error::new(ErrorKind::PermissionDenied, text));
        }
        let name = format!("{PREFIX}{}-{}", geteuid().as_raw(), digits());
        let directory = Directory::new(&base, OsStr::new(&name))?;
        let secret = digits() + &digits();
        sys::mkdirat(&directory.opened, &secret, Mode::from_raw_mode(0o700))?;
        let files = directory.path.join(secret);
        page_budget::create(&files, most, geteuid().is_root())?;
        // All users may add files whose names they know. Only owners may change or remove them.
        sys::fchmod(open_directory(&files)?, Mode::from_raw_mode(0o1733))?;
        Ok(Self { directory, files, code: None })
    }

    /// Returns the directory in which processes leave their files: the value of
    /// [`DIRECTORY`](crate::DIRECTORY).
    pub fn files(&self) -> &Path {
        &self.files
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the directory in which the run's directory was created, which identifies the file
    /// system.
    pub fn base(&self) -> &Path {
        self.directory.path.parent().unwrap_or(&self.directory.path)
    }

    /// Writes a description of the run, for [`left`].
    ///
    /// # Errors
    /// The description cannot be written.
    pub fn note(&self, text: &str) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let opened = sys::openat(&self.directory.opened, NOTE, flags | OFlags::NOFOLLOW, mode)?;
        std::fs::File::from(opened).write_all(text.as_bytes())
    }

    /// Keeps the directory, so that [`left`] can find it, and returns its path.
    pub fn keep(mut self) -> PathBuf {
        self.directory.stays = true;
        self.directory.path.clone()
    }
}

/// Directory of a recorder that was killed.
#[derive(Debug)]
pub struct Left(Place);

impl Left {
    /// Returns the directory in which its processes left their files.
    pub fn files(&self) -> &Path {
        &self.0.files
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0.directory.path
    }

    /// Returns the description that [`Place::note`] wrote, or an empty string.
    pub fn note(&self) -> String {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = sys::openat(&self.0.directory.opened, NOTE, flags, Mode::empty());
        opened.ok().and_then(|opened| read_all(opened.into())).unwrap_or_default()
    }

    /// Returns whether no process has left a file.
    pub fn is_empty(&self) -> bool {
        let entries = std::fs::read_dir(&self.0.files).into_iter().flatten().flatten();
        entries.into_iter().all(|entry| entry.file_name().as_encoded_bytes() == BUDGET)
    }

    /// Returns whether one of its processes is still running and has its file mapped.
    pub fn is_in_use(&self) -> bool {
        let Ok(entries) = std::fs::read_dir(&self.0.files) else { return false };
        let own = self.0.files.to_string_lossy().into_owned();
        entries.flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
            let maps = pid.and_then(|pid| convoy_os::process::maps(pid).ok());
            maps.is_some_and(|maps| maps.contains(&own))
        })
    }

    /// Removes the directory.
    pub fn remove(self) {
        self.0.directory.go();
    }
}

/// Opens a file in the directory of a recording. Returns `None` unless it is a regular file. A
/// process may have created anything there, so this neither waits for a pipe nor follows a link.
pub(crate) fn open_file(path: &Path) -> Option<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(sys::open(path, flags, Mode::empty()).ok()?);
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

/// Returns the numbers of programs that were started but not recorded, by reason: lack of room, the
/// directory, a limit, a filter of system calls.
pub fn programs_lost(files: &Path) -> [u64; 4] {
    open_file(&page_budget::path(files)).map_or([0; 4], |file| page_budget::lost(&file))
}

fn read_all(file: std::fs::File) -> Option<String> {
    use std::io::Read as _;
    /// Maximum size of a description in bytes.
    const MOST: u64 = 16 << 20;
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the directories that killed recorders of this user left behind, in the usual places or
/// in `buffer`.
pub fn left(buffer: Option<&Path>) -> Vec<Left> {
    let mut bases = usual();
    bases.extend(buffer.map(Path::to_owned));
    let own = format!("{PREFIX}{}-", geteuid().as_raw());
    let mut found = Vec::new();
    for base in bases.iter().filter_map(|base| std::fs::canonicalize(base).ok()) {
        let entries = std::fs::read_dir(&base).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own));
        for directory in named.filter_map(|entry| Directory::left(entry.path())) {
            let entries = std::fs::read_dir(&directory.path).into_iter().flatten().flatten();
            let secret = |entry: &std::fs::DirEntry| entry.file_name().len() == 32;
            match entries.into_iter().find(secret).map(|entry| entry.path()) {
                Some(files) => found.push(Left(Place { directory, files, code: None })),
                // A directory for an object alone, or one whose creation was interrupted.
                None => directory.go(),
            }
        }
    }
    found
}

/// Returns the directories that can be used, those in memory first.
fn usual() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from("/dev/shm")];
    if geteuid().is_root() {
        all.push("/run".into());
    } else if let Some(own) = std::env::var_os("XDG_RUNTIME_DIR") {
        all.push(own.into());
    }
    all.extend([std::env::temp_dir(), "/var/tmp".into()]);
    all.dedup();
    all
}

fn short(free: u64, size: u64) -> Error {
    let [free, size] = [free, size].map(|bytes| bytes.div_ceil(1 << 10));
    let text = format!("it has {free} KiB of room, and --buffer-size is {size} KiB");
    Error::new(ErrorKind::StorageFull, text)
}

/// Returns the directories in the order in which they are tried, with their free bytes: those with
/// enough room first, then the others by decreasing room.
fn order(buffer: Option<&Path>, size: Option<u64>) -> Vec<(u64, PathBuf)> {
    /// Magic number of a file system in memory (tmpfs).
    const MEMORY: sys::FsWord = 0x0102_1994;
    let permitted = groups::left(&groups::MEMORY).map_or(u64::MAX, |(bytes, _)| bytes);
    let free = |base: PathBuf| {
        let found = sys::statvfs(&base).ok()?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let is_memory = sys::statfs(&base).is_ok_and(|found| found.f_type == MEMORY);
        Some((if is_memory { free.min(permitted) } else { free }, base))
    };
    if let Some(buffer) = buffer {
        // If the directory does not exist, creating one in it fails with that error.
        return vec![free(buffer.to_owned()).unwrap_or((u64::MAX, buffer.to_owned()))];
    }
    let all = usual().into_iter().filter_map(free).filter(|(free, _)| *free >= LEAST);
    let enough = size.unwrap_or(ENOUGH);
    let (mut first, mut rest): (Vec<_>, Vec<_>) = all.partition(|(free, _)| *free >= enough);
    rest.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
    first.append(&mut rest);
    first
}

/// Mode bit: only owners may rename and remove files in a directory.
const STICKY: u32 = 0o1000;

/// Returns whether all users may rename and remove files in a directory.
fn is_everyones(path: &Path) -> std::io::Result<bool> {
    /// Write permission for users who are neither the owner nor in the group, which is often the
    /// owner's private group.
    const ALL: u32 = 0o002;
    let mode = std::fs::metadata(path)?.permissions().mode();
    Ok(mode & ALL != 0 && mode & STICKY == 0)
}

/// Returns whether only this user and root can change the file that a path leads to. They must own
/// the path and all directories above it, and other users must not be able to write to these, or
/// only to their own files (sticky bit).
pub(crate) fn is_safe(path: &Path) -> bool {
    const OTHERS: u32 = 0o022;
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    let own = geteuid().as_raw();
    path.ancestors().all(|one| {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::symlink_metadata(one).is_ok_and(|found| {
            let mode = found.permissions().mode();
            [0, own].contains(&found.uid()) && (mode & OTHERS == 0 || mode & STICKY != 0)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("convoy-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        path
    }

    #[test]
    fn what_a_dead_recorder_left_is_found_and_what_a_living_one_has_is_not() {
        fn mode(path: &Path) -> u32 {
            std::fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
        }
        let base = base("left");
        let place = Place::new(Some(&base), None).expect("it can be made");
        place.note("{}").expect("written");
        assert_eq!(mode(place.files()), 0o1733);
        assert_eq!(mode(place.files().parent().expect("around it")), 0o711);
        let ours = |left: &Left| left.path().starts_with(std::fs::canonicalize(&base).expect("it"));
        assert!(!left(Some(&base)).iter().any(ours), "its recorder lives");
        let path = place.keep();
        let found: Vec<Left> = left(Some(&base)).into_iter().filter(ours).collect();
        assert_eq!(found.len(), 1);
        for one in found {
            assert_eq!((one.path(), one.note().as_str()), (&*path, "{}"));
            assert!(one.is_empty() && !one.is_in_use());
            std::fs::write(one.files().join("4711-0"), "").expect("written");
            assert!(!one.is_empty());
            one.remove();
        }
        assert!(!path.exists());
        std::fs::remove_dir_all(base).expect("it goes away");
    }

    #[test]
    fn more_than_there_is_room_for_is_refused() {
        let refused = Place::new(Some(&std::env::temp_dir()), Some(1 << 60));
        let text = refused.expect_err("no disk has an exabyte").to_string();
        assert!(text.contains("--buffer-size is 1125899906842624 KiB"), "{text}");
        let place = Place::new(None, Some(1 << 20)).expect("a megabyte");
        let pages = std::fs::read(place.files().join("budget")).expect("the bound");
        assert_eq!((pages.len(), &pages[..8]), (4096, &256_u64.to_le_bytes()[..]));
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_safe() {
        let base = base("safe");
        // The directory for temporary files has the sticky bit.
        assert!(is_safe(&base));
        std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o777)).expect("set");
        assert!(!is_safe(&base) && !is_safe(&base.join("no such file")));
        std::fs::remove_dir_all(base).expect("it goes away");
    }
}
