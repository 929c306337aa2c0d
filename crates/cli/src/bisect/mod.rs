//! `convoy bisect`: which commit changed a measured value?

mod args;
mod dry_run;
mod live;
mod report;
mod settings;

pub(crate) use args::Bisect;

use crate::fail::{FINDING, Failure};
use crate::output;
use convoy_measure::bisect::{Git, Journal, Plan, Session, absolute, state_of};
use convoy_os::Interrupts;
use convoy_report::BisectVerdict;
use live::Live;
use std::process::ExitCode;

pub(crate) fn run(args: &Bisect) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref(), false)?;
    if args.dry_run {
        return dry_run::run(args);
    }
    let interrupts = Interrupts::catch();
    let (mut plan, journal) = begin(args)?;
    // A continued search may have a larger budget; all other settings stay.
    plan.settings.max_runs = args.max_runs.or(plan.settings.max_runs);
    plan.settings.max_builds = args.max_builds.or(plan.settings.max_builds);
    announce(args, &plan);
    let mut live = Live::new(&args.common);
    let mut progress = |progress: convoy_measure::bisect::Progress<'_>| live.take(progress);
    let mut session = Session::new(&plan, journal, &interrupts, &mut progress)?;
    let answer = session.run();
    // However it ended: the work trees go, the log stays.
    session.clean();
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if interrupts.pending() => {
            drop(session);
            return Err(Failure::environment(live.with_latest(&error.to_string())));
        }
        Err(error) => return Err(error.into()),
    };
    let report = report::report(&mut session, &answer);
    if let Some(path) = &args.plot {
        output::plot(&args.common, path, &report.to_svg(), None)?;
    }
    output::print(&args.common, || report.to_text(), || report.to_json(), || report.to_csv())?;
    let record = serde_json::to_value(&report).map_err(Failure::environment)?;
    args.store.keep(&args.common, "bisect", Some(plan.settings.seed), record);
    Ok(match report.verdict {
        BisectVerdict::Found
        | BisectVerdict::Set
        | BisectVerdict::Ramp
        | BisectVerdict::TwoSteps
        | BisectVerdict::FixedAgain => ExitCode::from(FINDING),
        BisectVerdict::NoRegression | BisectVerdict::Improvement => ExitCode::SUCCESS,
    })
}

/// A new search, or the continued one.
fn begin(args: &Bisect) -> Result<(Plan, Journal), Failure> {
    let state = |git: &Git| -> Result<_, Failure> {
        let state = args.state.clone().map_or_else(|| state_of(git), Ok)?;
        Ok(absolute(&state)?)
    };
    let here = Git::open(&args.repo);
    if args.resume {
        // The log names its repository, so that only its place must be known.
        return Ok(Plan::resume(&match &args.state {
            Some(state) => absolute(state)?,
            None => state(&here?)?,
        })?);
    }
    let git = here?;
    let settings = settings::of(args, &git)?;
    let state = state(&git)?;
    Ok(Plan::begin(git, settings, &state, args.restart)?)
}

fn announce(args: &Bisect, plan: &Plan) {
    if let Some(note) = &plan.settings.note {
        output::message(&args.common, note);
    }
    let commits = &plan.commits;
    let [good, bad] = commits.ends().map(|end| commits.list[end].short());
    let candidates = commits.list.len() - 1;
    output::message(
        &args.common,
        &format!("commits after {good} up to {bad}: {candidates}; the ends come first"),
    );
}
