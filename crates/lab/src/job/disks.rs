//! The file systems that the users of a simulation work on.

use convoy_kernel::{FileSystem, JournalOptions};
use serde::{Deserialize, Serialize};

use super::JobError;
use crate::experiment::Inputs;

/// Blocks of 4 KiB in a MiB.
const BLOCKS_PER_MIB: u32 = 256;
/// A block group, MiB.
const GROUP_MIB: u32 = 128;

/// How many work file systems there are, and how large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Disks {
    /// File systems, each on a separate disk and with one work directory; with more than one, the
    /// directory that `dir_rtns_1` lists is `/bin`, on none of them.
    pub directories: u32,
    /// MiB of each; `None`: half of the memory for all.
    pub fs_mib: Option<u32>,
    /// MiB of each journal.
    pub journal_mib: u32,
    /// Whether a commit record is written together with the blocks (`journal_async_commit`).
    pub journal_async: bool,
    /// Whether files have labels outside of their inodes, on ext4.
    pub labels: bool,
}

impl Default for Disks {
    fn default() -> Self {
        Self { directories: 1, fs_mib: None, journal_mib: 32, journal_async: false, labels: false }
    }
}

impl Disks {
    /// Those that the inputs of a cell ask for.
    pub(super) fn of(inputs: &Inputs) -> Self {
        let default = Self::default();
        Self {
            directories: inputs.whole("directories", default.directories),
            fs_mib: inputs.has("fs_mib").then(|| inputs.whole("fs_mib", GROUP_MIB)),
            journal_mib: inputs.whole("journal_mib", default.journal_mib),
            journal_async: inputs.truth("journal_async", default.journal_async),
            labels: inputs.truth("labels", default.labels),
        }
    }

    /// Returns whether they are the defaults.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The file system called `name` on them.
    ///
    /// # Errors
    /// [`JobError::Input`]: it does not exist, or is too small for its journal.
    pub(super) fn file_system(&self, name: &str) -> Result<FileSystem, JobError> {
        if self.fs_mib.is_some_and(|mib| mib <= self.journal_mib) && name == "journal" {
            let problem =
                format!("leaves no room for data after a journal of {} MiB", self.journal_mib);
            return Err(JobError::input("fs_mib", problem));
        }
        match name {
            "tmpfs" => Ok(FileSystem::Tmpfs),
            "journal" => Ok(FileSystem::Journal(JournalOptions {
                blocks: self.journal_mib * BLOCKS_PER_MIB,
                async_commit: self.journal_async,
                labels: self.labels,
                groups: self.fs_mib.map_or(JournalOptions::default().groups, |mib| {
                    u64::from(mib.div_ceil(GROUP_MIB)).min(JournalOptions::default().groups)
                }),
            })),
            unknown => {
                let problem = format!("{unknown:?} is no file system; known: tmpfs, journal");
                Err(JobError::input("fs", problem))
            }
        }
    }
}
