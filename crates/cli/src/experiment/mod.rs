//! `convoy reproduce` and `convoy sweep`: experiments, from their file to their report.

mod args;
mod into;
mod measure;
mod reproduce;
mod sweep;

use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use convoy_catalogue::{EXPERIMENTS, Set, Sheet};
use convoy_host::Interrupts;
use convoy_lab::experiment::{Changes, Experiment, Plan, Setting, Size, given};
use convoy_lab::figures::metric;
use convoy_lab::job::{JobError, Outcome};
use convoy_lab::pool::{Answer, LOOK, News, Results, Watch};
use convoy_report::ExperimentReport;
use std::fmt::Display;
use std::path::Path;
use std::sync::mpsc;

pub(crate) use args::{Reproduce, SweepArgs, Which};
pub(crate) use reproduce::{Files, carry_out, run as reproduce, run_all};
pub(crate) use sweep::run as sweep;

/// Environment variable with the number of simulations at a time, where no flag says it.
const THREADS: &str = "CONVOY_THREADS";

impl Which {
    fn size(&self) -> Size {
        match (self.quick, self.full) {
            (true, _) => Size::Quick,
            (_, true) => Size::Full,
            _ => Size::Usual,
        }
    }

    /// What is asked for beside the file.
    fn changes(&self) -> Changes {
        let mut changes = Changes {
            only: self.only.clone(),
            size: self.size(),
            scale: self.scale,
            seeds: self.seeds,
            seed: self.seed,
            ..Changes::default()
        };
        if let Some(machine) = &self.machine {
            changes.settings.insert("machine".to_owned(), Setting::Text(given(machine)));
        }
        if !self.kernel.is_empty() {
            let kernels = self.kernel.iter().map(|kernel| given(kernel)).collect();
            changes.points.insert("kernel".to_owned(), kernels);
        }
        for set in self.sets.iter().filter(|set| set.kind != EXPERIMENTS.kind) {
            changes.set(set);
        }
        changes
    }

    /// The cells.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let sets: Vec<Set> = self.sets.iter().cloned().collect();
        plan(&self.experiment, &sets, &self.changes())
    }
}

/// The cells of an experiment.
pub(crate) fn plan(name: &str, sets: &[Set], changes: &Changes) -> Result<Plan, Failure> {
    let sheet = Sheet::open(&EXPERIMENTS, name, None).map_err(Failure::usage)?;
    let experiment = sheet.read::<Experiment>(sets).map_err(Failure::usage)?;
    Plan::new(&experiment, changes).map_err(Failure::usage)
}

/// How many simulations run at a time.
pub(crate) fn threads(asked: Option<u16>) -> Result<usize, Failure> {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let default = match std::env::var(THREADS) {
        Ok(text) => text.parse().ok().filter(|&threads| threads > 0).ok_or_else(|| {
            Failure::usage(format!("{THREADS}={text} is no count of threads; unset it or give one"))
        })?,
        Err(_) => available,
    };
    Ok(asked.map_or(default, usize::from))
}

/// What running some cells gave.
pub(crate) struct Done<T> {
    /// One for each cell, in their order; `None` where an interrupt came first or it failed.
    pub(crate) outcomes: Vec<Option<T>>,
    /// Whether an interrupt came.
    pub(crate) interrupted: bool,
    /// Why cells have no outcome.
    pub(crate) failures: Vec<JobError>,
}

/// What a person hears of an outcome.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// A line that stays.
    pub(crate) line: Option<String>,
    /// The latest result, shown with the progress.
    pub(crate) latest: Option<String>,
}

impl Told {
    /// The main metric of a cell of a plan.
    pub(crate) fn of(plan: &Plan, index: usize, outcome: &Outcome) -> Self {
        let latest = || {
            let (grid, point) = plan.cell(index)?;
            let compared = grid.grid.compare.iter().map(|compare| compare.metric.as_str());
            let named = grid.grid.metrics.iter().map(String::as_str);
            let usual = grid.grid.target.metrics().iter().copied();
            let found = |key| Some((metric(key)?, outcome.metric(key)?));
            let (metric, value) = compared.chain(named).chain(usual).find_map(found)?;
            let (labels, places) = (grid.labels(point).join(", "), metric.decimals);
            Some(format!("{labels}: {} {value:.places$} {}", metric.title, metric.head))
        };
        Self { line: None, latest: latest() }
    }
}

