//! The store of run records: one `SQLite` file behind an append-only journal.
//!
//! A record is first appended to the journal as one line and made durable; then it is inserted into
//! the database, and only when the database is durable the journal is truncated. A crash at any
//! moment leaves the record in one of the two (or, if it had not been acknowledged, in neither),
//! and the next process that opens the store imports the journal. A lock on the journal serialises
//! writers of several processes.
//!
//! A store that was written by a newer version of this program is refused and not modified.

mod entry;
mod error;
mod journal;
mod schema;
mod store;

pub use entry::{Entry, Host, Stored};
pub use error::StoreError;
pub use schema::VERSION;
pub use store::{Filter, LAST, Store, check_tag};
