//! The file with the number of pages that the recorded processes may still write, see
//! `crates/preload/src/file/budget.rs`.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoy_os::clock::thread_cpu_ns;
use rustix::process::geteuid;

use crate::layout::{BUDGET, BUDGET_LOST, BUDGET_OTHERS, PAGE};

/// Size of a page in bytes.
const PAGE_BYTES: u64 = PAGE as u64 * 8;

/// Returns the path of the file in a directory of recordings.
pub(crate) fn path(files: &Path) -> PathBuf {
    files.join(OsStr::from_bytes(BUDGET))
}

/// Creates the file. With `others`, other users may read it: a program started by root may change
/// its user.
pub(crate) fn create(files: &Path, bytes: u64, others: bool) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mode = if others { 0o644 } else { 0o600 };
    let file = options.write(true).create_new(true).mode(mode).open(path(files))?;
    // The umask may have cleared bits of the mode.
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    let mut words = [0; PAGE_BYTES as usize];
    words[..8].copy_from_slice(&(bytes / PAGE_BYTES).to_le_bytes());
    file.write_all_at(&words, 0)
}

/// Reads the numbers of programs that were started but not recorded, by reason.
pub(crate) fn lost(file: &File) -> [u64; 4] {
    [0, 1, 2, 3].map(|why| {
        let mut word = [0; 8];
        let read = file.read_exact_at(&mut word, (BUDGET_LOST + why) as u64 * 8);
        if read.is_ok() { u64::from_le_bytes(word) } else { 0 }
    })
}

/// Counts the pages written by programs that run as other users, because those cannot write the
/// file.
#[derive(Debug, Default)]
pub struct Others {
    files: PathBuf,
    /// `None` unless run by root: other users cannot start programs as another user.
    bound: Option<File>,
    next: Option<Instant>,
}

impl Others {
    /// Returns a counter for the processes that create a file in `files`.
    pub fn at(files: &Path) -> Self {
        let open = || std::fs::OpenOptions::new().write(true).open(path(files)).ok();
        let bound = if geteuid().is_root() { open() } else { None };
        Self { files: files.to_owned(), bound, next: None }
    }

    /// Sums up the sizes of their files, unless the last pass was too recent.
    pub fn look(&mut self) {
        /// Minimum time between two passes, and the pause as a multiple of the CPU time of a pass:
        /// passes take at most 1/`REST` of a CPU.
        const LEAST: Duration = Duration::from_millis(20);
        const REST: u32 = 200;
        let Some(bound) = &self.bound else { return };
        if self.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let (begin, own) = (thread_cpu_ns(), geteuid().as_raw());
        let entries = std::fs::read_dir(&self.files).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| entry.metadata().ok());
        let others = found.filter(|found| found.uid() != own);
        let bytes: u64 = others.map(|found| found.blocks() * 512).sum();
        let words = (bytes / PAGE_BYTES).to_le_bytes();
        let _full_disk_has_it = bound.write_all_at(&words, BUDGET_OTHERS as u64 * 8);
        let took = Duration::from_nanos(thread_cpu_ns() - begin);
        self.next = Some(Instant::now() + (took * REST).max(LEAST));
    }
}
