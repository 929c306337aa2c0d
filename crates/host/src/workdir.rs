//! The work directories: fresh ones for each execution of a load point, removed with everything in
//! them.
//!
//! Each is locked (`flock`) by the processes that use it, from its making to the end of the last
//! one. A run that finds one without a lock knows that its processes were all killed, and removes
//! it with the System V objects of its users.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::error::HostError;
use super::sys;

/// The script that `exec_test` executes, below the work directory.
pub(super) const TRUE_SCRIPT: &str = "true";
/// The script that the shell jobs execute.
pub(super) const LIST_SCRIPT: &str = "list";
/// The file with the process ids of the users.
pub(super) const USERS_FILE: &str = "users";
/// First part of the name of a work directory; process id and a number follow.
const PREFIX: &str = "convoy-";
/// File system type of tmpfs, `statfs`.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// Names tried before giving up.
const NAMES: u32 = 1000;

/// A directory of our own; removed on drop.
#[derive(Debug)]
pub(crate) struct WorkDir {
    parent: PathBuf,
    path: PathBuf,
    /// Says that the directory is in use. Children inherit it; executed programs do not.
    _lock: Option<OwnedFd>,
}

/// The work directories of one execution of a load point.
#[derive(Debug)]
pub(crate) struct WorkDirs {
    all: Vec<WorkDir>,
}

impl WorkDirs {
    /// A fresh directory in each of `parents`, or one in the default place if there are none.
    pub(crate) fn new(parents: &[PathBuf]) -> Result<Self, HostError> {
        let all = if parents.is_empty() {
            vec![WorkDir::new(None)?]
        } else {
            parents.iter().map(|parent| WorkDir::new(Some(parent))).collect::<Result<_, _>>()?
        };
        Ok(Self { all })
    }

    /// The paths as jobs use them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all.iter().map(WorkDir::name).collect()
    }

    /// The directory in which the work directory of `user` is.
    pub(crate) fn parent_of(&self, user: u32) -> &Path {
        self.all[user as usize % self.all.len()].parent()
    }

    /// Where they are, for the record.
    pub(crate) fn description(&self) -> String {
        self.all.iter().map(WorkDir::description).collect::<Vec<_>>().join(", ")
    }
}

impl WorkDir {
    /// Makes a fresh directory in `parent`, or in the first writable tmpfs, or else in the
    /// directory for temporary files.
    pub(crate) fn new(parent: Option<&Path>) -> Result<Self, HostError> {
        let parent = parent.map_or_else(default_parent, Path::to_path_buf);
        let failed = |source| HostError::WorkDirectory { path: parent.clone(), source };
        let absolute = std::fs::canonicalize(&parent).map_err(failed)?;
        if !may_execute(&absolute) {
            return Err(HostError::NoPrograms { path: absolute });
        }
        let (path, lock) = fresh(&absolute).map_err(failed)?;
        // From here on drop removes what exists.
        let directory = Self { parent: absolute, path, _lock: lock };
        directory.add_script(TRUE_SCRIPT, "#!/bin/sh\nexit 0\n").map_err(failed)?;
        // Not `exec ls`: the script of the originals waits for it.
        let list = "#!/bin/sh\nls -l \"$1\" >/dev/null\n";
        directory.add_script(LIST_SCRIPT, list).map_err(failed)?;
        Ok(directory)
    }

    /// Returns its parent directory, in which the user can free space.
    pub(crate) fn parent(&self) -> &Path {
        &self.parent
    }

    /// The directory that it is in and whether that is a tmpfs, for the record.
    pub(crate) fn description(&self) -> String {
        let tmpfs = is_tmpfs(&self.parent);
        let kind = if tmpfs { "tmpfs" } else { "no tmpfs" };
        format!("{} ({kind})", self.parent.display())
    }

    /// Where it is.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path as jobs use it.
    pub(crate) fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    fn add_script(&self, name: &str, text: &str) -> std::io::Result<()> {
        let path = self.path.join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _best_effort = remove_tree(&self.path);
    }
}

/// Removes `directory` recursively, holding one descriptor at a time: this must work after a run
/// that ran out of descriptors.
pub(super) fn remove_tree(directory: &Path) -> std::io::Result<()> {
    // An entry keeps its directory open, so only paths are kept.
    let entries = std::fs::read_dir(directory)?.map(|entry| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?.is_dir()))
    });
    for (path, is_directory) in entries.collect::<std::io::Result<Vec<_>>>()? {
        if is_directory {
            remove_tree(&path)?;
        } else {
            std::fs::remove_file(path)?;
        }
    }
    std::fs::remove_dir(directory)
}

/// A directory that did not exist before, in `parent`.
fn fresh(parent: &Path) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if parent.to_str().is_none() {
        return Err(std::io::Error::other("its name is not UTF-8"));
    }
    // While the parent is locked, the new directory is not mistaken for an abandoned one.
    let _guard = lock(parent);
    for _ in 0..NAMES {
        // Ordering: only uniqueness counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok((path.clone(), lock(&path))),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("all names are taken"))
}

/// Locks a directory unless another has; the lock ends with the descriptor.
fn lock(directory: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty()).ok()?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(directory)
}

