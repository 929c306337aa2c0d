//! A search in progress: builds and runs the commits that the model requests, logs the results, and
//! returns them to the model.

use super::Plan;
use super::builds::{Builds, NoBuild};
use super::confirm::Confirmation;
use super::git::{Commit, Commits};
use super::journal::{Event, Journal};
use super::model::search_of;
use super::settings::{Purpose, Settings};
use super::single_run::{Gave, Runner};
use crate::MeasureError;
use convoy_os::Disturbance;
use convoy_os::Interrupts;
use convoy_stats::bisect::{Answer, Ending, Outcome, Search, Step};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// After this many runs elsewhere an end is measured, so that a drift of the machine is detected
/// and the levels stay current.
const REFERENCE_EVERY: u32 = 6;

/// Under other load a confirmation takes this many times the pairs.
const DISTURBED: u32 = 2;

/// A run that returned a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// The number of its commit.
    pub node: usize,
    /// The number of its build.
    pub build: u64,
    /// Its purpose.
    pub purpose: Purpose,
    /// The value, in the unit of the metric.
    pub value: f64,
    /// Whether it was ended at its limit, so that the value lies above.
    pub above: bool,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Activity of other programs on the machine.
    pub disturbance: Disturbance,
}

/// Progress events for the caller.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The search turns to a commit.
    Visit {
        /// The commit.
        commit: &'a Commit,
        /// Runs of it that are wanted.
        runs: u32,
        /// Why.
        why: &'a str,
    },
    /// A commit is being built.
    Building(&'a Commit),
    /// A run was observed.
    Observed {
        /// The current state.
        search: &'a mut Search,
        /// The commits.
        commits: &'a Commits,
        /// Builds so far.
        builds: u32,
        /// Information of one more run, bits.
        bits: f64,
    },
    /// Something that a reader must know.
    Note(&'a str),
    /// The search is over.
    End,
}

/// Runs that are wanted and not yet made.
#[derive(Clone, Copy, Debug)]
struct Wish {
    node: usize,
    runs: u32,
    build: Option<u64>,
    bits: f64,
}

/// A search with everything it needs.
pub struct Session<'a> {
    /// Settings of the search.
    pub settings: &'a Settings,
    /// The commits that it is about.
    pub commits: &'a Commits,
    /// The state of the search for them.
    pub search: Search,
    /// The runs that returned a value, in order.
    pub observed: Vec<Observed>,
    /// The commits that cannot be measured, with the cause.
    pub skipped: BTreeMap<usize, String>,
    /// How many runs gave no value.
    pub failed: u32,
    pub(super) prior: Option<&'a Vec<f64>>,
    pub(super) journal: Journal,
    pub(super) builds: Builds,
    runner: Runner,
    interrupts: &'a Interrupts,
    progress: &'a mut dyn FnMut(Progress<'_>),
    pub(super) costs: bool,
    wish: Option<Wish>,
    since_end: u32,
    pub(super) confirmation: Option<Confirmation>,
    /// Whether the log already holds the end.
    ended: bool,
}

impl<'a> Session<'a> {
    /// A search at its begin, or where its journal left it. `progress` hears what happens.
    pub fn new(
        plan: &'a Plan,
        journal: Journal,
        interrupts: &'a Interrupts,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, MeasureError> {
        let (settings, commits, prior) = (&plan.settings, &plan.commits, plan.prior.as_ref());
        let mut session = Self {
            settings,
            commits,
            search: search_of(settings, commits, prior, None)?,
            observed: Vec::new(),
            skipped: BTreeMap::new(),
            failed: 0,
            prior,
            journal,
            builds: Builds::new(plan.git.clone(), &plan.state, settings),
            runner: Runner::new(settings, &plan.state)?,
            interrupts,
            progress,
            costs: false,
            wish: None,
            since_end: 0,
            confirmation: None,
            ended: false,
        };
        for event in &plan.events {
            session.replay(event)?;
        }
        session.builds.recover(commits)?;
        Ok(session)
    }

    fn node(&self, commit: &str) -> Result<usize, MeasureError> {
        self.commits.find(commit).ok_or_else(|| {
            MeasureError::request(format!(
                "{} speaks of commit {commit}, which does not lie between the ends any more; use \
                 --restart",
                self.journal.path().display()
            ))
        })
    }

