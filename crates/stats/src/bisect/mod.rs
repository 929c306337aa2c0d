//! Bisection of a history by noisy measurements: which commit changed the level?
//!
//! Every run's value is evidence, not a pass or a failure. The search holds a posterior over the
//! candidates with everything else unknown: both levels, the size and shape of the noise, outliers,
//! and the shift that each build brings by its layout. It asks for the run that says most about the
//! culprit per cost. `results/bisect.md` has its bounds and its measured errors.
//!
//! ```
//! use convoy_stats::bisect::{Config, History, Outcome, Search, Step};
//!
//! let culprit = 37;
//! let mut search = Search::new(History::linear(100).unwrap(), Config::default()).unwrap();
//! let answer = loop {
//!     match search.next_step() {
//!         Step::Measure(wish) => {
//!             // A command would be run here; node number and build tell values apart.
//!             let level = if wish.node >= culprit { 13.0 } else { 12.0 };
//!             for run in 0..wish.runs {
//!                 let noise = f64::from((search.runs() * 7 + run) % 5) * 0.01;
//!                 let build = wish.build.unwrap_or(u64::from(search.runs()));
//!                 search.observe(wish.node, build, Outcome::Value(level + noise)).unwrap();
//!             }
//!         }
//!         Step::Done(answer) | Step::GaveUp(answer) => break answer,
//!     }
//! };
//! assert_eq!(answer.culprit, Some(culprit));
//! ```
//!
//! The only state of the search is the sequence of its calls to [`Search::observe`] and
//! [`Search::skip`]: to resume, make a new search and repeat them. It draws no random numbers.
//!
//! ## Model
//!
//! A commit is bad if it is the culprit or has it among its ancestors. The posterior is the mean of
//! two models of the same runs.
//!
//! The first (`grid.rs`, `modes.rs`) takes runs for independent, `level + noise`, and sums over:
//!
//! | unknown | before any data |
//! |---|---|
//! | culprit | the given weights, or equal |
//! | no difference at all | probability 0.1 |
//! | good level | flat |
//! | effect, in noise scales | density `1/4 (1 + abs d)^-1.5`; one sign only if the direction is given |
//! | noise scale | flat in its logarithm |
//! | noise shape | almost Gaussian 0.25, Gaussian with 10 % outliers 0.4, Student t with 3 degrees 0.2, two modes 0.15 |
//! | share of the upper mode | 0.1, 0.3, 0.5, 0.7 or 0.9, equally probable |
//!
//! A run that was stopped counts by its survival probability. The second (`memory.rs`) is a
//! Gaussian linear model with several covariances: none (0.7 before any data), a state of the
//! machine that keeps 0.5, 0.9 or 0.99 from run to run (0.15 together), a steady drift (0.05), a
//! shift of each build with 0.2 or 0.6 of the variance (0.1 together). The first model has half the
//! weight, times the probability that the second gives to no covariance.
//!
//! ## A name
//!
//! Before a commit is named, it and each of its parents have been run four times, in turn. A name
//! takes half of the permitted doubt; the other half covers noise that neither model expects. The
//! runs are compared with the predictions of the model (`residuals.rs`); if they differ, a name
//! needs pairs of adjacent new runs whose signed ranks show the change, at 12, 24, 48 or 96 pairs.
//! If each commit has one build, the posterior is computed again for builds that shift
//! (`shifts.rs`), and neighbouring commits are run until shifts cannot explain the step, or until
//! no name is possible (`futility.rs`); the answer is then a set. Two steps (`several.rs`), a ramp
//! and a reverted change have 0.02 each before any data, and end the search when they are placed.
//!
//! ## The next run
//!
//! It has the most expected information about the culprit per cost (`policy.rs`), averaged over
//! builds that shift and builds that do not, each with its probability. While "no difference" has
//! more than 0.2, the ends are measured first. The search also ends when only skipped commits could
//! split the set, when the interval of the ends' difference lies within the smallest effect, when
//! the remaining difference could not be found with the remaining runs, or when the budget is
//! spent.

mod answer;
mod belief;
mod check;
mod evidence;
mod futility;
mod grid;
mod history;
mod memory;
mod modes;
mod noise;
mod placing;
mod policy;
mod residuals;
mod search;
mod several;
mod shift_runs;
mod shifts;
mod steps;
mod types;

pub use history::History;
pub use search::Search;
pub use types::{
    Answer, BisectError, Config, Direction, Ending, Estimates, Interval, Layout, Measure, Outcome,
    Step,
};
