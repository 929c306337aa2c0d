//! The types that data files hold.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::error::Fault;
use crate::shelf::Shelf;

/// A type that a data file holds.
///
/// The ranges of its numbers are attributes of the fields, as `#[schemars(range(min = 1, max =
/// 10_000))]`; the comments of its fields are its reference.
pub trait Entry: DeserializeOwned + JsonSchema {
    /// Where the shipped files are.
    const SHELF: &'static Shelf;

    /// Reads the value of a file. It calls [`parsed`], and exists because the readers of a type are
    /// then compiled once, in its crate, and not in each that opens files: half a megabyte in all.
    ///
    /// # Errors
    /// [`Fault`] at the key of the first problem.
    fn parse(tree: Json) -> Result<Self, Fault>;

    /// Checks the relations between keys, which ranges cannot express.
    ///
    /// # Errors
    /// [`Fault`], the first one.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Takes the label by which titles call it, see [`Source::label`](crate::Source::label).
    fn set_name(&mut self, _label: String) {}
}

/// Reads a value of any type, as [`Entry::parse`] does.
///
/// # Errors
/// [`Fault`] at the key of the first problem.
pub fn parsed<T: DeserializeOwned>(tree: Json) -> Result<T, Fault> {
    serde_path_to_error::deserialize(tree).map_err(|error| {
        let key = Some(error.path().to_string()).filter(|key| key != ".").unwrap_or_default();
        Fault::new(key, error.into_inner().to_string())
    })
}
