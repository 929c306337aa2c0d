//! The parameters of a comparison.

use crate::rank_test::Zeros;
use crate::sample::{CONFIDENCE, Interval};

/// How the two sides were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Design {
    /// Value `i` of one side ran next to value `i` of the other, in random order. What disturbs
    /// both cancels: the design for `convoy compare`.
    #[default]
    Paired,
    /// The sides have nothing in common but the machine: stored runs.
    Unpaired,
}

/// Which values are good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Better {
    /// Times, sizes, costs.
    #[default]
    Lower,
    /// Rates.
    Higher,
}

/// Margins that are tried, from the smallest, where the margin of a question is not shown. They are
/// shares: 0.05 is 5 %.
pub const WIDER: [f64; 4] = [0.02, 0.03, 0.05, 0.1];

/// Parameters of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// How the two sides were measured.
    pub design: Design,
    /// Which values are good.
    pub better: Better,
    /// Level of the tests: the chance to call equal sides different.
    pub alpha: f64,
    /// Relative difference that does not matter: 0.01 is 1 %. Sides are called the same if they
    /// are shown to be closer than this, even if a difference is beyond doubt.
    pub margin: f64,
    /// Where no difference is shown, sides are also called the same within the smallest of
    /// [`WIDER`] up to this that the values show; none of them if it is not above `margin`.
    pub widest: f64,
    /// Confidence of the printed intervals.
    pub confidence: f64,
    /// Kind of the printed intervals of means and ratios.
    pub interval: Interval,
    /// Treatment of zero differences by the signed-rank test.
    pub zeros: Zeros,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            design: Design::default(),
            better: Better::default(),
            alpha: 0.05,
            margin: 0.01,
            widest: 0.0,
            confidence: CONFIDENCE,
            interval: Interval::default(),
            zeros: Zeros::default(),
        }
    }
}
