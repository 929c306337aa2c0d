//! The log of a search: one JSON document per line, each on disk before the search continues.
//!
//! A search is a function of its settings and of the ordered observations. So the log suffices to
//! continue after the process was killed at any point: it is read back, and the observations are
//! replayed.

use super::settings::{Purpose, SCHEMA, Settings};
use crate::MeasureError;
use convoy_os::Disturbance;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// One line of the log. Commits are named by their ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The search begins.
    Begin { settings: Box<Settings>, commits: usize },
    /// Costs of a run and of a build, in one unit, and the smallest difference of the ends that is
    /// a regression, in units of the metric; known once both ends have been measured.
    Costs { run: f64, build: f64, min_effect: f64 },
    /// The search wants these runs next.
    Wish { commit: String, runs: u32, build: Option<u64>, bits: f64, why: String },
    /// Runs of the first bad commit against its parent begin.
    Confirm { commit: String, parent: String },
    /// A work tree is assigned to a commit, which invalidates the build in it.
    Building { commit: String, directory: String },
    /// A commit was built in the work tree `directory`.
    Built { commit: String, build: u64, directory: String, seconds: f64 },
    /// A run returned a value, or was stopped at its limit: then the value is above `value`. Older
    /// logs do not say what disturbed it.
    Run {
        commit: String,
        build: u64,
        purpose: Purpose,
        value: f64,
        above: bool,
        seconds: f64,
        #[serde(default)]
        disturbance: Disturbance,
        time_ms: u64,
    },
    /// A run gave no value and is repeated.
    Failed { commit: String, build: u64, cause: String },
    /// A commit cannot be measured.
    Skip { commit: String, cause: String },
    /// The search has its answer.
    End { first_bad: Option<String>, confidence: f64, runs: u32, builds: u32 },
}

/// The log of a search, open.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// A new log in `state`. An unfinished one is in the way unless `restart`; a finished one is
    /// kept as `previous.jsonl`.
    pub(super) fn create(state: &Path, restart: bool) -> Result<Self, MeasureError> {
        let directory = state.display();
        std::fs::create_dir_all(state).map_err(|error| {
            MeasureError::machine(format!("cannot make {directory}: {error}; give --state DIR"))
        })?;
        let path = Self::path_in(state);
        if path.exists() {
            let (old, events) = Self::open(state)?;
            let finished = matches!(events.last(), None | Some(Event::End { .. }));
            if !finished && !restart {
                return Err(MeasureError::request(format!(
                    "an unfinished search is in {directory}: go on with it (--resume), throw it \
                     away (--restart), or give --state DIR"
                )));
            }
            drop(old);
            std::fs::rename(&path, state.join("previous.jsonl")).map_err(|e| trouble(&path, &e))?;
        }
        let options = OpenOptions::new().read(true).append(true).create_new(true).open(&path);
        let file = options.map_err(|error| trouble(&path, &error))?;
        lock(&file, &path)?;
        Ok(Self { file, path })
    }

    /// Opens the log in `state` and returns it with its events. A last line that was cut off is
    /// removed: nothing was done yet that it speaks of.
    pub(super) fn open(state: &Path) -> Result<(Self, Vec<Event>), MeasureError> {
        let path = Self::path_in(state);
        let name = path.display();
        let opened = OpenOptions::new().read(true).append(true).open(&path);
        let mut file = opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => MeasureError::request(format!(
                "there is no search to go on with in {}; give its --state DIR, or begin one with \
                 --good, --bad and a command",
                state.display()
            )),
            _ => trouble(&path, &error),
        })?;
        lock(&file, &path)?;
        let text = std::fs::read(&path).map_err(|error| trouble(&path, &error))?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(|error| trouble(&path, &error))?;
            file.seek(SeekFrom::End(0)).map_err(|error| trouble(&path, &error))?;
        }
        let mut events = Vec::new();
        for (index, line) in text[..whole].split(|&byte| byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let event = serde_json::from_slice(line).map_err(|error| {
                let line = index + 1;
                MeasureError::request(format!(
                    "{name}:{line}: {error}; correct it or use --restart"
                ))
            })?;
            events.push(event);
        }
        if let Some(Event::Begin { settings, .. }) = events.first()
            && settings.schema > SCHEMA
        {
            return Err(MeasureError::request(format!(
                "{name} is of version {}, and this convoy reads up to {SCHEMA}; use a newer one",
                settings.schema
            )));
        }
        Ok((Self { file, path: path.clone() }, events))
    }

    fn path_in(state: &Path) -> PathBuf {
        state.join("log.jsonl")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `event`; it is on disk when this returns.
    pub(super) fn append(&mut self, event: &Event) -> Result<(), MeasureError> {
        let mut line = serde_json::to_string(event).map_err(MeasureError::machine)?;
        line.push('\n');
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| {
            MeasureError::machine(format!(
                "cannot write {}: {error}; free space, then go on with --resume: no finished run \
                 is lost",
                self.path.display()
            ))
        })
    }
}

