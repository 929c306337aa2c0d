//! One loader for data files: machines, kernels, mixes and experiments.
//!
//! A name ending in `.toml` is a file; any other name is a shipped file, which is compiled in. A
//! file may be `based_on` another one: tables merge key by key, everything else is replaced. A
//! [`Set`] changes one key on top of that. Every number is checked against the range of its type,
//! and every error is one line with the file and line of the cause, the key, the value found and
//! the values accepted. A loaded value has its source and a hash of its content, so that a title
//! cannot name a shipped preset for a changed one ([`Source`]).
//!
//! `convoy list kernel-keys` prints the keys of a type.

mod entry;
mod error;
mod keys;
mod place;
pub mod read;
mod set;
mod sheet;
mod shelf;
mod source;
pub mod suggest;
mod tree;

pub use entry::{Entry, parsed};
pub use error::{CatalogueError, Fault};
pub use keys::{Key, keys, nanoseconds};
pub use place::Place;
pub use serde_json::Value as Json;
pub use set::Set;
pub use sheet::{Sheet, Text};
pub use shelf::{EXPERIMENTS, KERNELS, MACHINES, MIXES, Shelf, WORKLOADS};
pub use source::{Loaded, Source};

/// Loads the shipped file called `name`, or the file at that path if it ends in `.toml`, and
/// applies the `sets` of its kind.
///
/// # Errors
/// [`CatalogueError`].
pub fn load<T: Entry>(name: &str, sets: &[Set]) -> Result<Loaded<T>, CatalogueError> {
    Sheet::open(T::SHELF, name, None)?.read(sets)
}

/// The file whose content is `text`; `name` is used in errors.
///
/// # Errors
/// [`CatalogueError`].
pub fn parse<T: Entry>(name: &str, text: &str) -> Result<Loaded<T>, CatalogueError> {
    Sheet::of_text(T::SHELF, name, text)?.read(&[])
}
