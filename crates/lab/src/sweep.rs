//! A directory of cells: each outcome is a file under the hash of its cell, so a killed sweep can
//! be resumed, and shards of one sweep can be merged.
//!
//! ```text
//! DIR/build          which build made the cells
//! DIR/cells/HASH     one line of JSON, the outcome of the cell of that hash, and its SHA-256
//! ```
//!
//! A file appears atomically: it is written under a temporary name, made durable, and renamed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::experiment::Plan;
use crate::job::{Job, Outcome, sha256};

/// A directory of cells.
#[derive(Clone, Debug)]
pub struct Cells {
    directory: PathBuf,
}

/// The part of the cells that a process runs: the cells with a number in the plan of `index` modulo
/// `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: usize,
    /// How many there are, at least 1.
    pub count: usize,
}

/// Why a sweep cannot keep its cells.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}; make room or name another directory", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Cells of another build would be mixed with cells of this one.
    #[error(
        "{}: its cells were made by build {theirs}, and this is {ours}; name another directory, or \
         remove it to start again",
        path.display()
    )]
    Build {
        /// The directory.
        path: PathBuf,
        /// The build of its cells.
        theirs: String,
        /// This one.
        ours: String,
    },
    /// A file of a cell is damaged.
    #[error("{}: {problem}; remove it, the cell is then run again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}

/// Bytes that no outcome has.
const LARGEST: u64 = 256 << 20;

impl Shard {
    /// All cells.
    pub const ALL: Self = Self { index: 0, count: 1 };

    /// Whether the cell with this number is in it.
    pub fn has(self, number: usize) -> bool {
        number % self.count == self.index
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no shard; give I/N with I from 1 to N, such as 2/4");
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        let (index, count) = (number(index)?, number(count)?);
        if (1..=count).contains(&index) {
            Ok(Self { index: index - 1, count })
        } else {
            Err(wrong())
        }
    }
}

impl Cells {
    /// The directory, made if there is none, for cells of `build`.
    ///
    /// # Errors
    /// [`SweepError::Io`] and [`SweepError::Build`].
    pub fn open(directory: &Path, build: &str) -> Result<Self, SweepError> {
        let cells = Self { directory: directory.to_owned() };
        let made = directory.join("cells");
        fs::create_dir_all(&made).map_err(|source| SweepError::Io { path: made, source })?;
        let path = directory.join("build");
        match fs::read_to_string(&path) {
            Ok(theirs) if theirs.trim() == build => Ok(cells),
            Ok(theirs) => Err(SweepError::Build {
                path: directory.to_owned(),
                theirs: theirs.trim().to_owned(),
                ours: build.to_owned(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write(&path, &format!("{build}\n")).map(|()| cells)
            }
            Err(source) => Err(SweepError::Io { path, source }),
        }
    }

    fn path(&self, hash: &str) -> PathBuf {
        self.directory.join("cells").join(hash)
    }

    /// The outcome of the cell of this hash, if it is there.
    ///
    /// # Errors
    /// [`SweepError::Io`] and [`SweepError::Damaged`].
    pub fn outcome(&self, hash: &str) -> Result<Option<Outcome>, SweepError> {
        let path = self.path(hash);
        let damaged =
            |problem: &str| SweepError::Damaged { path: path.clone(), problem: problem.to_owned() };
        // A pipe or a device would be read without end.
        match fs::metadata(&path) {
            Ok(found) if found.is_file() && found.len() <= LARGEST => {}
            Ok(_) => return Err(damaged("no file of a cell")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(SweepError::Io { path, source }),
        }
        let text =
            fs::read(&path).map_err(|source| SweepError::Io { path: path.clone(), source })?;
        let text = String::from_utf8(text).map_err(|_| damaged("it is not text"))?;
        let mut lines = text.lines();
        let outcome = lines.next().unwrap_or_default();
        // Cells of older versions lack a checksum.
        if lines.next().is_some_and(|checksum| checksum != sha256(outcome)) {
            return Err(damaged("its checksum is another one"));
        }
        serde_json::from_str(outcome).map(Some).map_err(|error| damaged(&error.to_string()))
    }

    /// Keeps the outcome of `job`; it is durable when this returns.
    ///
    /// # Errors
    /// [`SweepError::Io`].
    pub fn keep(&self, job: &Job, outcome: &Outcome) -> Result<(), SweepError> {
        let text = serde_json::to_string(outcome).unwrap_or_default();
        write(&self.path(&job.hash()), &format!("{text}\n{}\n", sha256(&text)))
    }

    /// The outcomes of all cells of `plan`, in their order.
    ///
    /// # Errors
    /// [`SweepError::Io`] and [`SweepError::Damaged`].
    pub fn outcomes(&self, plan: &Plan) -> Result<Vec<Option<Outcome>>, SweepError> {
        plan.jobs().map(|job| self.outcome(&job.hash())).collect()
    }

    /// Takes in the cells of another directory that this one lacks; returns how many.
    ///
    /// # Errors
    /// [`SweepError`].
    pub fn merge(&self, plan: &Plan, other: &Self) -> Result<usize, SweepError> {
        let mut taken = 0;
        for job in plan.jobs() {
            let hash = job.hash();
            if self.outcome(&hash)?.is_none()
                && let Some(outcome) = other.outcome(&hash)?
            {
                self.keep(job, &outcome)?;
                taken += 1;
            }
        }
        Ok(taken)
    }
}

/// Writes a file completely or not at all.
fn write(path: &Path, text: &str) -> Result<(), SweepError> {
    // Two shards may share a directory, so the name of the part is the process's own.
    let part = path.with_extension(format!("part-{}", std::process::id()));
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    });
    written.map_err(|source| {
        let _nothing_left = fs::remove_file(&part);
        SweepError::Io { path: path.to_owned(), source }
    })
}
