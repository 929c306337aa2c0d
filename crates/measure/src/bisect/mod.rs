//! Which commit changed a measured value?
//!
//! Git says what lies between good and bad ([`Git`]), the mathematics of `convoy-stats` says what
//! to measure next, [`Session`] does it, a journal remembers it. Nothing else has a say, so the
//! journal alone carries a search over a kill.

mod builds;
mod confirm;
mod ends;
mod git;
mod journal;
mod model;
mod outcome;
mod session;
mod settings;
mod simulated;
mod single_run;

use crate::MeasureError;
use journal::Event;
use std::path::{Path, PathBuf};

pub use git::{Commit, Commits, Ends, Git};
pub use journal::Journal;
pub use outcome::Confirmed;
pub use session::{Observed, Progress, Session};
pub use settings::{Direction, Layout, Purpose, Settings, absolute, state_of};
pub use simulated::{Expected, expected};

/// A search before its first run, or where its journal left it.
#[derive(Debug)]
pub struct Plan {
    /// Settings of the search.
    pub settings: Settings,
    /// The commits that it is about.
    pub commits: Commits,
    git: Git,
    state: PathBuf,
    prior: Option<Vec<f64>>,
    events: Vec<Event>,
}

impl Plan {
    /// Starts a new search, with its journal and builds in `state`; fails if there is an unfinished
    /// search unless `restart`.
    pub fn begin(
        git: Git,
        settings: Settings,
        state: &Path,
        restart: bool,
    ) -> Result<(Self, Journal), MeasureError> {
        // What is wrong with the settings is said before anything is written.
        let mut plan = Self::of(git, settings, state)?;
        model::search_of(&plan.settings, &plan.commits, plan.prior.as_ref(), None)?;
        plan.settings.metric()?;
        let mut journal = Journal::create(state, restart)?;
        let commits = plan.commits.list.len();
        let event = Event::Begin { settings: Box::new(plan.settings.clone()), commits };
        journal.append(&event)?;
        plan.events.push(event);
        Ok((plan, journal))
    }

    /// The search that is in `state`.
    pub fn resume(state: &Path) -> Result<(Self, Journal), MeasureError> {
        let (journal, events) = Journal::open(state)?;
        let Some(Event::Begin { settings, .. }) = events.first() else {
            let name = journal.path().display();
            let text = format!("{name} does not begin a search; use --restart");
            return Err(MeasureError::Request(text));
        };
        let settings = settings.as_ref().clone();
        let git = Git::open(Path::new(&settings.repo))?;
        Ok((Self { events, ..Self::of(git, settings, state)? }, journal))
    }

    fn of(git: Git, settings: Settings, state: &Path) -> Result<Self, MeasureError> {
        let commits = git.commits(&settings.ends(), settings.first_parent)?;
        let prior = prior(&git, &settings, &commits)?;
        let state = state.to_owned();
        Ok(Self { settings, commits, git, state, prior, events: Vec::new() })
    }
}

/// Which commits are suspected, and how much: by the paths that they change.
fn prior(
    git: &Git,
    settings: &Settings,
    commits: &Commits,
) -> Result<Option<Vec<f64>>, MeasureError> {
    if settings.path.is_empty() {
        return Ok(None);
    }
    let changing = git.changing(&settings.ends(), settings.first_parent, &settings.path)?;
    if changing.is_empty() {
        return Err(MeasureError::Request(format!(
            "no commit between the ends changes {}; correct --path",
            settings.path.join(" or ")
        )));
    }
    let (weight, rest) = settings.path_weight.map_or((1.0, 0.0), |weight| (weight, 1.0));
    let changing: std::collections::BTreeSet<String> = changing.into_iter().collect();
    let of = |commit: &Commit| if changing.contains(&commit.id) { weight } else { rest };
    Ok(Some(commits.list.iter().map(of).collect()))
}
