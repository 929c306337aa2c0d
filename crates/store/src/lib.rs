//! The store of run records: one `SQLite` file.
//!
//! A record is inserted in one transaction, which is durable when its number is returned. A crash
//! before that moment leaves nothing of it. Transactions of several processes wait for each other.
//!
//! A store that was written by a newer version of this program is refused and not modified.

mod entry;
mod error;
mod schema;
mod store;

pub use entry::{Entry, Host, Stored};
pub use error::StoreError;
pub use schema::VERSION;
pub use store::{Filter, LAST, Store, check_tag};
