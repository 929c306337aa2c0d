//! The weakest memory orderings with which the scenarios of locks pass: first one site at a time,
//! then all together.
//!
//! [`Weakening`] is the state of the search, and hands out [`Job`]s that may run on any thread. It
//! has three phases.
//!
//! 1. Each scenario is explored with the orderings of the source, and records the sites that it
//!    reaches.
//! 2. Each site alone gets weaker orderings, the weakest first, in the scenarios that reach it.
//! 3. All sites together get those that passed alone. A violation is replayed with one or two of
//!    them strengthened by a step, and those with which it does not happen are kept strengthened,
//!    until every scenario passes (`VSync`: Oberhauser and others, ASPLOS 2021).
//!
//! A stronger ordering excludes executions and admits no others, so a scenario that passed with
//! weaker orderings needs no further search. Orderings do not matter to sequentially consistent
//! memory, so that is not searched. The acquire of `spin_until` belongs to the platform and is no
//! site.

mod source;

pub use source::{Operation, operations};

use crate::check::subjects;
use crate::model::{
    Budget, FEW_BOUNDS, Memory, Order, Orders, Property, Report, Schedule, Site, Violation, Weaker,
    replay,
};
use crate::subject::{CheckError, Subject, Weak};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A scenario of a subject.
#[derive(Clone, Copy)]
struct Case {
    subject: Subject,
    place: usize,
}

/// How far the search for a violation came in the scenario in which it came least far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exhausted {
    /// Scenarios that reach the site.
    pub scenarios: usize,
    /// Executions in all of them.
    pub executions: u64,
    /// The least explored scenario.
    pub least: Weak,
}

/// A violation with an ordering weaker than that of the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// The weaker ordering of the site.
    pub order: Order,
    /// Whether other sites were weaker too.
    pub together: bool,
    /// Name of the lock.
    pub lock: &'static str,
    /// Scenario as in schedules, `lock/shape`.
    pub scenario: String,
    /// The violated property.
    pub property: Property,
    /// The violating order, one line for each step, and the observation at its end.
    pub steps: Vec<String>,
}

/// Result for one site.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered {
    /// The site with the ordering of the source.
    pub site: Site,
    /// The weakest ordering with which no violation was found while all others were as in the
    /// source.
    pub alone: Order,
    /// The same while all sites had their ordering of this column.
    pub together: Order,
    /// A violation with an ordering weaker than `together`, if one was found.
    pub broken: Option<Broken>,
    /// The search with `together`, if that is weaker than the source.
    pub passes: Option<Exhausted>,
}

/// One search, which may run on any thread.
#[derive(Clone)]
pub struct Job {
    budget: Budget,
    work: Work,
}

#[derive(Clone)]
enum Work {
    Reach(Case),
    Alone(Site, Vec<Case>),
    Together(Case, Weaker, usize),
}

/// Result of a [`Job`].
#[derive(Clone, Debug)]
pub struct Outcome(Result);

#[derive(Clone, Debug)]
enum Result {
    /// The sites reached, or `None` if the source violates a property.
    Reached(Option<BTreeSet<Site>>, u64),
    Alone(Alone),
    Together(Option<Violation>, Weak),
}

/// A site, its ordering, and a stronger one.
type Step = (Site, Order, Order);

/// Result of weakening one site alone.
#[derive(Clone, Debug)]
struct Alone {
    site: Site,
    /// The violation with the strongest ordering that does not pass.
    broken: Option<Broken>,
    passes: Option<(Order, Exhausted)>,
}

impl Case {
    fn explore(self, orders: Orders, stage: usize, budget: Budget) -> (Report, Rc<Orders>) {
        let orders = Rc::new(orders);
        let few = &FEW_BOUNDS[stage];
        (self.subject.explore_with(self.place, Rc::clone(&orders), few, budget), orders)
    }

    /// Returns whether an order is violated by `schedule` with `weaker` orderings.
    fn is_broken_by(self, schedule: &Schedule, weaker: &Weaker) -> bool {
        let orders = Rc::new(Orders::Weakened(weaker.clone()));
        let scenario = self.subject.scenario(self.place).with_orders(orders);
        replay(&scenario, schedule).is_ok_and(|(_, failure)| failure.is_some())
    }

    fn broken(self, order: Order, together: bool, violation: Violation) -> Broken {
        let Violation { property, text, schedule, narrative: mut steps, .. } = violation;
        steps.push(text);
        let (lock, scenario) = (self.subject.name, schedule.scenario);
        Broken { order, together, lock, scenario, property, steps }
    }
}

