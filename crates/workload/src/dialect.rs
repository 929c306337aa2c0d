//! The original of the jobs: AIM7 1.1 (1996) or re-aim 7.
//!
//! The two programs share names, weights and most of the work, and differ in what some jobs do.
//! `tests/calls.toml` has the calls and bytes of every job of each.
//!
//! | | 1996 | re-aim |
//! |---|---|---|
//! | message jobs | 31 sizes, at most 2 KB | 37 sizes, at most 4 KB |
//! | `shared_memory` | a segment of 2 KB | 64 KB |
//! | `disk_rd` | reads the shared file | first writes a private file |
//! | `disk_cp` | removes the copy's name before it writes | after |
//! | `exec_test` | the script does nothing | the script runs `ls -l` |
//! | `ram_copy` | 64 copies | 100 copies |
//! | arithmetic | 12 dependent operations a loop | what gcc leaves of three values in turn |

use serde::{Deserialize, Serialize};

/// The original of the jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dialect {
    /// AIM7 1.1 of 1996.
    #[default]
    #[serde(rename = "1996")]
    Original,
    /// re-aim 7.
    #[serde(rename = "re-aim")]
    Reaim,
}

impl Dialect {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Original, Self::Reaim];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "1996",
            Self::Reaim => "re-aim",
        }
    }
}

/// No dialect of that name. A usage error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no dialect called \"{0}\"; use 1996 or re-aim")]
pub struct DialectError(String);

impl std::str::FromStr for Dialect {
    type Err = DialectError;

    fn from_str(name: &str) -> Result<Self, DialectError> {
        match name {
            "1996" | "aim7" => Ok(Self::Original),
            "re-aim" | "reaim" => Ok(Self::Reaim),
            _ => Err(DialectError(name.to_owned())),
        }
    }
}
