//! Classes of culprits, and beliefs about them.

/// Candidates with the same measured commits bad.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// Nodes, in order.
    pub(super) members: Vec<usize>,
    /// Prior probability.
    pub(super) mass: f64,
    /// For each measured commit, whether it is bad.
    pub(super) bad: Vec<bool>,
}

/// The parameters under one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Belief {
    /// Posterior probability of the class.
    pub(super) p: f64,
    /// Posterior means and variances of the good and of the bad level.
    pub(super) mean: [f64; 2],
    pub(super) variance: [f64; 2],
    /// Expected variance of one run, and of the shifts of builds.
    pub(super) noise: f64,
    pub(super) layout: f64,
}

/// Evidence if builds may shift by any size.
#[derive(Clone, Debug, Default)]
pub(super) struct Shifted {
    /// Probability of each class, if there is one step.
    pub(super) classes: Vec<f64>,
    /// What each size says, joint: all of all sizes sum to 1, with a ramp and one level.
    pub(super) sizes: Vec<OfSize>,
    /// At most how probable it is that runs which are left bring a name, if it is sure that builds
    /// shift.
    pub(super) in_sight: Option<f64>,
}

/// Evidence of shifts of one size.
#[derive(Clone, Debug)]
pub(super) struct OfSize {
    /// In standard deviations of a run.
    pub(super) size: f64,
    /// Probability of a step in each class, joint with the size, and the levels and the noise.
    pub(super) steps: Vec<Belief>,
    /// Probability of a ramp or of no change, joint with the size.
    pub(super) others: f64,
}

impl Shifted {
    /// Probability that builds shift, whatever the shape of the history.
    pub(super) fn any(&self) -> f64 {
        let of = |size: &OfSize| size.others + size.steps.iter().map(|step| step.p).sum::<f64>();
        // Nothing summed is -0.0.
        self.sizes.iter().filter(|size| size.size > 0.0).map(of).fold(0.0, |sum, p| sum + p)
    }
}

/// Probability before any data that the ends do not differ.
pub(super) const NONE: f64 = 0.1;

/// `exp(x)` for `x <= 0`, within 1e-11. Unlike the library's it is branchless arithmetic, which the
/// compiler vectorises, and it returns the same bits everywhere.
#[inline]
pub(super) fn exp_negative(x: f64) -> f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let x = x.max(-700.0);
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * std::f64::consts::LN_2;
    let mut poly = 1.0 / 362_880.0;
    for divisor in [40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        poly = poly * r + 1.0 / divisor;
    }
    f64::from_bits(poly.to_bits().wrapping_add(shifted.to_bits() << 52))
}