    /// Takes a line of the log as it was taken when it was written.
    fn replay(&mut self, event: &Event) -> Result<(), MeasureError> {
        match event {
            Event::Begin { .. } => {}
            Event::Costs { run, build, min_effect } => {
                self.apply_costs([*run, *build, *min_effect])?;
            }
            Event::Wish { commit, runs, build, bits, .. } => {
                let node = self.node(commit)?;
                self.wish = Some(Wish { node, runs: *runs, build: *build, bits: *bits });
            }
            Event::Confirm { commit, parent } => {
                let (culprit, parent) = (self.node(commit)?, self.node(parent)?);
                self.confirmation = Some(Confirmation::new(culprit, parent));
            }
            Event::Building { directory, .. } => self.builds.replay_building(directory),
            Event::Built { commit, build, directory, seconds } => {
                self.builds.replay_built(self.node(commit)?, *build, directory, *seconds);
            }
            Event::Run { commit, build, purpose, value, above, seconds, disturbance, .. } => {
                let node = self.node(commit)?;
                let (build, purpose, value) = (*build, *purpose, *value);
                let (above, seconds, disturbance) = (*above, *seconds, *disturbance);
                self.take(Observed { node, build, purpose, value, above, seconds, disturbance })?;
            }
            Event::Failed { .. } => self.failed += 1,
            Event::Skip { commit, cause } => {
                self.take_skip(self.node(commit)?, cause)?;
            }
            Event::End { .. } => self.ended = true,
        }
        Ok(())
    }

    /// Searches to the end: the answer.
    pub fn run(&mut self) -> Result<Answer, MeasureError> {
        loop {
            if let Some(wish) = self.wish.filter(|wish| wish.runs > 0) {
                self.visit(wish)?;
                continue;
            }
            self.find_costs()?;
            match self.search.next_step() {
                Step::Measure(measure) => {
                    let (node, runs, build) = (measure.node, measure.runs, measure.build);
                    self.want(Wish { node, runs, build, bits: measure.bits }, &measure.why)?;
                }
                Step::Done(answer) => {
                    if !self.confirm(&answer)? {
                        return self.end(answer);
                    }
                }
                Step::GaveUp(answer) => match self.unmeasured(&answer) {
                    Some(node) => {
                        let wish = Wish { node, runs: 2, build: None, bits: 0.0 };
                        self.want(wish, "it has not been measured yet")?;
                    }
                    None => return self.end(answer),
                },
            }
        }
    }

    fn want(&mut self, wish: Wish, why: &str) -> Result<(), MeasureError> {
        self.journal.append(&Event::Wish {
            commit: self.commits.list[wish.node].id.clone(),
            runs: wish.runs,
            build: wish.build,
            bits: wish.bits,
            why: why.to_owned(),
        })?;
        self.wish = Some(wish);
        let (commit, runs) = (&self.commits.list[wish.node], wish.runs);
        (self.progress)(Progress::Visit { commit, runs, why });
        Ok(())
    }

    /// The middle one of the commits that remain and were never run. If the bad level is known by
    /// bounds alone (all bad runs hit the time limit), the model expects no information from such
    /// commits, but one run is decisive.
    fn unmeasured(&self, answer: &Answer) -> Option<usize> {
        if answer.ending != Ending::Indistinguishable || answer.no_regression > 0.5 {
            return None;
        }
        let measured = |node: usize| self.observed.iter().any(|run| run.node == node);
        let set = answer.credible_set.iter().map(|&(node, _)| node);
        let mut left: Vec<usize> =
            set.filter(|&node| !measured(node) && !self.skipped.contains_key(&node)).collect();
        left.sort_unstable();
        left.get(left.len() / 2).copied()
    }

    /// Returns the name of the metric.
    pub fn metric_name(&self) -> String {
        self.runner.metric.name()
    }

    /// Its unit; may be empty.
    pub fn unit(&self) -> String {
        self.runner.metric.unit().to_owned()
    }

    /// How many builds were made.
    pub fn builds(&self) -> u32 {
        self.builds.made
    }

    /// Returns the activity of other programs during all runs, including those before a kill.
    pub fn disturbance(&self) -> Disturbance {
        let mut all = Disturbance::default();
        for run in &self.observed {
            all.add(&run.disturbance);
        }
        all
    }