/// Returns the search that a report describes.
fn search(report: &Report) -> Weak {
    let &Report { explored, complete: exhaustive, preemptions, stale, .. } = report;
    Weak { memory: Memory::C11, explored, exhaustive, preemptions, stale }
}

/// Returns the farther one of two searches of one scenario, with the executions of both.
fn farther(one: Weak, other: Weak) -> Weak {
    let explored = one.explored + other.explored;
    let best = if other.bounds() > one.bounds() { other } else { one };
    Weak { explored, ..best }
}

/// Returns the search of all scenarios, or `None` without one.
fn exhausted(searches: impl IntoIterator<Item = Weak>) -> Option<Exhausted> {
    let searches: Vec<_> = searches.into_iter().collect();
    let least = *searches.iter().min_by_key(|weak| weak.bounds())?;
    let executions = searches.iter().map(|weak| weak.explored).sum();
    Some(Exhausted { scenarios: searches.len(), executions, least })
}

impl Job {
    /// Executes the search.
    pub fn run(&self) -> Outcome {
        Outcome(match &self.work {
            &Work::Reach(case) => reached(case, self.budget),
            Work::Alone(site, cases) => Result::Alone(alone(*site, cases, self.budget)),
            Work::Together(case, weaker, stage) => {
                let orders = Orders::Weakened(weaker.clone());
                let (report, _) = case.explore(orders, *stage, self.budget);
                let weak = search(&report);
                Result::Together(report.violation, weak)
            }
        })
    }

    /// Returns the name of the lock or of the site that is searched.
    pub fn about(&self) -> String {
        match &self.work {
            Work::Reach(case) | Work::Together(case, ..) => case.subject.name.to_owned(),
            Work::Alone(site, _) => site.to_string(),
        }
    }
}

fn reached(case: Case, budget: Budget) -> Result {
    let (mut sites, mut explored) = (BTreeSet::new(), 0);
    for stage in 0..FEW_BOUNDS.len() {
        let recorded = Orders::Recorded(RefCell::default());
        let (report, orders) = case.explore(recorded, stage, budget);
        explored += report.explored;
        if report.violation.is_some() {
            return Result::Reached(None, explored);
        }
        if let Orders::Recorded(recorded) = &*orders {
            sites.append(&mut recorded.borrow_mut());
        }
        if report.complete {
            break;
        }
    }
    Result::Reached(Some(sites), explored)
}

/// Searches for the weakest ordering of `site` with which no violation is found.
fn alone(site: Site, cases: &[Case], budget: Budget) -> Alone {
    let mut broken = None;
    for order in site.weaker() {
        let weaker = Weaker::from([(site, order)]);
        match passes(&weaker, cases, budget) {
            Ok(searches) => {
                let passes = exhausted(searches).map(|exhausted| (order, exhausted));
                return Alone { site, broken, passes };
            }
            Err((case, violation)) => broken = Some(case.broken(order, false, *violation)),
        }
    }
    Alone { site, broken, passes: None }
}

/// Searches a scenario, `lock/shape`, with `weaker` orderings. Returns the property that it
/// violates, if any.
///
/// # Errors
///
/// Fails if there is no such scenario.
pub fn violated_with(
    scenario: &str,
    weaker: &Weaker,
    budget: Budget,
) -> std::result::Result<Option<Property>, CheckError> {
    let subject = subjects().into_iter().find(|subject| {
        scenario.strip_prefix(subject.name).is_some_and(|rest| rest.starts_with('/'))
    });
    let place = subject.and_then(|subject| {
        let mut places = 0..subject.count();
        let place = places.find(|&place| subject.scenario(place).name == scenario)?;
        Some(Case { subject, place })
    });
    let case = place.ok_or_else(|| CheckError::Scenario(scenario.to_owned()))?;
    let broken = passes(weaker, &[case], budget).err();
    Ok(broken.map(|(_, violation)| violation.property))
}

/// Searches all scenarios with short bounds before any with longer ones, since most violations are
/// short.
fn passes(
    weaker: &Weaker,
    cases: &[Case],
    budget: Budget,
) -> std::result::Result<Vec<Weak>, (Case, Box<Violation>)> {
    let mut searches: Vec<Option<Weak>> = vec![None; cases.len()];
    for stage in 0..FEW_BOUNDS.len() {
        for (&case, so_far) in cases.iter().zip(&mut searches) {
            if so_far.is_some_and(|weak| weak.exhaustive) {
                continue;
            }
            let (report, _) = case.explore(Orders::Weakened(weaker.clone()), stage, budget);
            let weak = search(&report);
            if let Some(violation) = report.violation {
                return Err((case, Box::new(violation)));
            }
            *so_far = Some(so_far.map_or(weak, |before| farther(before, weak)));
        }
    }
    Ok(searches.into_iter().flatten().collect())
}

