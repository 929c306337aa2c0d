//! Reading a record.

use crate::{Record, RecordError, VERSION};

impl Record {
    /// Reads a record from its JSON.
    ///
    /// # Errors
    /// JSON that is none, is cut off, or is of a newer version; `path` is named.
    pub fn parse(text: &str, path: &std::path::Path) -> Result<Self, RecordError> {
        let refused = |error: serde_json::Error| RecordError::NoRecord {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let record: Self = serde_json::from_str(text).map_err(refused)?;
        match record.recorded {
            found if found > VERSION => Err(RecordError::Version { found }),
            _ => Ok(record),
        }
    }
}
