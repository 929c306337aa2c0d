//! Errors of numbers and parameters.

/// Errors of the statistics. The text names the cure; positions count from 0.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The sample is empty.
    #[error("a sample needs at least one value")]
    Empty,
    /// The value at `index` is NaN or infinite.
    #[error("value {index} is not a finite number; leave it out or measure it again")]
    NotFinite {
        /// Position of the first such value.
        index: usize,
    },
    /// The magnitude of the value at `index` exceeds [`Sample::LARGEST`](crate::Sample::LARGEST).
    #[error("value {index} is larger than 1e150; give it in a larger unit")]
    TooLarge {
        /// Position of the first such value.
        index: usize,
    },
    /// Pairs were asked for, but the two sides have different lengths.
    #[error("{baseline} baseline values cannot be paired with {candidate} candidates")]
    Unpaired {
        /// Values of the baseline.
        baseline: usize,
        /// Values of the candidate.
        candidate: usize,
    },
    /// A ratio was asked for, but the value at `index` is zero or negative.
    #[error("value {index} is not positive, so it has no ratio")]
    NotPositive {
        /// Position of the first such value.
        index: usize,
    },
    /// The method needs more values.
    #[error("{have} values are too few: this needs at least {need}")]
    TooFew {
        /// Values there are.
        have: usize,
        /// Values that are needed.
        need: usize,
    },
    /// The method divides by the spread, and all values are equal.
    #[error("all values are equal, so there is no spread to compare with")]
    NoSpread,
    /// A confidence, level, probability or p-value is outside its range.
    #[error("{name} is {value}, but must lie between 0 and 1")]
    NotAProbability {
        /// The parameter's name.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A parameter must be positive and finite.
    #[error("{name} is {value}, but must be a positive finite number")]
    BadParameter {
        /// The parameter's name.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The result does not fit a floating-point number.
    #[error("the result is too large for a number; give the values in another unit")]
    Overflow,
}

/// `value` if it lies strictly between 0 and 1.
pub(crate) fn open_unit(name: &'static str, value: f64) -> Result<f64, Error> {
    if value > 0.0 && value < 1.0 { Ok(value) } else { Err(Error::NotAProbability { name, value }) }
}

pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, Error> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(Error::BadParameter { name, value })
    }
}

/// `value` if it is a number that can be printed.
pub(crate) fn finite(value: f64) -> Result<f64, Error> {
    if value.is_finite() { Ok(value) } else { Err(Error::Overflow) }
}
