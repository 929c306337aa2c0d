//! Parses records.

use std::path::Path;

use crate::RecordError;
use crate::layout::{FNV, fnv};
use crate::record::{Process, Record, VERSION};

impl Record {
    /// Parses a record from its JSON.
    ///
    /// # Errors
    /// [`RecordError::NoRecord`] with `path` if the text is not a record or is truncated, and
    /// [`RecordError::Version`] if a newer version wrote it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RecordError> {
        let record: Self = serde_json::from_str(text).map_err(|error| RecordError::NoRecord {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        match record.recorded {
            found if found > VERSION => Err(RecordError::Version { found }),
            _ => Ok(record.with_short_names()),
        }
    }

    /// Truncates names to a readable length, since names from other tools may be long.
    #[must_use]
    pub fn with_short_names(mut self) -> Self {
        self.program.command.iter_mut().for_each(shorten);
        for process in &mut self.processes {
            process.command.iter_mut().for_each(shorten);
            let Process { locks, futexes, runtime_locks, kernel_locks, .. } = process;
            for lock in [locks, futexes, runtime_locks, kernel_locks].into_iter().flatten() {
                [&mut lock.name, &mut lock.mutex].into_iter().for_each(shorten);
                for site in &mut lock.sites {
                    [&mut site.place, &mut site.act].into_iter().for_each(shorten);
                }
            }
        }
        self
    }
}

/// Replaces the end of a very long name with a hash of the name, so that different names stay
/// different.
fn shorten(name: &mut String) {
    const MOST: usize = 1024;
    const PART: usize = 256;
    if name.len() <= MOST {
        return;
    }
    let hash = fnv(FNV, name.as_bytes());
    let head: String = name.chars().take(PART).collect();
    *name = format!("{head}…{hash:016x}");
}
