//! The search: takes observations, keeps the posterior, asks for the next run.

use super::belief::Class;
use super::check::check;
use super::evidence::{Evidence, likely_shape, posterior};
use super::grid::{Build, Grid};
use super::history::History;
use super::memory::{self, Run};
use super::modes::Fit;
use super::policy::{self, View};
use super::shifts::{self, Values};
use super::types::{BisectError, Config, Ending, Estimates, Layout, Measure, Outcome, Step};

/// Runs of each end before the search proper begins: fewer say nothing about the noise.
pub(super) const END_RUNS: usize = 2;
/// Runs of a build of an end, times the ratio of the costs of a first and a further run, after
/// which a new build adds more information.
const END_BUILD_RUNS: f64 = 4.0;
/// Share of runs for the ends while the machine seems to change: at irregular steps, so that a
/// period of the machine cannot alias with them.
const INTERLEAVED: f64 = 0.35;
/// The least regular step round a circle.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Whether builds may shift is asked once a commit has this probability.
const LIKELY: f64 = 0.8;
/// The same once builds shift with this probability.
pub(super) const SHIFTING: f64 = 0.5;
/// Scales of the noise below this part of the largest value are taken for rounding.
const RESOLUTION: f64 = 1e-7;

/// Result of the pairs for a name with a failing model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Standing {
    /// They show the change; the probability that they do so by chance.
    Holds(f64),
    /// A run of this commit is wanted.
    Wanted(usize),
    /// They do not show it; the probability of their result by chance.
    Fails(f64),
}

/// A search for the culprit. See the [module](super) for an example.
#[derive(Clone, Debug)]
pub struct Search {
    pub(super) history: History,
    pub(super) config: Config,
    /// The history along first parents.
    pub(super) line: Vec<usize>,
    pub(super) classes: Vec<Class>,
    /// Measured commits, in the order of their first runs; the inverse of it.
    pub(super) nodes: Vec<usize>,
    pub(super) slots: Vec<Option<usize>>,
    /// Part of the candidates that each measured commit contains.
    pub(super) depths: Vec<f64>,
    pub(super) skipped: Vec<bool>,
    pub(super) builds: Vec<Build>,
    /// All runs in the order of time; of a stopped one the bound.
    pub(super) log: Vec<Run>,
    /// Subtracted from every value, so that levels far from 0 lose no digits.
    pub(super) origin: Option<f64>,
    pub(super) largest: f64,
    pub(super) grid: Option<Grid>,
    /// Number of runs at which the grid is checked again.
    pub(super) regrid_at: usize,
    /// Number of runs at which it was placed.
    pub(super) placed_at: u32,
    pub(super) evidence: Option<Evidence>,
    /// A candidate that was probable when the grid was last checked.
    pub(super) likely: usize,
    pub(super) by_node: Vec<f64>,
    /// The same before any data.
    pub(super) prior: Vec<f64>,
    pub(super) runs: u32,
}

impl Search {
    /// A search that has seen nothing yet.
    ///
    /// # Errors
    /// [`BisectError::Setting`] for a setting without meaning.
    pub fn new(history: History, config: Config) -> Result<Self, BisectError> {
        check(&config, &history)?;
        let weight = |node: &usize| config.prior.as_ref().map_or(1.0, |prior| prior[*node]);
        let total: f64 = history.candidates().iter().map(weight).sum();
        if total <= 0.0 {
            return Err(BisectError::Setting {
                name: "prior",
                must: "positive for at least one commit between good and bad",
            });
        }
        let members = history.candidates().to_vec();
        let mut by_node = vec![0.0; history.nodes()];
        for node in &members {
            by_node[*node] = weight(node) / total;
        }
        Ok(Self {
            line: history.line(),
            classes: vec![Class { members, mass: 1.0, bad: Vec::new() }],
            nodes: Vec::new(),
            depths: Vec::new(),
            slots: vec![None; history.nodes()],
            skipped: vec![false; history.nodes()],
            builds: Vec::new(),
            log: Vec::new(),
            origin: None,
            largest: 0.0,
            grid: None,
            regrid_at: 0,
            placed_at: 0,
            evidence: None,
            likely: 0,
            prior: by_node.clone(),
            by_node,
            runs: 0,
            history,
            config,
        })
    }

