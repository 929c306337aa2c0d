//! `convoy bisect`: which commit changed a measured value?
//!
//! Git says what lies between good and bad ([`git`]), the mathematics of `convoy-stats` says what
//! to measure next, [`session`] does it, [`journal`] remembers it. Nothing else has a say, so the
//! log alone carries a search over a kill.

mod args;
mod builds;
mod confirm;
mod dry_run;
mod ends;
mod git;
mod journal;
mod live;
mod outcome;
mod session;
mod settings;
mod single_run;

pub(crate) use args::Bisect;

use crate::fail::{FINDING, Failure};
use crate::measure::{MetricArgs, Program};
use crate::output;
use convoy_host::Interrupts;
use convoy_report::BisectVerdict;
use git::{Commits, Ends, Git};
use journal::{Event, Journal, Settings};
use live::Live;
use session::{Parts, Session};
use single_run::Runner;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The command.
pub(crate) fn run(args: &Bisect) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    output::ready(args.plot.as_deref())?;
    if args.dry_run {
        return dry_run::run(args);
    }
    let interrupts = Interrupts::catch();
    let (git, journal, events, state) = begin(args)?;
    let Some(Event::Begin { settings, .. }) = events.first() else {
        let name = journal.path().display();
        return Err(Failure::usage(format!("{name} does not begin a search; use --restart")));
    };
    let mut settings = settings.as_ref().clone();
    // A budget may be raised when a search goes on; all else stays as it was.
    settings.max_runs = args.max_runs.or(settings.max_runs);
    settings.max_builds = args.max_builds.or(settings.max_builds);
    let ends = settings.ends();
    let commits = git.commits(&ends, settings.first_parent)?;
    announce(args, &settings, &commits);
    let parts = Parts {
        settings: &settings,
        commits: &commits,
        prior: prior(&git, &ends, &settings, &commits)?,
        git,
        state: state.clone(),
        runner: runner(&settings, &state)?,
        interrupts: &interrupts,
        live: Live::new(&args.common),
    };
    let mut session = Session::new(parts, journal, &events)?;
    let answer = session.run();
    // However it ended: the work trees go, the log stays.
    session.builds.clean();
    let report = session.report(&answer?);
    if let Some(path) = &args.plot {
        output::file(path, &report.to_svg())?;
    }
    output::print(&args.common, || report.to_text(), || report.to_json(), || report.to_csv())?;
    let record = serde_json::to_value(&report).map_err(Failure::environment)?;
    args.store.keep(&args.common, "bisect", Some(settings.seed), record);
    Ok(match report.verdict {
        BisectVerdict::Found | BisectVerdict::Set => ExitCode::from(FINDING),
        BisectVerdict::NoRegression | BisectVerdict::Improvement => ExitCode::SUCCESS,
    })
}

/// The log of a new search or of the one that goes on, with what it holds.
fn begin(args: &Bisect) -> Result<(Git, Journal, Vec<Event>, std::path::PathBuf), Failure> {
    let here = Git::open(&args.repo);
    if args.resume {
        let state = match &args.state {
            Some(state) => state.clone(),
            None => settings::state_of(&here?)?,
        };
        let state = settings::absolute(&state)?;
        let (journal, events) = Journal::open(&state)?;
        let repo = match events.first() {
            Some(Event::Begin { settings, .. }) => settings.repo.clone(),
            _ => args.repo.to_string_lossy().into_owned(),
        };
        return Ok((Git::open(Path::new(&repo))?, journal, events, state));
    }
    let git = here?;
    let settings = settings::of(args, &git)?;
    let commits = git.commits(&settings.ends(), settings.first_parent)?;
    // What is wrong with the settings is said before anything is written.
    let prior = prior(&git, &settings.ends(), &settings, &commits)?;
    session::search_of(&settings, &commits, prior.as_ref(), None)?;
    metric_of(&settings)?;
    let state = match &args.state {
        Some(state) => state.clone(),
        None => settings::state_of(&git)?,
    };
    let state = settings::absolute(&state)?;
    let mut journal = Journal::create(&state, args.restart)?;
    let commits = commits.list.len();
    let event = Event::Begin { settings: Box::new(settings), commits };
    journal.append(&event)?;
    Ok((git, journal, vec![event], state))
}

fn announce(args: &Bisect, settings: &Settings, commits: &Commits) {
    if let Some(note) = &settings.note {
        output::message(&args.common, note);
    }
    let [good, bad] = commits.ends().map(|end| commits.list[end].short());
    let candidates = commits.list.len() - 1;
    output::message(
        &args.common,
        &format!("commits after {good} up to {bad}: {candidates}; the ends come first"),
    );
}

/// Which commits are suspected, and how much: by the paths that they change.
fn prior(
    git: &Git,
    ends: &Ends,
    settings: &Settings,
    commits: &Commits,
) -> Result<Option<Vec<f64>>, Failure> {
    if settings.path.is_empty() {
        return Ok(None);
    }
    let changing = git.changing(ends, settings.first_parent, &settings.path)?;
    if changing.is_empty() {
        return Err(Failure::usage(format!(
            "no commit between the ends changes {}; correct --path",
            settings.path.join(" or ")
        )));
    }
    let (weight, rest) = settings.path_weight.map_or((1.0, 0.0), |weight| (weight, 1.0));
    let changing: std::collections::BTreeSet<String> = changing.into_iter().collect();
    let of = |commit: &git::Commit| if changing.contains(&commit.id) { weight } else { rest };
    Ok(Some(commits.list.iter().map(of).collect()))
}

fn metric_of(settings: &Settings) -> Result<crate::measure::Metric, Failure> {
    let args = MetricArgs {
        metric: clap::ValueEnum::from_str(&settings.metric, true).map_err(Failure::usage)?,
        metric_regex: settings.metric_regex.clone(),
        metric_json: settings.metric_json.clone(),
        unit: settings.unit.clone(),
    };
    args.metric().map_err(Failure::usage)
}

fn runner(settings: &Settings, state: &Path) -> Result<Runner, Failure> {
    let words: Vec<_> = settings.command.iter().map(Into::into).collect();
    let mut program = Program::given(&words);
    program.limit = settings.timeout.map(Duration::from_secs_f64);
    program.cpus.clone_from(&settings.cpus);
    program.marker = Some(state.join("running"));
    Ok(Runner { program, metric: metric_of(settings)?, seed: settings.seed })
}
