//! Running cells, with their progress, until they end or an interrupt arrives.

use crate::args::Common;
use crate::fail::{Failure, so_far};
use crate::output;
use convoy_lab::experiment::Plan;
use convoy_lab::figures::metric;
use convoy_lab::job::{Job, JobError, Outcome};
use convoy_lab::live;
use convoy_lab::pool::{self, Answer, LOOK, News, Results, Watch};
use convoy_os::Interrupts;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Environment variable with the number of simulations at a time, where no flag says it.
const THREADS: &str = "CONVOY_THREADS";

/// Number of simulations at a time.
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

/// Results of some cells.
pub(crate) struct Done<T> {
    /// One for each cell, in their order; `None` where an interrupt came first or it failed.
    pub(crate) outcomes: Vec<Option<T>>,
    /// Whether an interrupt came.
    pub(crate) interrupted: bool,
    /// How long the cells were run.
    ran: Duration,
    /// What those that were running knew when the interrupt came.
    so_far: String,
    /// Why cells have no outcome.
    pub(crate) failures: Vec<JobError>,
}

/// The messages about an outcome.
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
/// text to print, or ends the run with a failure.
pub(crate) fn execute<T>(
    common: &Common,
    what: &str,
    count: usize,
    start: impl FnOnce(&mut Watch<T>) -> Results<T>,
    mut keep: impl FnMut(usize, &T) -> Result<Told, Failure>,
) -> Result<Done<T>, Failure> {
    let interrupts = Interrupts::catch();
    let began = Instant::now();
    let bar = output::progress(common, count as u64);
    bar.set_message(what.to_owned());
    let (mut interrupted, mut stopped) = (false, None);
    let results = start(&mut |news| {
        if let News::Done(index, result) = &news {
            bar.inc(1);
            match result.as_ref().map(|outcome| keep(*index, outcome)) {
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
        if let (News::Nothing, Some(latest)) = (&news, live::estimates().first()) {
            bar.set_message(latest.clone());
        }
        interrupted |= interrupts.pending();
        if interrupted { Answer::Stop } else { Answer::Continue }
    });
    bar.finish_and_clear();
    if let Some(failure) = stopped {
        return Err(failure);
    }
    let (outcomes, failures, ran) = (Vec::new(), Vec::new(), began.elapsed());
    let mut done = Done { outcomes, interrupted, ran, so_far: so_far(), failures };
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

/// Formats the outcome of a cell as one line, from the number of its job in the plan.
pub(crate) type Line = fn(&Plan, usize, &Outcome) -> Option<String>;

/// Where outcomes are kept until all are there.
pub(super) trait Keep {
    /// The outcomes of a plan that are there, one for each of its cells.
    fn outcomes(&self, plan: &Plan) -> Result<Vec<Option<Outcome>>, Failure>;

    fn keep(&mut self, job: &Job, outcome: &Outcome) -> Result<(), Failure>;

    /// Whether this process runs the cell with this number.
    fn runs(&self, _cell: usize) -> bool {
        true
    }
}

impl Keep for BTreeMap<String, Outcome> {
    fn outcomes(&self, plan: &Plan) -> Result<Vec<Option<Outcome>>, Failure> {
        Ok(plan.jobs().map(|job| self.get(&job.hash()).cloned()).collect())
    }

    fn keep(&mut self, job: &Job, outcome: &Outcome) -> Result<(), Failure> {
        self.insert(job.hash(), outcome.clone());
        Ok(())
    }
}

/// Runs the cells of a plan that are not there, equal ones once, and once all are, those that
/// their outcomes ask for.
pub(super) fn until_known(
    plan: &Plan,
    common: &Common,
    threads: usize,
    line: Option<Line>,
    kept: &mut impl Keep,
) -> Result<(Plan, Done<Outcome>), Failure> {
    let mut plan = plan.clone();
    loop {
        let jobs: Vec<Job> = plan.jobs().cloned().collect();
        let (mut seen, mut wanted) = (BTreeSet::new(), Vec::new());
        for (index, outcome) in kept.outcomes(&plan)?.iter().enumerate() {
            if seen.insert(jobs[index].hash()) && outcome.is_none() && kept.runs(index) {
                wanted.push(index);
            }
        }
        let start =
            |watch: &mut Watch<Outcome>| pool::run(&jobs, &wanted, threads, |job| job.run(), watch);
        let mut done = execute(common, &plan.name, wanted.len(), start, |index, outcome| {
            kept.keep(&jobs[index], outcome)?;
            let line = line.and_then(|line| line(&plan, index, outcome));
            Ok(Told { line, ..Told::of(&plan, index, outcome) })
        })?;
        done.outcomes = kept.outcomes(&plan)?;
        match plan.longer(&done.outcomes).map_err(Failure::usage)? {
            Some(longer) if done.failures.is_empty() && !done.interrupted => plan = longer,
            _ => return Ok((plan, done)),
        }
    }
}

/// Runs `work` on a separate thread, so that an interrupt ends the command immediately; then it
/// returns `None`.
pub(crate) fn apart<T: Send + 'static, E: Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<Option<T>, Failure> {
    let interrupts = Interrupts::catch();
    let (sender, receiver) = mpsc::channel();
    // Detached: an interrupt does not wait for it, and then the result has no receiver.
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

/// The failure of an experiment that is not complete.
pub(super) fn incomplete(done: &Done<Outcome>) -> Result<(), Failure> {
    let finished = done.outcomes.iter().flatten().count();
    if let Some(error) = done.failures.first() {
        let count = done.failures.len();
        return Err(Failure::environment(format!("{count} cells failed; the first: {error}")));
    }
    if !done.interrupted {
        return Ok(());
    }
    if finished > 0 {
        return Err(Failure::interrupted(finished));
    }
    let (count, ran) = (done.outcomes.len(), done.ran.as_secs_f64());
    let cells =
        if count == 1 { "the only cell".to_owned() } else { format!("any of {count} cells") };
    Err(Failure::environment(format!(
        "interrupted after {ran:.1} s, before {cells} had finished{}; start it again",
        done.so_far
    )))
}
