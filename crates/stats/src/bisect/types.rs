//! Inputs and results of a search.

use std::fmt;

/// Prior knowledge and goals of a search.
#[derive(Clone, Debug)]
pub struct Config {
    /// The search ends when one commit is the culprit with this probability.
    pub confidence: f64,
    /// Cost of one run, in any unit.
    pub run_cost: f64,
    /// Cost of one build, in the same unit. If builds are free (0), the search requests many: each
    /// new build helps to distinguish layout from effect.
    pub build_cost: f64,
    /// Stop after this many runs.
    pub max_runs: Option<u32>,
    /// Ask for no further build after this many.
    pub max_builds: Option<u32>,
    /// Which change is looked for.
    pub direction: Direction,
    /// Weights of the commits (one per node; only candidates' weights count); `None`: all equal.
    pub prior: Option<Vec<f64>>,
    /// A difference of the ends below this, in units of the value, is not a regression. `None`: 1 %
    /// of the level of the good end.
    pub min_effect: Option<f64>,
    /// Assumption on the shift of each build.
    pub layout: Layout,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            confidence: 0.99,
            run_cost: 1.0,
            build_cost: 1.0,
            max_runs: None,
            max_builds: None,
            direction: Direction::Either,
            prior: None,
            min_effect: None,
            layout: Layout::PerBuild,
        }
    }
}

/// Which change of the level is a regression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Both, or not known.
    #[default]
    Either,
    /// The bad level is above the good one.
    HigherIsWorse,
    /// The bad level is below the good one.
    LowerIsWorse,
}

/// The shift that a build brings to all its runs (code layout, boot).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// It may exist, its size is learned, and a rebuild draws a new one.
    #[default]
    PerBuild,
    /// It may exist, and a rebuild of a commit brings the same one again: the search asks for no
    /// rebuild. Before a name is returned, commits around the likely one are run if shifts may look
    /// like the step; if they cannot be distinguished the answer is a set. Before any data shifts
    /// have a probability of 0.3.
    PerCommit,
    /// The same, but shifts of any size are expected: more runs around the likely commit.
    PerCommitAny,
    /// It does not exist.
    None,
}

/// Result of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The measured value.
    Value(f64),
    /// The run was stopped (a timeout); its value would have been above this.
    Above(f64),
}

/// What to do next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Run this and report each run by [`observe`](super::Search::observe), or
    /// [`skip`](super::Search::skip) the commit.
    Measure(Measure),
    /// The answer has the wanted confidence.
    Done(Answer),
    /// More runs would not help, or the budget is spent; the answer is the best there is.
    GaveUp(Answer),
}

