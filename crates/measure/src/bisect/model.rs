//! Parameters of the statistical model of a search.

use super::git::Commits;
use super::settings::{Direction, Layout, Settings};
use crate::MeasureError;
use convoy_stats::bisect::{Config, Direction as Worse, History, Layout as Shift, Search};

/// The search of `commits`, with costs if they are known.
pub(super) fn search_of(
    settings: &Settings,
    commits: &Commits,
    prior: Option<&Vec<f64>>,
    costs: Option<[f64; 3]>,
) -> Result<Search, MeasureError> {
    let [good, bad] = commits.ends();
    let history = History::dag(&commits.parents, good, bad).map_err(MeasureError::request)?;
    let direction = match settings.direction {
        Direction::Either => Worse::Either,
        Direction::LowerIsBetter => Worse::HigherIsWorse,
        Direction::HigherIsBetter => Worse::LowerIsWorse,
    };
    let layout = match settings.layout {
        Layout::Same => Shift::PerCommit,
        Layout::Shifts => Shift::PerCommitAny,
        Layout::New => Shift::PerBuild,
        Layout::None => Shift::None,
    };
    let mut config = Config {
        confidence: settings.confidence,
        max_runs: settings.max_runs,
        max_builds: settings.max_builds,
        direction,
        layout,
        prior: prior.cloned(),
        ..Config::default()
    };
    if let Some([run, build, min_effect]) = costs {
        config.run_cost = run;
        config.build_cost = build;
        config.min_effect = Some(min_effect);
    }
    Search::new(history, config).map_err(MeasureError::request)
}
