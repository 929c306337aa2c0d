//! Mixes by name: the shipped ones, and workfiles.

use convoy_catalogue::{CatalogueError, MIXES, Text};

use crate::mix::Mix;
use crate::workfile::{self, WorkfileError};

/// Errors of loading a mix.
#[derive(Debug, thiserror::Error)]
pub enum MixError {
    /// Neither a shipped mix nor a file that can be read.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The workfile is wrong.
    #[error(transparent)]
    Workfile(#[from] WorkfileError),
}

impl Mix {
    /// The shipped mix of that name, else the workfile at that path.
    ///
    /// # Errors
    /// [`MixError`], a usage error: the text names the cure.
    pub fn load(name_or_path: &str) -> Result<Self, MixError> {
        let Text { text, source } = Text::open(&MIXES, name_or_path)?;
        let mut mix = workfile::parse(name_or_path, &text)?;
        mix.name = source.label();
        mix.source = source;
        Ok(mix)
    }
}
