//! The work directory: a fresh one for each load point, removed with everything in it.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::HostError;

/// The script that `exec_test` executes, below the work directory.
pub(super) const TRUE_SCRIPT: &str = "true";
/// The script that the shell jobs execute.
pub(super) const LIST_SCRIPT: &str = "list";
/// File system type of tmpfs, `statfs`.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// Names tried before giving up.
const NAMES: u32 = 1000;

/// A directory of our own; removed on drop.
#[derive(Debug)]
pub(crate) struct WorkDir {
    parent: PathBuf,
    path: PathBuf,
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
        let path = fresh(&absolute).map_err(failed)?;
        // From here on drop removes what exists.
        let directory = Self { parent: absolute, path };
        directory.add_script(TRUE_SCRIPT, "#!/bin/sh\nexit 0\n").map_err(failed)?;
        let list = "#!/bin/sh\nexec ls -l \"$1\" >/dev/null\n";
        directory.add_script(LIST_SCRIPT, list).map_err(failed)?;
        Ok(directory)
    }

    /// The directory that it is in: what a user can make room in.
    pub(crate) fn parent(&self) -> &Path {
        &self.parent
    }

    /// The directory that it is in and whether that is a tmpfs, for the record.
    pub(crate) fn description(&self) -> String {
        let tmpfs = rustix::fs::statfs(&self.parent).is_ok_and(|found| found.f_type == TMPFS);
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

/// Removes `directory` with everything in it, holding one descriptor at a time: this must work
/// where a run ended because there were no more descriptors.
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
fn fresh(parent: &Path) -> std::io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if parent.to_str().is_none() {
        return Err(std::io::Error::other("its name is not UTF-8"));
    }
    for _ in 0..NAMES {
        // Ordering: only uniqueness counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("convoy-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("all names are taken"))
}

/// The first writable tmpfs of the usual places, else the directory for temporary files.
fn default_parent() -> PathBuf {
    let temporary = std::env::temp_dir();
    let places = [PathBuf::from("/dev/shm"), temporary.clone(), PathBuf::from("/tmp")];
    places.into_iter().find(|path| is_writable_tmpfs(path)).unwrap_or(temporary)
}

fn is_writable_tmpfs(path: &Path) -> bool {
    let tmpfs = rustix::fs::statfs(path).is_ok_and(|found| found.f_type == TMPFS);
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