/// Runs `count` cells by `start`. `keep` receives each outcome as soon as it is there; it returns
/// text to print, or ends the run by a failure of its own.
pub(crate) fn execute<T>(
    common: &Common,
    what: &str,
    count: usize,
    start: impl FnOnce(&mut Watch<T>) -> Results<T>,
    mut keep: impl FnMut(usize, &T) -> Result<Told, Failure>,
) -> Result<Done<T>, Failure> {
    let interrupts = Interrupts::catch();
    let bar = output::progress(common, count as u64);
    bar.set_message(what.to_owned());
    let (mut interrupted, mut stopped) = (false, None);
    let results = start(&mut |news| {
        if let News::Done(index, result) = news {
            bar.inc(1);
            match result.as_ref().map(|outcome| keep(index, outcome)) {
                Ok(Ok(Told { line, latest })) => {
                    if let Some(line) = line {
                        bar.suspend(|| output::message(common, &line));
                    }
                    if let Some(latest) = latest {
                        bar.set_message(latest);
                    }
                }
                Ok(Err(failure)) => {
                    stopped = Some(failure);
                    return Answer::Stop;
                }
                Err(_) => {}
            }
        }
        interrupted |= interrupts.pending();
        if interrupted { Answer::Stop } else { Answer::Continue }
    });
    bar.finish_and_clear();
    if let Some(failure) = stopped {
        return Err(failure);
    }
    let mut done = Done { outcomes: Vec::new(), interrupted, failures: Vec::new() };
    for result in results {
        match result {
            Some(Ok(outcome)) => done.outcomes.push(Some(outcome)),
            Some(Err(error)) => {
                done.failures.push(error);
                done.outcomes.push(None);
            }
            None => done.outcomes.push(None),
        }
    }
    let finished = done.outcomes.iter().flatten().count() + done.failures.len();
    if !interrupted && finished < count {
        return Err(Failure::environment("a simulation ended without a result; see above"));
    }
    Ok(done)
}

/// Runs `work` on a thread of its own, so that an interrupt ends the command at once: `None`.
pub(crate) fn apart<T: Send + 'static, E: Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<Option<T>, Failure> {
    let interrupts = Interrupts::catch();
    let (sender, receiver) = mpsc::channel();
    // Detached: an interrupt does not wait for it. That nobody waits for the result any more is no
    // failure.
    let started = std::thread::Builder::new().spawn(move || sender.send(work()).is_ok());
    started.map_err(|error| {
        Failure::environment(format!("cannot start a thread: {error}; see ulimit -u, ulimit -v"))
    })?;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(result) => return result.map(Some).map_err(Failure::environment),
            Err(mpsc::RecvTimeoutError::Timeout) if interrupts.pending() => {
                return Ok(None);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let text = "a simulation ended without a result; see above";
                return Err(Failure::environment(text));
            }
        }
    }
}

/// Refuses a plot that could not be drawn, before anything is run.
fn can_draw(plan: &Plan, path: Option<&Path>) -> Result<(), Failure> {
    if path.is_none() || ExperimentReport::can_draw(plan) {
        return Ok(());
    }
    let name = &plan.name;
    Err(Failure::usage(format!(
        "--plot: {name} has nothing to draw over; give several values, such as --threads 2,8,32, \
         or leave it out"
    )))
}

/// Writes the plot of a report, if one is asked for.
fn plot(common: &Common, report: &ExperimentReport, path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let Some(plot) = report.plot() else {
        return Err(Failure::usage("--plot: this experiment has no plot; leave it out"));
    };
    output::plot(common, path, &plot.to_svg(), Some(&plot.to_csv()))
}

/// Prints a report in the format that is asked for.
fn print(common: &Common, report: &ExperimentReport) -> Result<(), Failure> {
    output::print(common, || report.to_text(), || report.to_json(), || report.to_csv())
}

/// The failure of an experiment that is not complete.
fn incomplete(done: &Done<Outcome>) -> Result<(), Failure> {
    let finished = done.outcomes.iter().flatten().count();
    if let Some(error) = done.failures.first() {
        let count = done.failures.len();
        return Err(Failure::environment(format!("{count} cells failed; the first: {error}")));
    }
    if done.interrupted { Err(Failure::interrupted(finished)) } else { Ok(()) }
}