    /// The history that is searched.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Number of runs observed.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Number of builds observed.
    pub fn builds(&self) -> u32 {
        self.builds.len() as u32
    }

    /// Takes the outcome of one run of `build`, which is a build of `node`. Build numbers are the
    /// caller's; each denotes one build of one commit.
    ///
    /// # Errors
    /// If the commit does not exist, the build belongs to another commit, or the value is not
    /// finite. The search is then as before.
    pub fn observe(
        &mut self,
        node: usize,
        build: u64,
        outcome: Outcome,
    ) -> Result<(), BisectError> {
        let (Outcome::Value(value) | Outcome::Above(value)) = outcome;
        self.check_node(node)?;
        if !value.is_finite() {
            return Err(BisectError::NotFinite { node });
        }
        let known = self.builds.iter().position(|b| b.id == build);
        if let Some(other) = known.map(|i| self.builds[i].node).filter(|other| *other != node) {
            return Err(BisectError::Build { build, node: other });
        }
        let slot = self.slot(node);
        let at = known.unwrap_or_else(|| {
            self.builds.push(Build { id: build, node, slot, ..Build::default() });
            self.builds.len() - 1
        });
        self.largest = self.largest.max(value.abs());
        let shifted = value - *self.origin.get_or_insert(value);
        self.log.push(Run { build: at, value: shifted });
        let build = &mut self.builds[at];
        match outcome {
            Outcome::Value(_) => build.values.push(shifted),
            Outcome::Above(_) => build.above.push(shifted),
        }
        build.table.clear();
        self.runs += 1;
        self.evidence = None;
        self.place_grid();
        Ok(())
    }

    /// The commit cannot be built or run: it is not measured again. It may still be the culprit;
    /// nothing is inferred from the failure.
    ///
    /// # Errors
    /// If the commit does not exist.
    pub fn skip(&mut self, node: usize) -> Result<(), BisectError> {
        self.check_node(node)?;
        self.skipped[node] = true;
        Ok(())
    }

    /// Probability of each commit to be the culprit, given that there is one.
    pub fn posterior(&mut self) -> &[f64] {
        self.refresh();
        &self.by_node
    }

    /// Probability that the ends do not differ at all.
    pub fn no_regression(&mut self) -> f64 {
        self.refresh();
        self.evidence.as_ref().map_or(0.0, |evidence| evidence.none.p)
    }

    /// Levels, effect and noise, once both ends have been measured.
    pub fn estimates(&mut self) -> Option<Estimates> {
        self.refresh();
        Some(self.estimate(self.evidence.as_ref()?))
    }