    /// Where the journal is.
    pub fn journal(&self) -> &Path {
        self.journal.path()
    }

    /// Removes the work trees; the journal stays.
    pub fn clean(&mut self) {
        self.builds.clean();
    }

    fn end(&mut self, answer: Answer) -> Result<Answer, MeasureError> {
        (self.progress)(Progress::End);
        self.builds.clean();
        if answer.ending == Ending::EndSkipped {
            let [good, bad] = self.commits.ends();
            let (flag, end) =
                if self.skipped.contains_key(&good) { ("--good", good) } else { ("--bad", bad) };
            let cause = self.skipped.get(&end).map_or("it was skipped", String::as_str);
            return Err(MeasureError::request(format!(
                "the {flag} end {} cannot be measured: {cause}; correct --build or the command, or \
                 choose another revision (--restart throws this search away)",
                self.commits.list[end].short()
            )));
        }
        if !self.ended {
            self.journal.append(&Event::End {
                first_bad: answer.culprit.map(|node| self.commits.list[node].id.clone()),
                confidence: answer.confidence,
                runs: self.search.runs(),
                builds: self.builds.made,
            })?;
            self.ended = true;
        }
        Ok(answer)
    }

    /// Measures the first bad commit against its parent, one run at a time, after the search has
    /// its answer: whether a run was made.
    fn confirm(&mut self, answer: &Answer) -> Result<bool, MeasureError> {
        let Some(culprit) = answer.culprit.filter(|_| !self.ended) else { return Ok(false) };
        let most = self.settings.max_runs.unwrap_or(u32::MAX);
        if self.settings.confirm == 0 || self.search.runs() >= most {
            return Ok(false);
        }
        if self.confirmation.as_ref().is_none_or(|begun| begun.culprit != culprit) {
            // A parent outside the range is an ancestor of the good end and as good.
            let parent = self.commits.parents[culprit].first().copied().unwrap_or(0);
            if self.skipped.contains_key(&parent) || self.skipped.contains_key(&culprit) {
                return Ok(false);
            }
            let id = |node: usize| self.commits.list[node].id.clone();
            self.journal.append(&Event::Confirm { commit: id(culprit), parent: id(parent) })?;
            self.confirmation = Some(Confirmation::new(culprit, parent));
            (self.progress)(Progress::Note("confirming the answer against its parent"));
        }
        let next = self.confirmation.as_ref();
        let next = next.and_then(|begun| {
            let disturbed = !self.disturbance().reasons().is_empty();
            let asked = self.settings.confirm * if disturbed { DISTURBED } else { 1 };
            begun.next(begun.wanted(asked, answer.estimates.effect.mean), self.settings.seed)
        });
        let Some(node) = next else { return Ok(false) };
        let wish = Wish { node, runs: 1, build: self.builds.of(node), bits: 0.0 };
        self.measure(wish, Purpose::Confirm).map(|_| true)
    }

    /// One run of `wish`, or of an end if it is time for one.
    fn visit(&mut self, wish: Wish) -> Result<(), MeasureError> {
        let ends = self.commits.ends();
        let runs = |end: &usize| self.observed.iter().filter(|run| run.node == *end).count();
        let end = ends.into_iter().filter(|end| !self.skipped.contains_key(end)).min_by_key(runs);
        if let Some(end) = end.filter(|_| {
            !ends.contains(&wish.node) && self.since_end >= REFERENCE_EVERY && self.costs
        }) {
            let wish = Wish { node: end, runs: 1, build: self.builds.of(end), bits: 0.0 };
            return self.measure(wish, Purpose::Reference).map(drop);
        }
        self.measure(wish, Purpose::Search).map(drop)
    }

