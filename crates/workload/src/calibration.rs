//! The cost of one unit of user-mode work, in nanoseconds, on a named machine.
//!
//! The checked-in calibration is the default, so that a prediction is the same everywhere; `convoy
//! calibrate units` measures this machine. The virtual machine scales the prices to its own speed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::units::UNITS;

/// Command that makes a calibration.
const CURE: &str = "convoy calibrate units";

/// The machine that was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationHost {
    /// CPU model as the kernel reports it.
    pub cpu: String,
    /// CPUs usable.
    pub cpus: u32,
    /// Kernel version, without the distribution's suffix.
    pub kernel: String,
    /// When, in universal time.
    pub date: String,
}

/// Prices of the units of [`UNITS`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Version of this format, 1.
    pub schema: u32,
    /// The machine that was measured.
    pub host: CalibrationHost,
    /// Nanoseconds of one unit, by name.
    pub ns: BTreeMap<String, f64>,
}

/// Why a calibration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The file cannot be read.
    #[error("cannot read the calibration {path}: {source}; make it with: {CURE}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: convoy_catalogue::read::ReadError,
    },
    /// The file is not a calibration.
    #[error("{name} is no calibration: {}; make it again with: {CURE}", problem.replace('\n', " "))]
    Format {
        /// The file, or "the built-in calibration".
        name: String,
        /// The parser's message.
        problem: String,
    },
    /// A unit without a price.
    #[error("the calibration has no unit \"{unit}\"; make it again with: {CURE}")]
    Missing {
        /// The unit.
        unit: String,
    },
    /// A price is not a positive number.
    #[error("the calibration says {ns} ns for unit \"{unit}\"; make it again with: {CURE}")]
    Price {
        /// The unit.
        unit: String,
        /// The value in the file.
        ns: f64,
    },
}

impl Calibration {
    /// The checked-in calibration.
    ///
    /// # Errors
    /// As [`Self::load`]; a test keeps the checked-in file complete.
    pub fn embedded() -> Result<Self, CalibrationError> {
        let text = include_str!("../../../machines/calibration.toml");
        Self::parse("the built-in calibration", text)
    }

    /// The calibration in the file at `path`.
    ///
    /// # Errors
    /// [`CalibrationError`] if it cannot be read, is malformed or lacks a unit.
    pub fn load(path: &Path) -> Result<Self, CalibrationError> {
        let text = convoy_catalogue::read::text(path)
            .map_err(|source| CalibrationError::Read { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The calibration in the file at `path`, which may lack units.
    ///
    /// # Errors
    /// [`CalibrationError`] if it cannot be read or is malformed.
    pub fn load_incomplete(path: &Path) -> Result<Self, CalibrationError> {
        let text = convoy_catalogue::read::text(path)
            .map_err(|source| CalibrationError::Read { path: path.to_owned(), source })?;
        Self::parse_incomplete(&path.display().to_string(), &text)
    }

    fn parse_incomplete(name: &str, text: &str) -> Result<Self, CalibrationError> {
        let calibration: Self = toml::from_str(text).map_err(|error| CalibrationError::Format {
            name: name.to_owned(),
            problem: error.message().to_owned(),
        })?;
        if calibration.schema != 1 {
            return Err(CalibrationError::Format {
                name: name.to_owned(),
                problem: format!("schema {} is not 1", calibration.schema),
            });
        }
        Ok(calibration)
    }

    fn parse(name: &str, text: &str) -> Result<Self, CalibrationError> {
        let calibration = Self::parse_incomplete(name, text)?;
        for unit in UNITS {
            let ns = calibration.ns(unit.name)?;
            if !(ns.is_finite() && ns > 0.0) {
                return Err(CalibrationError::Price { unit: unit.name.to_owned(), ns });
            }
        }
        Ok(calibration)
    }

    /// Nanoseconds of one unit on the machine that was measured.
    ///
    /// # Errors
    /// [`CalibrationError::Missing`] if the unit does not have a price.
    pub fn ns(&self, unit: &str) -> Result<f64, CalibrationError> {
        let price = self.ns.get(unit).copied();
        price.ok_or_else(|| CalibrationError::Missing { unit: unit.to_owned() })
    }

    /// The text of the file, each price with the description of its unit.
    pub fn to_toml(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::from(
            "# Nanoseconds of one unit of user-mode work. Written by `convoy calibrate units`.\n",
        );
        let host = &self.host;
        let _infallible = writeln!(
            text,
            "schema = {}\n\n[host]\ncpu = {:?}\ncpus = {}\nkernel = {:?}\ndate = {:?}\n\n[ns]",
            self.schema, host.cpu, host.cpus, host.kernel, host.date
        );
        for unit in UNITS {
            if let Some(ns) = self.ns.get(unit.name) {
                let _infallible = writeln!(text, "# {}\n{} = {ns:.3}", unit.about, unit.name);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_calibration_prices_exactly_the_units() {
        let calibration = Calibration::embedded().expect("complete");
        let mut expected: Vec<&str> = UNITS.iter().map(|unit| unit.name).collect();
        expected.sort_unstable();
        let priced: Vec<&str> = calibration.ns.keys().map(String::as_str).collect();
        assert_eq!(priced, expected);
        assert!(!calibration.host.cpu.is_empty());
    }

    #[test]
    fn text_round_trips() {
        let calibration = Calibration::embedded().expect("complete");
        let again = Calibration::parse("text", &calibration.to_toml()).expect("valid");
        assert_eq!(again.host, calibration.host);
        assert_eq!(again.ns.len(), calibration.ns.len());
    }

    #[test]
    fn errors_name_the_unit_and_the_command() {
        let mut calibration = Calibration::embedded().expect("complete");
        let error = |calibration: &Calibration| {
            Calibration::parse("c.toml", &calibration.to_toml()).expect_err("wrong").to_string()
        };
        calibration.ns.insert("sieve_pass".into(), 0.0);
        assert!(error(&calibration).contains("sieve_pass"));
        calibration.ns.remove("sieve_pass");
        let text = error(&calibration);
        assert!(text.contains("sieve_pass") && text.contains(CURE), "{text}");
        calibration.schema = 2;
        assert!(error(&calibration).contains("schema 2"));
        let garbage = Calibration::parse("c.toml", "schema = \n[").expect_err("wrong").to_string();
        assert!(garbage.contains("c.toml") && !garbage.contains('\n'), "{garbage}");
        let missing = Calibration::load(Path::new("/nonexistent/c.toml")).expect_err("no file");
        assert!(missing.to_string().contains(CURE));
    }
}