    /// What to do next. Asking changes nothing.
    pub fn next_step(&mut self) -> Step {
        self.refresh();
        let ends = self.history.ends();
        if ends.into_iter().any(|end| self.skipped[end] && self.runs_of(end) < END_RUNS) {
            return Step::GaveUp(self.answer(Ending::EndSkipped));
        }
        if let Some(node) = ends.into_iter().find(|end| self.runs_of(*end) < END_RUNS) {
            if self.spent() {
                return Step::GaveUp(self.answer(Ending::Budget));
            }
            let runs = (END_RUNS - self.runs_of(node)) as u32;
            let why = "the search begins with both ends";
            return Step::Measure(policy::again(node, runs, &self.builds, why));
        }
        if let Some(ending) = self.ending() {
            return Step::Done(self.answer(ending));
        }
        if self.spent() {
            return Step::GaveUp(self.answer(Ending::Budget));
        }
        let Some(evidence) = &self.evidence else {
            return Step::GaveUp(self.answer(Ending::Indistinguishable));
        };
        if let Some(measure) = self.to_narrow() {
            return Step::Measure(measure);
        }
        if let Some(measure) = self.to_place() {
            return Step::Measure(measure);
        }
        if let Some(measure) = self.to_repeat() {
            return Step::Measure(measure);
        }
        if let Some(measure) = self.to_tell_shifts() {
            return Step::Measure(measure);
        }
        if let Some(Standing::Wanted(node)) = self.standing() {
            let why = "the runs differ from the prediction: compare the culprit with its parent";
            return Step::Measure(policy::again(node, 1, &self.builds, why));
        }
        if self.doubtful() && !self.shifting() {
            return Step::Measure(self.to_survey().unwrap_or_else(|| self.clear_doubt()));
        }
        if let Some(measure) = self.look_around() {
            return Step::Measure(measure);
        }
        let changes = evidence.independent < 0.5 && !self.shifting();
        if changes && (f64::from(self.runs) * GOLDEN).fract() < INTERLEAVED {
            let node =
                if self.runs_of(ends[0]) < self.runs_of(ends[1]) { ends[0] } else { ends[1] };
            let why = "the machine changes over time: an end measures the change";
            return Step::Measure(policy::again(node, 1, &self.builds, why));
        }
        match policy::choose(&self.view(evidence)) {
            Some(measure) => Step::Measure(measure),
            None => match self.to_assure() {
                Some(measure) => Step::Measure(measure),
                None if self.shifting() => Step::GaveUp(self.answer(Ending::BuildsShift)),
                None => Step::GaveUp(self.answer(Ending::Indistinguishable)),
            },
        }
    }

    /// More runs of the end that has fewer; a new build each time, if layout may shift it.
    fn clear_doubt(&self) -> Measure {
        let ends = self.history.ends();
        let counts = ends.map(|end| self.runs_of(end));
        let (node, count) =
            if counts[0] <= counts[1] { (ends[0], counts[0]) } else { (ends[1], counts[1]) };
        let room = self.config.max_runs.map_or(u32::MAX, |most| most - self.runs);
        let most = 8_u32.max((self.config.build_cost / self.config.run_cost).min(64.0) as u32);
        let runs = ((count / 2) as u32).clamp(1, most).min(room);
        let why = "the ends may not differ at all";
        let mut measure = policy::again(node, runs, &self.builds, why);
        let few = self.config.max_builds.is_none_or(|most| self.builds() < most);
        let build = self.builds.iter().rfind(|build| build.node == node);
        let worn = END_BUILD_RUNS * (1.0 + self.config.build_cost / self.config.run_cost);
        let worn = build.is_some_and(|build| build.runs() as f64 >= worn);
        if self.config.layout == Layout::PerBuild && few && worn {
            (measure.build, measure.fresh_build) = (None, true);
        }
        measure
    }

    pub(super) fn view<'a>(&'a self, evidence: &'a Evidence) -> View<'a> {
        View {
            history: &self.history,
            config: &self.config,
            classes: &self.classes,
            evidence,
            builds: &self.builds,
            nodes: &self.nodes,
            skipped: &self.skipped,
            by_node: &self.by_node,
            shape: likely_shape(self.grid.as_ref(), evidence),
            runs: self.runs,
        }
    }

    fn check_node(&self, node: usize) -> Result<(), BisectError> {
        let nodes = self.history.nodes();
        if node < nodes { Ok(()) } else { Err(BisectError::Node { node, nodes }) }
    }

    fn spent(&self) -> bool {
        self.config.max_runs.is_some_and(|most| self.runs >= most)
    }

    pub(super) fn runs_of(&self, node: usize) -> usize {
        self.builds.iter().filter(|build| build.node == node).map(Build::runs).sum()
    }