    /// Builds if necessary and runs once; returns whether the run returned a value.
    fn measure(&mut self, wish: Wish, purpose: Purpose) -> Result<bool, MeasureError> {
        let kept = wish.build.filter(|build| self.builds.find(*build).is_some());
        let build = if let Some(build) = kept {
            build
        } else {
            (self.progress)(Progress::Building(&self.commits.list[wish.node]));
            let (commits, interrupts) = (self.commits, self.interrupts);
            match self.builds.make(wish.node, commits, &mut self.journal, interrupts) {
                Ok(build) => build,
                Err(NoBuild::Stop(failure)) => return Err(failure),
                Err(NoBuild::Skip(cause)) => return self.skip(wish.node, &cause),
            }
        };
        if let Some(rest) = self.wish.as_mut().filter(|rest| rest.node == wish.node) {
            // The rest of the batch stays on this build.
            rest.build = Some(build);
        }
        let directory = self.builds.find(build).expect("just made or found");
        let commit = &self.commits.list[wish.node].id;
        let mut failures = 0;
        loop {
            let number = u64::from(self.search.runs()) + u64::from(self.failed);
            let gave = match self.runner.run(&directory, commit, number, self.interrupts)? {
                // Of the good end a bound says nothing: the limit is wrong, or it was an accident.
                Gave::Value { above: true, .. } if wish.node == self.commits.ends()[0] => {
                    Gave::Failure("it took longer than --timeout; raise it".to_owned())
                }
                gave => gave,
            };
            match gave {
                Gave::Value { value, above, seconds, disturbance } => {
                    let node = wish.node;
                    let run = Observed { node, build, purpose, value, above, seconds, disturbance };
                    self.journal.append(&Event::Run {
                        commit: commit.clone(),
                        build,
                        purpose,
                        value,
                        above,
                        seconds,
                        disturbance,
                        time_ms: now_ms(),
                    })?;
                    self.take(run)?;
                    return Ok(true);
                }
                Gave::Skip(cause) => return self.skip(wish.node, &cause),
                Gave::Failure(cause) if failures >= self.settings.retries => {
                    let again = match failures {
                        0 => String::new(),
                        n => format!(" (and {n} times before)"),
                    };
                    return self.skip(wish.node, &format!("{cause}{again}"));
                }
                Gave::Failure(cause) => {
                    failures += 1;
                    self.failed += 1;
                    let note = format!("{}: {cause}; again", &commit[..12]);
                    (self.progress)(Progress::Note(&note));
                    let commit = commit.clone();
                    self.journal.append(&Event::Failed { commit, build, cause })?;
                }
            }
        }
    }

    fn skip(&mut self, node: usize, cause: &str) -> Result<bool, MeasureError> {
        let commit = self.commits.list[node].id.clone();
        (self.progress)(Progress::Note(&format!("{}: skipped: {cause}", &commit[..12])));
        self.journal.append(&Event::Skip { commit, cause: cause.to_owned() })?;
        self.take_skip(node, cause)?;
        Ok(false)
    }

    fn take_skip(&mut self, node: usize, cause: &str) -> Result<(), MeasureError> {
        self.skipped.insert(node, cause.to_owned());
        self.wish = self.wish.filter(|wish| wish.node != node);
        if let Some(confirmation) = &mut self.confirmation {
            confirmation.skipped(node);
        }
        self.search.skip(node).map_err(MeasureError::machine)
    }

    fn take(&mut self, run: Observed) -> Result<(), MeasureError> {
        let search = &mut self.search;
        search.observe(run.node, run.build, outcome(&run)).map_err(MeasureError::machine)?;
        self.observed.push(run);
        if self.commits.ends().contains(&run.node) {
            self.since_end = 0;
        } else {
            self.since_end += 1;
        }
        match run.purpose {
            Purpose::Search => {
                let wish = self.wish.as_mut().filter(|wish| wish.node == run.node);
                if let Some(wish) = wish {
                    wish.runs = wish.runs.saturating_sub(1);
                    wish.build = Some(run.build);
                }
            }
            Purpose::Reference => {}
            Purpose::Confirm => {
                if let Some(confirmation) = &mut self.confirmation {
                    confirmation.take(run.node, run.value);
                }
            }
        }
        self.show();
        Ok(())
    }

    fn show(&mut self) {
        let bits = self.wish.map_or(0.0, |wish| wish.bits / f64::from(wish.runs.max(1)));
        let (commits, builds) = (self.commits, self.builds.made);
        (self.progress)(Progress::Observed { search: &mut self.search, commits, builds, bits });
    }
}

pub(super) fn outcome(run: &Observed) -> Outcome {
    if run.above { Outcome::Above(run.value) } else { Outcome::Value(run.value) }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