/// Phase of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reach,
    Alone,
    /// With this index of [`FEW_BOUNDS`].
    Together(usize),
    Done,
}

/// State of the search for the weakest orderings. See the module documentation.
pub struct Weakening {
    budget: Budget,
    phase: Phase,
    /// The scenarios that pass with the source, those with the fewest executions first.
    cases: Vec<(Case, BTreeSet<Site>)>,
    /// Names of the scenarios that violate a property with the source: they are not searched.
    violated: Vec<String>,
    alone: Vec<Alone>,
    /// The orderings that are tried together.
    weaker: Weaker,
    /// Indices of the scenarios that are to be searched with them.
    pending: Vec<usize>,
    /// The searches that passed, by scenario.
    passed: BTreeMap<usize, Weak>,
    /// Violations with sites together, by the site that was strengthened then.
    broken: BTreeMap<Site, Broken>,
    first: Vec<Case>,
}

impl Weakening {
    /// Returns the search for the orderings of `subjects`, with `budget` for each scenario and each
    /// change of orderings.
    pub fn new(subjects: &[Subject], budget: Budget) -> Self {
        let first = subjects
            .iter()
            .flat_map(|&subject| (0..subject.count()).map(move |place| Case { subject, place }));
        Self {
            budget,
            phase: Phase::Reach,
            cases: Vec::new(),
            violated: Vec::new(),
            alone: Vec::new(),
            weaker: Weaker::new(),
            pending: Vec::new(),
            passed: BTreeMap::new(),
            broken: BTreeMap::new(),
            first: first.collect(),
        }
    }

    /// Runs the search to its end.
    #[must_use]
    pub fn finished(mut self) -> Self {
        loop {
            let jobs = self.jobs();
            if jobs.is_empty() {
                return self;
            }
            self.take(jobs.iter().map(Job::run).collect());
        }
    }

    /// Returns the next jobs. All of their outcomes, in the same order, are passed to
    /// [`Self::take`]. There are none at the end of the search.
    pub fn jobs(&self) -> Vec<Job> {
        let budget = self.budget;
        let work: Vec<_> = match self.phase {
            Phase::Reach => self.first.iter().map(|&case| Work::Reach(case)).collect(),
            Phase::Alone => {
                let sites = self.sites().into_iter();
                sites.map(|site| Work::Alone(site, self.cases_of(&site))).collect()
            }
            Phase::Together(stage) => {
                let cases = self.pending.iter().map(|&at| self.cases[at].0);
                cases.map(|case| Work::Together(case, self.weaker.clone(), stage)).collect()
            }
            Phase::Done => Vec::new(),
        };
        work.into_iter().map(|work| Job { budget, work }).collect()
    }

    /// Continues with the outcomes of [`Self::jobs`].
    pub fn take(&mut self, outcomes: Vec<Outcome>) {
        match self.phase {
            Phase::Reach => self.take_reached(outcomes),
            Phase::Alone => self.take_alone(outcomes),
            Phase::Together(stage) => self.take_together(stage, outcomes),
            Phase::Done => {}
        }
    }

    fn take_reached(&mut self, outcomes: Vec<Outcome>) {
        let mut cases = Vec::new();
        for (&case, Outcome(result)) in self.first.iter().zip(outcomes) {
            match result {
                Result::Reached(Some(sites), explored) => cases.push((explored, case, sites)),
                _ => self.violated.push(case.subject.scenario(case.place).name),
            }
        }
        cases.sort_by_key(|&(explored, ..)| explored);
        self.cases = cases.into_iter().map(|(_, case, sites)| (case, sites)).collect();
        self.phase = Phase::Alone;
    }

    fn take_alone(&mut self, outcomes: Vec<Outcome>) {
        let alone = outcomes.into_iter().filter_map(|Outcome(result)| match result {
            Result::Alone(alone) => Some(alone),
            _ => None,
        });
        self.alone = alone.collect();
        let weaker = self.alone.iter().filter_map(|alone| Some((alone.site, alone.passes?.0)));
        self.weaker = weaker.collect();
        self.begin(0);
    }

    /// Begins to search with all weaker orderings within the bounds of `stage`.
    fn begin(&mut self, stage: usize) {
        self.pending.clear();
        for (at, (_, sites)) in self.cases.iter().enumerate() {
            let ended = self.passed.get(&at).is_some_and(|weak| weak.exhaustive);
            // What one weaker ordering violates is known.
            let reaches = sites.iter().any(|site| self.weaker.contains_key(site));
            if !ended && reaches && self.weaker.len() > 1 {
                self.pending.push(at);
            }
        }
        self.phase = Phase::Together(stage);
        if self.pending.is_empty() {
            self.phase = Phase::Done;
        }
    }