/// Runs to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The commit.
    pub node: usize,
    /// How many runs.
    pub runs: u32,
    /// The build to run, as named in `observe`; `None`: make a new build, also if one exists.
    pub build: Option<u64>,
    /// Whether a new build is wanted, that is, whether `build` is `None`.
    pub fresh_build: bool,
    /// Expected information about the culprit, in bits.
    pub bits: f64,
    /// One sentence for people.
    pub why: String,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// One commit has the wanted confidence.
    Found,
    /// A set of commits has the wanted confidence, and none that could be measured splits it:
    /// the others cannot be built.
    SkippedRemain,
    /// The ends do not differ, or by less than the smallest effect of interest or the smallest
    /// difference that the remaining runs could find: [`Answer::largest`].
    NoRegression,
    /// The level changes little by little over the whole history, not at one commit.
    Ramp,
    /// There are two steps in one direction: [`Answer::steps`].
    TwoSteps,
    /// There is a step that a later one takes back, wholly or in part: [`Answer::steps`].
    TakenBack,
    /// One commit is left, but the runs are not what any noise that is considered gives, and pairs
    /// of runs of it and its parent do not show a change.
    Unexplained,
    /// Builds shift, or may shift, by so large a part of the change that the remaining runs would
    /// not distinguish the culprit from its neighbours: the observed change may be the shift of one
    /// build.
    BuildsShift,
    /// The ends differ, and against the given direction.
    WrongDirection,
    /// The budget of runs or builds is spent.
    Budget,
    /// Nothing that may still be measured says anything about the culprit.
    Indistinguishable,
    /// An end cannot be measured, so there is nothing to compare with.
    EndSkipped,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Found => "one commit has the wanted confidence",
            Self::SkippedRemain => "the commits that remain cannot be measured apart",
            Self::NoRegression => "good and bad do not differ by what could be found",
            Self::Ramp => "the level changes little by little over the history, not at one commit",
            Self::TwoSteps => "the level changes at two commits, not at one",
            Self::TakenBack => "a change is taken back later, wholly or in part",
            Self::Unexplained => {
                "the runs are like no noise that is considered, and pairs of them show no change"
            }
            Self::BuildsShift => {
                "builds differ by themselves, or may, and such a difference passes for the change"
            }
            Self::WrongDirection => "good and bad differ, but in the other direction",
            Self::Budget => "the budget is spent",
            Self::Indistinguishable => "no further run can distinguish the remaining commits",
            Self::EndSkipped => "the good or the bad end cannot be measured",
        })
    }
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The culprit, if one commit has the wanted confidence.
    pub culprit: Option<usize>,
    /// Probability of the culprit, or of the credible set.
    pub confidence: f64,
    /// The most probable commits with their probabilities, most probable first, as few as have the
    /// wanted confidence together if there is one step. Empty without a regression.
    pub credible_set: Vec<(usize, f64)>,
    /// Probability that the ends do not differ at all.
    pub no_regression: f64,
    /// Probability that the level changes little by little from the good end to the bad one.
    pub ramp: f64,
    /// Probability that builds differ by themselves, if that was asked; 0 otherwise.
    pub builds_shift: f64,
    /// If there are two steps, the commits that may be the first and those that may be the second,
    /// with their probabilities; empty otherwise.
    pub steps: Vec<Vec<(usize, f64)>>,
    /// The means of the ends differ by at most this, in units of the value, with the wanted
    /// confidence and by their own runs.
    pub largest: f64,
    /// Why the search ended.
    pub ending: Ending,
    /// Levels, effect and noise.
    pub estimates: Estimates,
}

/// A posterior mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Posterior mean.
    pub mean: f64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

impl Interval {
    pub(super) fn normal(mean: f64, variance: f64) -> Self {
        let half = 1.96 * variance.max(0.0).sqrt();
        Self { mean, lo: mean - half, hi: mean + half }
    }
}

/// Estimates from the runs so far, except for the culprit, in units of the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimates {
    /// Level of good commits.
    pub good: Interval,
    /// Level of bad commits.
    pub bad: Interval,
    /// Bad level less good level.
    pub effect: Interval,
    /// Scale of the noise of a run: the standard deviation of its Gaussian core.
    pub noise: Interval,
    /// Standard deviation of the shifts of builds.
    pub layout: Interval,
}

/// Why a search cannot be made, or an observation not be taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BisectError {
    /// Nothing lies between good and bad.
    #[error("no commit lies between good and bad: exchange them or choose others")]
    NoCandidates,
    /// A parent is not numbered below its child.
    #[error("commit {node} has parent {parent}: number commits so that parents come first")]
    Order {
        /// The child.
        node: usize,
        /// Its parent.
        parent: usize,
    },
    /// The commit does not exist.
    #[error("there is no commit {node}: they are numbered from 0 to {}", nodes - 1)]
    Node {
        /// The commit asked for.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// A value is not finite.
    #[error("a run of commit {node} gave a value that is not finite: skip it or fix the metric")]
    NotFinite {
        /// The commit with this value.
        node: usize,
    },
    /// A setting is invalid.
    #[error("{name} must be {must}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// The requirement.
        must: &'static str,
    },
    /// One build was reported of two commits.
    #[error("build {build} belongs to commit {node}: give each build a different number")]
    Build {
        /// The build.
        build: u64,
        /// The commit it was reported of first.
        node: usize,
    },
}