fn trouble(path: &Path, error: &std::io::Error) -> MeasureError {
    MeasureError::machine(format!("cannot use {}: {error}; give --state DIR", path.display()))
}

fn lock(file: &File, path: &Path) -> Result<(), MeasureError> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let name = path.display();
        MeasureError::machine(format!("another search uses {name}; wait, or give --state DIR"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(test: &str) -> PathBuf {
        let name = format!("convoy-journal-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _may_not_exist = std::fs::remove_dir_all(&path);
        path
    }

    fn skip(commit: &str) -> Event {
        Event::Skip { commit: commit.to_owned(), cause: "x".to_owned() }
    }

    #[test]
    fn a_line_that_was_cut_off_is_forgotten_and_written_anew() {
        let state = directory("torn");
        let mut journal = Journal::create(&state, false).expect("new");
        journal.append(&skip("a")).expect("written");
        let path = journal.path().to_owned();
        drop(journal);
        let mut file = OpenOptions::new().append(true).open(&path).expect("opens");
        file.write_all(b"{\"event\":\"sk").expect("written");
        drop(file);
        let (mut journal, events) = Journal::open(&state).expect("opens");
        assert_eq!(events, [skip("a")]);
        journal.append(&skip("b")).expect("written");
        drop(journal);
        let (_, events) = Journal::open(&state).expect("opens");
        assert_eq!(events, [skip("a"), skip("b")]);
        std::fs::remove_dir_all(state).expect("removed");
    }

    #[test]
    fn a_run_without_its_disturbance_was_a_quiet_one() {
        let line = "{\"event\":\"run\",\"commit\":\"a\",\"build\":1,\"purpose\":\"search\",\
                    \"value\":2.5,\"above\":false,\"seconds\":1.0,\"time_ms\":7}";
        let event: Event = serde_json::from_str(line).expect("an old line");
        let Event::Run { disturbance, .. } = event else { panic!("{event:?}") };
        assert_eq!(disturbance, Disturbance::default());
    }

    #[test]
    fn an_unfinished_search_is_not_overwritten_and_one_at_a_time_runs() {
        let state = directory("unfinished");
        let mut journal = Journal::create(&state, false).expect("new");
        journal.append(&skip("a")).expect("written");
        assert!(Journal::open(&state).is_err(), "locked");
        drop(journal);
        assert!(Journal::create(&state, false).is_err(), "unfinished");
        let mut journal = Journal::create(&state, true).expect("thrown away");
        let end = Event::End { first_bad: None, confidence: 1.0, runs: 1, builds: 1 };
        journal.append(&end).expect("written");
        drop(journal);
        drop(Journal::create(&state, false).expect("a finished one is kept aside"));
        assert!(state.join("previous.jsonl").exists());
        std::fs::remove_dir_all(state).expect("removed");
    }

    #[test]
    fn a_broken_line_is_named() {
        let state = directory("broken");
        std::fs::create_dir_all(&state).expect("made");
        std::fs::write(state.join("log.jsonl"), "{\"event\":\"skip\"}\n").expect("written");
        let error = Journal::open(&state).expect_err("no commit");
        assert!(format!("{error:?}").contains("log.jsonl:1: missing field"), "{error:?}");
        std::fs::remove_dir_all(state).expect("removed");
    }
}