    fn take_together(&mut self, stage: usize, outcomes: Vec<Outcome>) {
        let mut again = Vec::new();
        for (at, Outcome(result)) in std::mem::take(&mut self.pending).into_iter().zip(outcomes) {
            let Result::Together(violation, weak) = result else { continue };
            if let Some(violation) = violation {
                self.strengthen(at, &violation);
                again.push(at);
            } else {
                let before = self.passed.get(&at).copied();
                self.passed.insert(at, before.map_or(weak, |before| farther(before, weak)));
            }
        }
        self.pending = again;
        if self.pending.is_empty() {
            if stage + 1 < FEW_BOUNDS.len() {
                self.begin(stage + 1);
            } else {
                self.phase = Phase::Done;
            }
        }
    }

    /// Strengthens orderings until `violation` no longer happens in this case: one at a time, or
    /// two, such as the fences of two threads that each write a flag and read the other's.
    fn strengthen(&mut self, at: usize, violation: &Violation) {
        let (case, schedule) = (self.cases[at].0, &violation.schedule);
        while case.is_broken_by(schedule, &self.weaker) {
            let steps = self.steps(at);
            let singles = steps.iter().map(|&step| vec![step]);
            let pairs = steps.iter().enumerate().flat_map(|(index, &step)| {
                steps[index + 1..].iter().map(move |&second| vec![step, second])
            });
            let mut candidates = singles.chain(pairs);
            let chosen = candidates.find(|steps| !case.is_broken_by(schedule, &self.with(steps)));
            // If no two end it, one after the other is taken.
            let chosen = chosen.or_else(|| Some(vec![*steps.first()?]));
            let Some(chosen) = chosen else { return };
            for &(site, order, _) in &chosen {
                self.broken.insert(site, case.broken(order, true, violation.clone()));
            }
            self.weaker = self.with(&chosen);
        }
    }

    /// Returns the steps by which orderings that a case reaches can be strengthened.
    fn steps(&self, at: usize) -> Vec<Step> {
        let sites = &self.cases[at].1;
        let weaker = self.weaker.iter().filter(|(site, _)| sites.contains(site));
        let steps = weaker.flat_map(|(site, &order)| {
            site.stronger(order).map(move |stronger| (*site, order, stronger))
        });
        steps.collect()
    }

    /// Returns the orderings after these steps.
    fn with(&self, steps: &[Step]) -> Weaker {
        let mut weaker = self.weaker.clone();
        for &(site, _, stronger) in steps {
            if stronger == site.order {
                weaker.remove(&site);
            } else {
                weaker.insert(site, stronger);
            }
        }
        weaker
    }

    /// Returns the reached sites of which there are weaker orderings.
    fn sites(&self) -> BTreeSet<Site> {
        let sites = self.cases.iter().flat_map(|(_, sites)| sites);
        sites.filter(|site| site.weaker().next().is_some()).copied().collect()
    }

    fn cases_of(&self, site: &Site) -> Vec<Case> {
        let cases = self.cases.iter().filter(|(_, sites)| sites.contains(site));
        cases.map(|&(case, _)| case).collect()
    }

    /// Names of the scenarios that violate a property with the orderings of the source. The search
    /// leaves them out.
    pub fn violated(&self) -> &[String] {
        &self.violated
    }

    /// Returns the places that were reached, also those of relaxed operations: file, line and
    /// column.
    pub fn places(&self) -> BTreeSet<(&'static str, u32, u32)> {
        let sites = self.cases.iter().flat_map(|(_, sites)| sites);
        sites.map(|site| (site.file, site.line, site.column)).collect()
    }

    /// Returns the result for each site, in the order of the source.
    pub fn rows(&self) -> Vec<Ordered> {
        let rows = self.alone.iter().map(|alone| {
            let site = alone.site;
            let order = alone.passes.map_or(site.order, |(order, _)| order);
            let together = self.weaker.get(&site).copied().unwrap_or(site.order);
            let strengthened = self.broken.get(&site).cloned();
            let broken = strengthened.or_else(|| alone.broken.clone());
            let searches =
                self.cases.iter().zip(0..).filter(|((_, sites), _)| sites.contains(&site));
            let searches = searches.filter_map(|(_, at)| self.passed.get(&at).copied());
            let passes = exhausted(searches).or(alone.passes.map(|(_, exhausted)| exhausted));
            let passes = passes.filter(|_| together != site.order);
            Ordered { site, alone: order, together, broken, passes }
        });
        rows.collect()
    }
}
