//! What can go wrong with a store; every text names the file and the cure.

use std::path::PathBuf;

/// Errors of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer version of the program wrote the store; it was not touched.
    #[error(
        "{}: this store has schema {found}, this version of convoy knows {known}; use the newer \
         convoy, or another file (CONVOY_STORE or --store)", path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// The file is not a store of this program; it was not modified.
    #[error(
        "{}: not a store of convoy ({reason}); name another file (CONVOY_STORE or --store)",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The store does not exist.
    #[error("{}: there is no store yet; the first run makes it", path.display())]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// The path of the store is not configured.
    #[error(
        "no place for the store of runs: set CONVOY_STORE or HOME, or use --store or --no-store"
    )]
    NoPlace,
    /// The file system refuses.
    #[error(
        "{}: {error}; free space or use another file (CONVOY_STORE or --store)", path.display()
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// Its error.
        error: std::io::Error,
    },
    /// The database refuses.
    #[error(
        "{}: {error}; free space, make it writable or use another file (CONVOY_STORE or --store)",
        path.display()
    )]
    Database {
        /// The database.
        path: PathBuf,
        /// Its error.
        error: rusqlite::Error,
    },
    /// No such record.
    #[error("no stored run {name:?}; `convoy runs list` shows what there is")]
    Unknown {
        /// The number or tag asked for.
        name: String,
    },
    /// A tag that could be mistaken for something else.
    #[error("{tag:?} cannot be a tag: use letters, digits and . _ - + / :, and not only digits")]
    Tag {
        /// The tag.
        tag: String,
    },
    /// A record in the database is damaged.
    #[error(
        "{}: run {id} cannot be read: {error}; remove it with `convoy runs prune --tagged --id \
         {id}`",
        path.display()
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The record.
        id: i64,
        /// What is wrong.
        error: serde_json::Error,
    },
}
