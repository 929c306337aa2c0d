//! The journal: one line for each record that is not yet in the database.

use crate::entry::Entry;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Error, Read as _, Result, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The journal with its lock; dropping it lets the next writer in.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
}

/// Where the journal of the store at `path` is.
pub(crate) fn path_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".journal.jsonl");
    PathBuf::from(name)
}

impl Journal {
    /// Opens the journal of the store at `path`, acquires its lock, and cuts off a line that a
    /// crash left incomplete: it was never acknowledged.
    pub(crate) fn lock(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path_of(path))?;
        flock(&file, FlockOperation::LockExclusive).map_err(Error::from)?;
        let mut journal = Self { file };
        let bytes = journal.bytes()?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole < bytes.len() {
            journal.file.set_len(whole as u64)?;
        }
        Ok(journal)
    }

    /// Appends `entry` and makes it durable. On an error the journal is as it was.
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let end = self.file.seek(SeekFrom::End(0))?;
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // Should this fail, too, the next one to lock cuts the half line off.
            let _half_line_left = self.file.set_len(end);
        }
        written
    }

    /// The records it holds. A line that cannot be understood is given back as it is.
    pub(crate) fn entries(&mut self) -> Result<Vec<std::result::Result<Entry, String>>> {
        fn parse(line: &[u8]) -> std::result::Result<Entry, String> {
            serde_json::from_slice(line).map_err(|_| String::from_utf8_lossy(line).into_owned())
        }
        let bytes = self.bytes()?;
        let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(parse).collect())
    }

    /// Forgets everything, after it has become durable elsewhere.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.file.set_len(0)
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Whether the journal of the store at `path` holds anything, asked without the lock.
pub(crate) fn pending(path: &Path) -> bool {
    std::fs::metadata(path_of(path)).is_ok_and(|data| data.len() > 0)
}

/// Moves lines that are not records to a separate file, for inspection.
pub(crate) fn set_aside(path: &Path, lines: &[&str]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged.jsonl");
    let mut file =
        OpenOptions::new().append(true).create(true).mode(0o600).open(PathBuf::from(name))?;
    for line in lines {
        writeln!(file, "{line}")?;
    }
    file.sync_data()
}