    /// The index of `node` among the measured; a new one splits the classes.
    fn slot(&mut self, node: usize) -> usize {
        if let Some(slot) = self.slots[node] {
            return slot;
        }
        let reach = self.history.reach(node);
        let candidates = self.history.candidates();
        let inside = candidates.iter().filter(|candidate| reach[**candidate]).count();
        self.depths.push(inside as f64 / candidates.len() as f64);
        let prior = self.config.prior.as_ref();
        let total: f64 = prior.map_or(self.history.candidates().len() as f64, |prior| {
            self.history.candidates().iter().map(|node| prior[*node]).sum()
        });
        let mut classes = Vec::with_capacity(self.classes.len() + 1);
        for class in self.classes.drain(..) {
            let (inside, outside): (Vec<usize>, Vec<usize>) =
                class.members.iter().partition(|member| reach[**member]);
            for (members, bad) in [(inside, true), (outside, false)] {
                if !members.is_empty() {
                    let mass = members.iter().map(|m| prior.map_or(1.0, |prior| prior[*m]));
                    let mass = mass.sum::<f64>() / total;
                    let mut of_class = class.bad.clone();
                    of_class.push(bad);
                    classes.push(Class { members, mass, bad: of_class });
                }
            }
        }
        self.classes = classes;
        self.nodes.push(node);
        self.slots[node] = Some(self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// The runs and the medians of the ends as the second model sees them: where it is sure which
    /// mode each run had, they have one.
    pub(super) fn in_one_mode(&self, clear: Option<Fit>) -> (Vec<Run>, [f64; 2]) {
        let lower = |value: f64| clear.map_or(value, |fit| fit.lower(value));
        let runs = self.log.iter().map(|run| Run { value: lower(run.value), ..*run }).collect();
        (runs, self.end_medians(lower))
    }

    /// Scales of the noise below this are rounding.
    pub(super) fn rounding(&self) -> f64 {
        (RESOLUTION * self.largest).max(f64::MIN_POSITIVE)
    }

    /// Brings tables, evidence and posterior up to date.
    fn refresh(&mut self) {
        let Some(grid) = &self.grid else {
            return;
        };
        grid.fill(&mut self.builds);
        if self.evidence.is_none() {
            let (config, classes) = (&self.config, &self.classes);
            let first = posterior(config, grid, &self.builds, classes, self.likely, false);
            self.evidence = Some(self.second(first));
        }
        let Some(evidence) = &self.evidence else {
            return;
        };
        let total: f64 = evidence.classes.iter().map(|belief| belief.p).sum();
        let prior = self.config.prior.as_ref();
        for (class, belief) in self.classes.iter().zip(&evidence.classes) {
            let weight = |m: &usize| prior.map_or(1.0, |prior| prior[*m]);
            let sum: f64 = class.members.iter().map(weight).sum();
            for member in &class.members {
                let share = if sum > 0.0 { weight(member) / sum } else { 0.0 };
                self.by_node[*member] = share * belief.p / total.max(f64::MIN_POSITIVE);
            }
        }
    }

    /// Combines the second model with the `first`, and includes shifts of builds in both if they
    /// matter.
    fn second(&self, mut first: Evidence) -> Evidence {
        let Some(grid) = &self.grid else {
            return first;
        };
        let (config, classes, floor) = (&self.config, &self.classes, self.rounding());
        let modes = first.modes(grid);
        let clear = first.clear_modes(grid);
        let (runs, ends) = self.in_one_mode(clear);
        let (builds, depths) = (&self.builds, &self.depths);
        let second = memory::opinion(config, &runs, ends, builds, classes, depths, floor);
        first.several = self.several(&runs, floor, second.independent);
        memory::mix(&mut first, &second, if clear.is_some() { 0.0 } else { modes });
        let one_build = matches!(config.layout, Layout::PerCommit | Layout::PerCommitAny);
        let shifts: f64 = first.strata.iter().skip(1).flatten().map(|of| of.p).sum();
        if one_build && (shifts > SHIFTING || first.classes.iter().any(|belief| belief.p > LIKELY))
        {
            let values = Values { runs: &runs, ends, floor };
            let of = &first.classes;
            first.shifted = shifts::posterior(config, &values, builds, classes, depths, of);
            first.shifted.in_sight = self.name_in_sight(&first.shifted, &values, modes);
        }
        first
    }
}
