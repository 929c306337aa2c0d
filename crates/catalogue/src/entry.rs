//! The types that data files hold.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::error::Fault;
use crate::shelf::Shelf;

/// A type that a data file holds.
///
/// The ranges of its numbers are attributes of the fields, as `#[schemars(range(min = 1, max =
/// 10_000))]`; the comments of its fields are its reference.
pub trait Entry: DeserializeOwned + JsonSchema {
    /// Where the shipped files are.
    const SHELF: &'static Shelf;

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
