//! Bisection of a history by noisy measurements: which commit changed the level?
//!
//! Every run's value is evidence, not a pass or a failure. The search holds a posterior over the
//! candidates with everything else unknown: both levels, the size and shape of the noise, outliers,
//! and the shift that each build brings by its layout. It asks for the run that says most about the
//! culprit per cost. `docs/bisect-model.md` states the model and its bounds, `results/bisect.md`
//! has its measured errors.
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
    Answer, BisectError, Config, Direction, Ending, Estimates, Interval, Known, Layout, Measure,
    Outcome, Step, Tails,
};