/// Removes work directories in `parents` (by default the default place) of runs that were killed
/// with all their processes, and the System V objects of their users. Returns how many.
///
/// A directory counts as one if it has our name and our owner, its creator has exited and its lock
/// is free. The lock is what counts: a process id alone says nothing about another container.
pub(super) fn remove_abandoned(parents: &[PathBuf]) -> usize {
    let parents = if parents.is_empty() { vec![default_parent()] } else { parents.to_vec() };
    parents.iter().map(|parent| remove_abandoned_in(parent)).sum()
}

fn remove_abandoned_in(parent: &Path) -> usize {
    // Another process that makes or removes directories has the lock: the rest is for the next
    // time.
    let Some(_guard) = lock(parent) else { return 0 };
    let Ok(entries) = std::fs::read_dir(parent) else { return 0 };
    let ours =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| is_ours(path));
    let mut removed = 0;
    for path in ours.collect::<Vec<_>>() {
        let Some(_unused) = lock(&path) else { continue };
        let users = std::fs::read_to_string(path.join(USERS_FILE)).unwrap_or_default();
        for pid in users.lines().filter_map(|line| line.parse::<i32>().ok()) {
            if !is_alive(pid) {
                remove_objects_of(pid);
            }
        }
        removed += usize::from(remove_tree(&path).is_ok());
    }
    removed
}

/// Removes what process `pid`, which has ended, may have left behind under any of its keys.
fn remove_objects_of(pid: i32) {
    for key in (0..sys::KEYS).map(|attempt| sys::key_of(pid, attempt)) {
        let _none = sys::remove_segment_of(key, pid);
        let _none = sys::remove_semaphore_of(key, pid);
    }
}

/// Whether `path` is a directory that a process of this user made for a run and that process is
/// gone.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let Some((pid, number)) = numbers else { return false };
    let (Ok(pid), Ok(_)) = (pid.parse::<i32>(), number.parse::<u32>()) else { return false };
    let owner = rustix::process::geteuid().as_raw();
    let found = std::fs::symlink_metadata(path);
    found.is_ok_and(|found| found.is_dir() && found.uid() == owner) && !is_alive(pid)
}

fn is_alive(pid: i32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return false };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// The first writable tmpfs of the usual places, else the directory for temporary files.
pub(super) fn default_parent() -> PathBuf {
    let temporary = std::env::temp_dir();
    let places = [PathBuf::from("/dev/shm"), temporary.clone(), PathBuf::from("/tmp")];
    places.into_iter().find(|path| is_writable_tmpfs(path)).unwrap_or(temporary)
}

/// Returns whether files there are in memory.
pub(crate) fn is_tmpfs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == TMPFS)
}

fn is_writable_tmpfs(path: &Path) -> bool {
    let tmpfs = is_tmpfs(path);
    let writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    tmpfs && writable && may_execute(path)
}

/// Whether programs may be executed there; containers often mount `/dev/shm` without.
fn may_execute(path: &Path) -> bool {
    let no_programs = rustix::fs::StatVfsMountFlags::NOEXEC;
    rustix::fs::statvfs(path).is_ok_and(|found| !found.f_flag.contains(no_programs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_fresh_and_goes() {
        let parent = std::env::temp_dir();
        let (first, second) = (WorkDir::new(Some(&parent)), WorkDir::new(Some(&parent)));
        let (first, second) = (first.expect("made"), second.expect("made"));
        assert_ne!(first.path(), second.path());
        assert_eq!(first.path().parent(), Some(first.parent()));
        let path = first.path().to_path_buf();
        assert!(path.join(LIST_SCRIPT).exists());
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn only_abandoned_directories_are_removed() {
        let parent = std::env::temp_dir().join(format!("abandoned-{}", std::process::id()));
        std::fs::create_dir(&parent).expect("made");
        let used = WorkDir::new(Some(&parent)).expect("made");
        // No process has this id: it is beyond the largest.
        let dead = parent.join(format!("{PREFIX}{}-0", i32::MAX));
        let others = [format!("{PREFIX}x-0"), format!("{PREFIX}{}", i32::MAX), "other".to_owned()];
        for path in others.iter().map(|name| parent.join(name)).chain([dead.clone()]) {
            std::fs::create_dir_all(path.join("tree")).expect("made");
        }
        let holder = lock(&dead).expect("free");
        assert_eq!(remove_abandoned(std::slice::from_ref(&parent)), 0, "its processes live");
        drop(holder);
        assert_eq!(remove_abandoned(std::slice::from_ref(&parent)), 1);
        assert!(!dead.exists() && used.path().exists());
        assert!(others.iter().all(|name| parent.join(name).exists()));
        drop(used);
        std::fs::remove_dir_all(parent).expect("removed");
    }

    #[test]
    fn a_file_system_without_programs_is_refused() {
        // Every Linux mounts proc so, or has none; what matters is that the flag is read.
        let proc = Path::new("/proc");
        if !may_execute(proc) {
            let error = WorkDir::new(Some(proc)).expect_err("noexec").to_string();
            assert!(error.contains("/proc") && error.contains("--dir"), "{error}");
        }
        let own = std::env::current_exe().expect("running");
        assert!(may_execute(&own), "this very program was executed from there");
    }

    #[test]
    fn a_missing_parent_is_named_with_the_cure() {
        let error = WorkDir::new(Some(Path::new("/nonexistent/place"))).expect_err("missing");
        let text = error.to_string();
        assert!(text.contains("/nonexistent/place") && text.contains("--dir"), "{text}");
    }
}
