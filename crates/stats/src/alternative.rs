//! The alternative hypothesis of a test.

/// The alternative hypothesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternative {
    /// It differs. The p-value is twice the smaller one-sided one, at most 1.
    TwoSided,
    /// It tends to be smaller than the baseline.
    Less,
    /// It tends to be larger than the baseline.
    Greater,
}
