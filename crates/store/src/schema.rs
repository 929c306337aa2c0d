//! The schema of the database and how older ones become the present one.

use crate::error::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

/// Marks the file as ours (`PRAGMA application_id`): "Cnvy".
const APPLICATION: i64 = 0x436e_7679;

/// The steps from one schema to the next; step `i` leads from schema `i` to `i + 1`. Steps are
/// added, never changed.
const STEPS: &[&str] = &[
    "CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        uid TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        time_ms INTEGER NOT NULL,
        entry TEXT NOT NULL
    ) STRICT;
    CREATE INDEX run_by_time ON run (time_ms);",
    "CREATE TABLE tag (
        run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        PRIMARY KEY (run, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tag_by_name ON tag (name);
    INSERT OR IGNORE INTO tag SELECT run.id, json_each.value
        FROM run, json_each(run.entry, '$.tags');",
];

/// The newest schema this program knows.
pub const VERSION: i64 = STEPS.len() as i64;

/// Bytes of a database that hold its version and the program it belongs to.
const HEADER: u64 = 72;

/// Checks the first bytes of the file before the database library can modify it: the library would
/// roll back a transaction that a crash left open.
pub(crate) fn look(path: &Path) -> Result<(), StoreError> {
    // One open and one read decide: another process may create the database between two looks.
    let mut header = Vec::new();
    match File::open(path).and_then(|file| file.take(HEADER).read_to_end(&mut header)) {
        // No content yet: a new store.
        Ok(0) => return Ok(()),
        Ok(_) => header.resize(HEADER as usize, 0),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::Io { path: path.to_owned(), error }),
    }
    if !header.starts_with(b"SQLite format 3\0") {
        let reason = "no SQLite database".to_owned();
        return Err(StoreError::Foreign { path: path.to_owned(), reason });
    }
    // The places of the two numbers are part of the file format: sqlite.org/fileformat2.html.
    let number = |at: usize| {
        i64::from(u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes")))
    };
    let (version, application) = (number(60), number(68));
    if application == APPLICATION && version > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: VERSION });
    }
    Ok(())
}

/// Checks the kind and version of the database without modifying it.
pub(crate) fn inspect(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let pragma = |name: &str| -> rusqlite::Result<i64> {
        connection.pragma_query_value(None, name, |row| row.get(0))
    };
    let foreign = |reason: String| StoreError::Foreign { path: path.to_owned(), reason };
    let read = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => foreign("no SQLite database".to_owned()),
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => foreign("a damaged database".to_owned()),
        _ => StoreError::Database { path: path.to_owned(), error },
    };
    // One transaction, so that all three come from before or from after another's migration.
    let transaction = connection.unchecked_transaction().map_err(read)?;
    let version = pragma("user_version").map_err(read)?;
    let application = pragma("application_id").map_err(read)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(read)?;
    transaction.finish().map_err(read)?;
    if application != APPLICATION && (tables > 0 || version > 0 || application != 0) {
        return Err(foreign("a database of another program".to_owned()));
    }
    if version > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: VERSION });
    }
    Ok(version)
}

/// Brings the database to the present schema in one transaction.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in &STEPS[version.clamp(0, VERSION) as usize..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_the_first_schema_keeps_its_records_and_gets_their_tags() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(STEPS[0]).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        connection.pragma_update(None, "application_id", APPLICATION).unwrap();
        let insert = "INSERT INTO run (uid, kind, time_ms, entry) VALUES ('a', 'run', 5, ?1)";
        connection.execute(insert, [r#"{"tags": ["before", "good"]}"#]).unwrap();
        assert_eq!(inspect(&connection, Path::new("x")).unwrap(), 1);
        migrate(&mut connection).unwrap();
        assert_eq!(inspect(&connection, Path::new("x")).unwrap(), VERSION);
        let tags: i64 = connection
            .query_row("SELECT count(*) FROM tag WHERE run = 1", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tags, 2);
        migrate(&mut connection).unwrap();
    }
}
