//! The store: records in, records out.

use crate::entry::{Entry, Stored};
use crate::error::StoreError;
use crate::schema;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};
use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that a command waits for another command's access to the database.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    writable: bool,
}

/// Which records; the default is all of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this kind.
    pub kind: Option<String>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only those that ended before this time, milliseconds since 1970.
    pub before_ms: Option<i64>,
    /// Only these numbers, if there are any.
    pub ids: Vec<i64>,
    /// Without those that have a tag.
    pub untagged: bool,
    /// Only this many of the newest records.
    pub newest: Option<usize>,
}

/// The name of the newest record of a program; no tag.
pub const LAST: &str = "@last";

impl Store {
    /// Opens the store for writing: creates it (and its directory) if it does not exist, and
    /// migrates an older schema.
    ///
    /// # Errors
    /// A newer or foreign file, which stays untouched; a file system that refuses.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        if let Some(directory) = path.parent().filter(|name| !name.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(|error| StoreError::Io { path: directory.to_owned(), error })?;
        }
        schema::look(&path)?;
        // Command lines are in it: it is for the eyes of its owner, unless they say otherwise.
        let _there_already =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Self { connection: Self::connect(&path, flags)?, path, writable: true };
        // The library opens what cannot be written to read, and says nothing.
        let read_only = store.connection.is_readonly(rusqlite::MAIN_DB);
        if read_only.map_err(|error| store.database(error))? {
            let error = std::io::Error::new(ErrorKind::PermissionDenied, "the file is read-only");
            return Err(StoreError::Io { path: store.path, error });
        }
        let version = schema::inspect(&store.connection, &store.path)?;
        if version < schema::VERSION {
            schema::migrate(&mut store.connection).map_err(|error| store.database(error))?;
        }
        Ok(store)
    }

    /// Opens the store to read. If it is writable, this is [`Self::open`].
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is none; else as [`Self::open`].
    pub fn read(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        if !path.exists() {
            return Err(StoreError::Missing { path });
        }
        match Self::open(&path) {
            Err(StoreError::Io { .. } | StoreError::Database { .. }) => {}
            opened => return opened,
        }
        schema::look(&path)?;
        let connection = Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let version = schema::inspect(&connection, &path)?;
        if version < schema::VERSION {
            let reason = format!("schema {version} must be migrated, and the file is read-only");
            return Err(StoreError::Foreign { path, reason });
        }
        Ok(Self { path, connection, writable: false })
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
        let database = |error| StoreError::Database { path: path.to_owned(), error };
        // No URI: a file may be called `file:x?y`.
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(database)?;
        connection.busy_timeout(PATIENCE).map_err(database)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(database)?;
        // Durable when committed, a power failure included.
        connection.pragma_update(None, "synchronous", "FULL").map_err(database)?;
        Ok(connection)
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether records can be added and changed.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Keeps `entry` and gives its number. It is durable when this returns. An entry with the same
    /// `uid` is replaced: the record of a run grows while it executes.
    ///
    /// # Errors
    /// [`StoreError::Tag`] for a tag with other characters; [`StoreError::Database`] if the record
    /// could not be kept.
    pub fn append(&mut self, entry: &Entry) -> Result<i64, StoreError> {
        for tag in &entry.tags {
            valid_tag(tag)?;
        }
        self.insert(entry).map_err(|error| self.database(error))
    }

    /// Inserts or replaces a record in one transaction, which waits for those of other processes.
    fn insert(&mut self, entry: &Entry) -> rusqlite::Result<i64> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let text = serde_json::to_string(entry).expect("an entry has string keys");
        let update = "UPDATE run SET time_ms = ?2, entry = ?3 WHERE uid = ?1 RETURNING id";
        let values = params![entry.uid, entry.time_ms, text];
        let id = transaction.query_row(update, values, |row| row.get(0)).optional()?;
        let id = if let Some(id) = id {
            id
        } else {
            let insert = "INSERT INTO run (uid, kind, time_ms, entry) VALUES (?1, ?2, ?3, ?4)";
            transaction.execute(insert, params![entry.uid, entry.kind, entry.time_ms, text])?;
            let id = transaction.last_insert_rowid();
            for tag in &entry.tags {
                transaction
                    .execute("INSERT OR IGNORE INTO tag VALUES (?1, ?2)", params![id, tag])?;
            }
            id
        };
        transaction.commit()?;
        Ok(id)
    }

    /// The records that `filter` admits, oldest first, and the damaged ones among them as errors:
    /// one record that cannot be read hides no other.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn list(&self, filter: &Filter) -> Result<(Vec<Stored>, Vec<StoreError>), StoreError> {
        let query = "SELECT id, entry FROM run
            WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR time_ms < ?2)
              AND (?3 IS NULL OR EXISTS (SELECT 1 FROM tag WHERE run = run.id AND name = ?3))
              AND (NOT ?4 OR NOT EXISTS (SELECT 1 FROM tag WHERE run = run.id))
            ORDER BY id DESC";
        let rows = || -> rusqlite::Result<Vec<(i64, String)>> {
            let mut statement = self.connection.prepare(query)?;
            let values = params![filter.kind, filter.before_ms, filter.tag, filter.untagged];
            statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let rows = rows().map_err(|error| self.database(error))?;
        let asked =
            rows.into_iter().filter(|(id, _)| filter.ids.is_empty() || filter.ids.contains(id));
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for (id, text) in asked.take(filter.newest.unwrap_or(usize::MAX)) {
            match self.stored(id, &text) {
                Ok(run) => found.push(run),
                Err(error @ StoreError::Damaged { .. }) => damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        found.reverse();
        Ok((found, damaged))
    }

    fn stored(&self, id: i64, text: &str) -> Result<Stored, StoreError> {
        let parsed = serde_json::from_str::<Entry>(text);
        let path = self.path.clone();
        let mut entry = parsed.map_err(|error| StoreError::Damaged { path, id, error })?;
        let tags = || -> rusqlite::Result<Vec<String>> {
            let query = "SELECT name FROM tag WHERE run = ?1 ORDER BY name";
            let mut statement = self.connection.prepare(query)?;
            statement.query_map([id], |row| row.get(0))?.collect()
        };
        entry.tags = tags().map_err(|error| self.database(error))?;
        Ok(Stored { id, entry })
    }

    /// The record with this number or tag, of several with one tag the newest; [`LAST`] is the
    /// newest record of a program.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] if there is none.
    pub fn find(&self, name: &str) -> Result<Stored, StoreError> {
        let name = name.trim_start_matches('@');
        let query = "SELECT id, entry FROM run WHERE id = ?1
            OR id = (SELECT max(run) FROM tag WHERE name = ?2)
            OR ?2 = 'last' AND id = (SELECT max(id) FROM run WHERE kind = 'record')";
        let number = name.parse::<i64>().unwrap_or(-1);
        let found = self
            .connection
            .query_row(query, params![number, name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(|error| self.database(error))?;
        let Some((id, text)) = found else {
            return Err(StoreError::Unknown { name: name.to_owned() });
        };
        let text: String = text;
        self.stored(id, &text)
    }

    /// Adds a tag to a record, or removes it.
    ///
    /// # Errors
    /// A tag with other characters, an unknown record, a store that cannot be written.
    pub fn tag(&mut self, id: i64, tag: &str, present: bool) -> Result<(), StoreError> {
        valid_tag(tag)?;
        self.find(&id.to_string())?;
        let change = if present {
            "INSERT OR IGNORE INTO tag VALUES (?1, ?2)"
        } else {
            "DELETE FROM tag WHERE run = ?1 AND name = ?2"
        };
        self.connection
            .execute(change, params![id, tag])
            .map(drop)
            .map_err(|error| self.database(error))
    }

    /// Removes the records with these numbers and releases their space. Says how many there were.
    ///
    /// # Errors
    /// A store that cannot be written; then nothing is removed.
    pub fn remove(&mut self, ids: &[i64]) -> Result<usize, StoreError> {
        let path = self.path.clone();
        let work = |connection: &mut Connection| -> rusqlite::Result<usize> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut removed = 0;
            for id in ids {
                removed += transaction.execute("DELETE FROM run WHERE id = ?1", [id])?;
            }
            transaction.commit()?;
            connection.execute_batch("VACUUM")?;
            Ok(removed)
        };
        work(&mut self.connection).map_err(|error| StoreError::Database { path, error })
    }

    fn database(&self, error: rusqlite::Error) -> StoreError {
        StoreError::Database { path: self.path.clone(), error }
    }
}

/// Whether a record can have this name.
///
/// # Errors
/// [`StoreError::Tag`].
pub fn check_tag(tag: &str) -> Result<(), StoreError> {
    valid_tag(tag)
}

/// Tags are words, and never numbers or [`LAST`]: those name records.
fn valid_tag(tag: &str) -> Result<(), StoreError> {
    let good = !tag.is_empty()
        && tag.chars().all(|c| c.is_alphanumeric() || "._-+/:".contains(c))
        && !tag.chars().all(|c| c.is_ascii_digit())
        && format!("@{tag}") != LAST
        && !tag.starts_with('-');
    if good { Ok(()) } else { Err(StoreError::Tag { tag: tag.to_owned() }) }
}
