//! Where the records of all runs are kept: one `SQLite` file behind an append-only journal.
//!
//! A record is first appended to the journal beside the database as one line and made durable; only
//! then it goes into the database, and only when it is there the journal is cut back. A crash at
//! any moment leaves the record in one of the two (or, if it had not been acknowledged, in none),
//! and whoever opens the store next takes in what the journal holds. Writers of several processes
//! take turns by a lock on the journal.
//!
//! A store that a newer version of this program wrote is refused and not touched.

mod entry;
mod error;
mod journal;
mod schema;
mod store;

pub use entry::{Entry, Host, Stored};
pub use error::StoreError;
pub use schema::VERSION;
pub use store::{Filter, Store, check_tag};
