//! File sizes: how large a user's file is, and which convention says so.
//!
//! A user's file has `FILESIZE + POOLSIZE / users` KB, in whole KB. Two conventions are in use, a
//! factor of about a thousand apart: AIM's workfiles of 1996 set the sizes themselves; in re-aim's
//! copies those lines are comments and every mix runs on 10 KB and a pool of 1 MB.

use serde::{Deserialize, Serialize};

/// File size where nothing says one, KB; re-aim's default.
pub const DEFAULT_FILE_KB: u64 = 10;
/// Pool size where nothing says one, KB; re-aim's default.
pub const DEFAULT_POOL_KB: u64 = 1024;
/// Largest size, KB (1 TB), so that no product overflows.
pub const LARGEST_KB: u64 = 1 << 30;

/// The sizes in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Constant part of a user's file, KB.
    pub file_kb: u64,
    /// Part that all users share among them, KB.
    pub pool_kb: u64,
}

impl Sizes {
    /// re-aim's default: 10 KB and a pool of 1 MB.
    pub const REAIM: Self = Self { file_kb: DEFAULT_FILE_KB, pool_kb: DEFAULT_POOL_KB };

    /// Size of a user's file with `users` users, KB.
    pub fn of_user(self, users: u32) -> u64 {
        self.file_kb + self.pool_kb / u64::from(users.max(1))
    }
}

/// Sizes that a text states, each or neither of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// FILESIZE, KB.
    pub file_kb: Option<u64>,
    /// POOLSIZE, KB.
    pub pool_kb: Option<u64>,
}

impl Stated {
    /// Returns the sizes, with re-aim's defaults for missing ones.
    pub fn or_default(self) -> Sizes {
        Sizes {
            file_kb: self.file_kb.unwrap_or(DEFAULT_FILE_KB),
            pool_kb: self.pool_kb.unwrap_or(DEFAULT_POOL_KB),
        }
    }

    /// What `self` states, else what `other` does.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { file_kb: self.file_kb.or(other.file_kb), pool_kb: self.pool_kb.or(other.pool_kb) }
    }

    /// Whether it states nothing.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Which sizes a mix runs with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Convention {
    /// The active lines of the workfile, with re-aim's defaults for missing ones.
    #[default]
    Workfile,
    /// The sizes of 1996: the live lines, else those that the workfile has as comments.
    Original,
    /// What re-aim uses: 10 KB and 1 MB (for the shipped `aim9`: 5 MB and 1 MB), whatever the
    /// lines say.
    Reaim,
}

impl Convention {
    /// Every convention.
    pub const ALL: [Self; 3] = [Self::Workfile, Self::Original, Self::Reaim];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workfile => "workfile",
            Self::Original => "1996",
            Self::Reaim => "reaim",
        }
    }
}

impl std::str::FromStr for Convention {
    type Err = SizeError;

    fn from_str(name: &str) -> Result<Self, SizeError> {
        let found = Self::ALL.into_iter().find(|convention| convention.name() == name);
        found.ok_or_else(|| SizeError::Convention { name: name.to_owned() })
    }
}

/// Errors of sizes. A usage error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// No number with a unit.
    #[error(
        "\"{text}\" is not a size; write a whole number followed by K, M or G, for example 10K, \
         at most 1T in all"
    )]
    Text {
        /// The given value.
        text: String,
    },
    /// No convention of that name.
    #[error("no sizes called \"{name}\"; use workfile, 1996 or reaim")]
    Convention {
        /// The given value.
        name: String,
    },
    /// The workfile does not state sizes.
    #[error(
        "{mix} states no sizes of 1996; use --sizes reaim, give --filesize and --poolsize, or add \
         FILESIZE: and POOLSIZE: lines"
    )]
    NotStated {
        /// The mix.
        mix: String,
    },
}

/// A size such as `10K`, `1m` or `2G`, in KB.
///
/// # Errors
/// [`SizeError::Text`].
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let wrong = || SizeError::Text { text: text.to_owned() };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let factor = match unit.to_ascii_uppercase() {
        'K' => 1,
        'M' => 1 << 10,
        'G' => 1 << 20,
        _ => return Err(wrong()),
    };
    let number = text[..text.len() - 1].trim();
    // `parse` would take a sign.
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let kb = number.parse::<u64>().ok().filter(|_| digits).and_then(|n| n.checked_mul(factor));
    kb.filter(|kb| *kb <= LARGEST_KB).ok_or_else(wrong)
}

/// Parses a size as re-aim does, in KB; also returns the part that re-aim ignores, after the first
/// letter.
///
/// # Errors
/// [`SizeError::Text`].
pub(crate) fn parse_first(text: &str) -> Result<(u64, &str), SizeError> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit()).filter(|at| *at > 0);
    let end = unit.filter(|at| matches!(text.as_bytes()[*at], b'K' | b'k' | b'M' | b'm'));
    let (size, rest) = end.map_or((text, ""), |at| text.split_at(at + 1));
    Ok((parse(size)?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(parse("10K"), Ok(10));
        assert_eq!(parse("1m"), Ok(1024));
        assert_eq!(parse("2 G"), Ok(2 << 20));
        assert_eq!(parse("0K"), Ok(0));
        for wrong in ["", "K", "10", "+1K", "-1K", "1.5M", "1T", "1025G", "é", "10KB"] {
            let error = parse(wrong).expect_err(wrong).to_string();
            assert!(error.contains("is not a size; write"), "{error}");
        }
    }

    #[test]
    fn re_aim_reads_a_number_and_a_letter() {
        assert_eq!(parse_first("10KB"), Ok((10, "B")));
        assert_eq!(parse_first("2m and more"), Ok((2048, "and more")));
        assert_eq!(parse_first("2 G"), Ok((2 << 20, "")));
        for wrong in ["", "K", "10", "1.5M", "10XB", "é", "1é"] {
            assert!(parse_first(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn conventions_have_names() {
        for convention in Convention::ALL {
            assert_eq!(convention.name().parse(), Ok(convention));
        }
        let error = "1997".parse::<Convention>().expect_err("unknown").to_string();
        assert!(error.contains("workfile, 1996 or reaim"), "{error}");
    }

    #[test]
    fn what_is_not_stated_comes_from_the_next() {
        let live = Stated { file_kb: Some(5), pool_kb: None };
        let comment = Stated { file_kb: Some(7), pool_kb: Some(9) };
        assert_eq!(live.or(comment), Stated { file_kb: Some(5), pool_kb: Some(9) });
        assert_eq!(live.or_default(), Sizes { file_kb: 5, pool_kb: DEFAULT_POOL_KB });
        assert_eq!(Sizes { file_kb: 1024, pool_kb: 10_240 }.of_user(2000), 1024 + 5);
        assert_eq!(Sizes::REAIM.of_user(0), Sizes::REAIM.of_user(1));
    }
}
