//! The words of an error: where a value is, and a number as people write it.

use std::fmt;
use std::sync::Arc;

/// Position of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it, or the flag.
    pub(crate) file: Arc<str>,
    /// Line from 1; 0 is the whole file.
    pub(crate) line: usize,
}

impl Place {
    /// All of `file`.
    pub(crate) fn whole(file: &str) -> Self {
        Self { file: file.into(), line: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 { write!(f, ":{}", self.line) } else { Ok(()) }
    }
}

/// A number as people write it: whole numbers without a fraction, tiny and huge ones with an
/// exponent.
pub(crate) fn number(value: f64) -> String {
    let whole = value.fract() == 0.0 && value.abs() < 1e15;
    if whole { format!("{value:.0}") } else { format!("{value:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let written = [0.0, 4.0, 0.5, 1e-300, f64::NAN, 1e12, 1e300].map(number);
        assert_eq!(written, ["0", "4", "0.5", "1e-300", "NaN", "1000000000000", "1e300"]);
    }
}
