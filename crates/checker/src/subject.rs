//! A subject of a check: its scenarios, the search for a violation in each of them, and the
//! replay of one order.

use crate::model::{
    Budget, Failure, Memory, Model, Orders, Property, Report, Scenario, Schedule, ScheduleError,
    Step, Violation, drawing, explore, explore_few, explore_states, explore_weak, tell,
};
use crate::rcu::{RCU_SHAPES, rcu_scenario};
use crate::script::script;
use crate::shapes::SHAPES;
use crate::starvation::passes;
use crate::visits::{READERS, WRITERS, together, visits};
use crate::zone::{ZONE_SHAPES, zone_scenario};
use convoy_mm::Bulk;
use convoy_sync::{Lock, Promise, TicketLock};
use core::ops::Range;
use std::rc::Rc;

/// Executions of a scenario in `convoy lab check`: all locks take less than 3 minutes of two CPUs.
const EXECUTIONS: u64 = 40_000;
/// The same where each interleaving is followed from its beginning to its end, which takes longer.
const WHOLE_EXECUTIONS: u64 = 20_000;
/// Executions of a scenario with at most two preemptions, where the usual share is less: the most
/// of a lock are 974,000 (`quota/timeouts`).
const FEW_PREEMPTIONS: u64 = 1_500_000;

/// Executions of each scenario that [`Subject::sound`] makes before the search of any is long.
const FIRST_EXECUTIONS: u64 = 1000;

/// The word that selects everything that ships.
const ALL: &str = "all";
/// The word that selects every deliberately broken subject.
const BUSTED: &str = "busted";

/// Something that can be checked.
#[derive(Clone, Copy)]
pub struct Subject {
    /// Name on the command line, and first part of a schedule's scenario.
    pub name: &'static str,
    /// Family of the subject.
    pub family: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// Promises in addition to those that all locks make.
    pub promises: &'static [Promise],
    /// Whether it is deliberately broken: a checker that does not catch it proves nothing about the
    /// others.
    pub busted: bool,
    /// Whether all its memory is inside the lock, so that states can be remembered.
    is_one_object: bool,
    /// The lock that has the same executions, if there is one: see [`Self::same_as`].
    twin: Option<&'static str>,
    /// The memory model. Every other model than [`Memory::Sc`] is explored after that.
    pub memory: Memory,
    scenarios: fn(&Subject) -> Vec<Case>,
}

/// A scenario with its description.
pub(crate) struct Case {
    shape: &'static str,
    about: &'static str,
    scenario: Scenario,
}

impl Case {
    pub(crate) fn new(shape: &'static str, about: &'static str, scenario: Scenario) -> Self {
        Self { shape, about, scenario }
    }
}

/// Result of one subject in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The subject's family.
    pub family: &'static str,
    /// The subject.
    pub name: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    /// A short description of the scenario.
    pub about: &'static str,
    /// Properties that the scenario checks.
    pub checks: Vec<Property>,
    /// The violated property, if any.
    pub violated: Option<Property>,
    /// Schedule string that replays the violating order.
    pub schedule: Option<String>,
    /// Executions made.
    pub explored: u64,
    /// Whether every order was executed.
    pub exhaustive: bool,
    /// The largest number of preemptions up to which all orders were executed.
    pub preemptions: Option<u32>,
    /// Progress of the search of every order, 0 to 1; see [`Report::share`].
    pub share: f64,
    /// The search under a weaker memory model, if one was made.
    pub weak: Option<Weak>,
    /// The violating order, one line for each step, and the observation at its end.
    pub narrative: Vec<String>,
    /// The steps of that order.
    pub steps: Vec<Step>,
}

/// Search of one scenario under a weaker memory model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weak {
    /// The memory model.
    pub memory: Memory,
    /// Executions made.
    pub explored: u64,
    /// Whether every execution was made.
    pub exhaustive: bool,
    /// All executions with at most this number of preemptions were made, if they had at most as
    /// many stale steps as the next field says.
    pub preemptions: Option<u32>,
    /// Stale steps of these executions; `None` for any number, and 0 if the budget was too small.
    pub stale: Option<u32>,
}

impl Weak {
    /// Returns stale steps and preemptions as numbers of which smaller ones are a shorter search.
    pub(crate) fn bounds(&self) -> (u32, u32) {
        if self.exhaustive {
            return (u32::MAX, u32::MAX);
        }
        (self.stale.unwrap_or(u32::MAX), self.preemptions.unwrap_or(0))
    }
}

/// Reason why nothing was checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// No subject has that name.
    #[error(
        "there is no lock `{0}` to check; name a lock or a family of `convoy lab check --list`, \
         `all`, or `busted` for those that are broken on purpose"
    )]
    Name(String),
    /// The schedule names no scenario of this checker.
    #[error(
        "there is no scenario `{0}`; a schedule names one as <lock>/<scenario>: copy one that a \
         check of this version printed"
    )]
    Scenario(String),
    /// The schedule cannot be parsed or does not fit.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

/// An order in which a lock breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} violates {}: {text}\n{}\nThis order again: Subject::replay(\"{schedule}\")",
    .property.name(),
    drawing(.steps)
)]
pub struct Broken {
    /// The lock.
    pub name: &'static str,
    /// The property that it promised.
    pub property: Property,
    /// The observation at the end of the order.
    pub text: String,
    /// The order.
    pub steps: Vec<Step>,
    /// Schedule string that replays the order.
    pub schedule: String,
}

/// Result of a replayed order.
#[derive(Clone)]
pub struct Replay {
    /// The checked subject.
    pub subject: Subject,
    /// One line for each step.
    pub narrative: Vec<String>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The property that the order violates, if any, and the observation.
    pub violation: Option<Failure>,
}

impl Subject {
    /// Returns a subject for an external lock. `name` is the first part of its schedules, without
    /// `/` and `:`.
    ///
    /// At the end of an execution, when no other task runs, `try_acquire` is called once. It must
    /// not wait: a lock whose `try_acquire` sleeps or spins there violates
    /// [`Property::NoDeadlock`].
    pub fn of<T: Lock>(name: &'static str, promises: &'static [Promise]) -> Self {
        let about = "A lock from elsewhere.";
        let scenarios = lock::<T>;
        let (family, busted, is_one_object, memory) = ("lock", false, false, Memory::C11);
        let twin = None;
        Self { name, family, about, promises, busted, is_one_object, twin, memory, scenarios }
    }

    /// Declares that the external lock owns no heap memory and uses no `static`: all its memory is
    /// inside the lock and on the stacks of its callers. Then each state is explored once, however
    /// many orders lead to it.
    #[must_use]
    pub fn is_one_object(self) -> Self {
        Self { is_one_object: true, ..self }
    }

    /// Returns the same subject, but orders are followed beyond states that were seen before. This
    /// takes longer, but the number of executed orders does not depend on how the lock was
    /// compiled.
    #[must_use]
    pub fn in_every_order(self) -> Self {
        Self { is_one_object: false, ..self }
    }

    /// Returns the same subject, checked under a memory model.
    #[must_use]
    pub fn under(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }

    /// Returns the budget of `convoy lab check` for each scenario.
    #[must_use]
    pub fn budget(&self) -> Budget {
        let executions = if self.is_one_object { EXECUTIONS } else { WHOLE_EXECUTIONS };
        Budget { executions, few_preemptions: FEW_PREEMPTIONS, ..Budget::default() }
    }

    /// Returns whether orders stop at a state that was seen before.
    pub fn remembers_states(&self) -> bool {
        self.is_one_object
    }

    /// Returns a lock that ships.
    pub(crate) fn shipped<T: Lock>(
        name: &'static str,
        family: &'static str,
        promises: &'static [Promise],
        about: &'static str,
    ) -> Self {
        // The marks of tasks and the count of the scheduler are outside of the lock.
        let is_one_object = !promises.contains(&Promise::Monitored);
        let (busted, memory, scenarios) = (false, Memory::Sc, lock::<T>);
        let twin = None;
        Self { name, family, about, promises, busted, is_one_object, twin, memory, scenarios }
    }

    /// Declares that every execution is one of the lock called `name`: the checker's platform adds
    /// nothing to that lock.
    pub(crate) fn same_as(self, name: &'static str) -> Self {
        Self { twin: Some(name), ..self }
    }

    /// Returns the one of `others` that has the same executions, so that [`Row::of`] spares a
    /// search.
    pub fn same_among<'a>(&self, others: &'a [Self]) -> Option<&'a Self> {
        others.iter().find(|other| self.twin == Some(other.name) && self.memory == other.memory)
    }

    /// Returns the same subject with other scenarios.
    pub(crate) fn with(self, scenarios: fn(&Self) -> Vec<Case>) -> Self {
        Self { scenarios, ..self }
    }

    /// Returns a deliberately broken lock.
    pub(crate) fn busted<T: Lock>(
        name: &'static str,
        family: &'static str,
        promises: &'static [Promise],
        about: &'static str,
    ) -> Self {
        Self { busted: true, ..Self::shipped::<T>(name, family, promises, about) }
    }

    /// Returns the same subject, which is deliberately broken.
    pub(crate) fn as_busted(self) -> Self {
        Self { busted: true, ..self }
    }

    /// Returns whether `word` selects this subject: its name, its family or `all` if it ships,
    /// `busted` if it is deliberately broken.
    pub fn is(&self, word: &str) -> bool {
        self.name == word
            || (if self.busted { word == BUSTED } else { word == ALL || self.family == word })
    }

    /// Returns the number of scenarios.
    pub fn count(&self) -> usize {
        (self.scenarios)(self).len()
    }

    /// Searches each scenario for a violation within `budget`. Returns one row for each.
    pub fn check(&self, budget: Budget) -> Vec<Row> {
        (0..self.count()).filter_map(|place| self.check_one(place, budget)).collect()
    }

    /// Searches scenario number `place` for a violation within `budget`. Returns `None` if there
    /// are not that many scenarios.
    pub fn check_one(&self, place: usize, budget: Budget) -> Option<Row> {
        let search = if self.is_one_object { explore_states } else { explore };
        let case = (self.scenarios)(self).into_iter().nth(place)?;
        let mut row = self.row(&case, search(&case.scenario, budget));
        self.check_weak(place, budget, &mut row);
        Some(row)
    }

    /// The second half of [`Self::check_one`]: continues with a weaker memory model, if the subject
    /// has one and `row` has no violation.
    pub fn check_weak(&self, place: usize, budget: Budget, row: &mut Row) {
        if self.memory == Memory::Sc || row.violated.is_some() {
            return;
        }
        let scenario = self.scenario(place);
        let report = explore_weak(&scenario, self.memory, budget, self.is_one_object);
        let Report { explored, complete: exhaustive, preemptions, stale, violation, .. } = report;
        let memory = self.memory;
        row.weak = Some(Weak { memory, explored, exhaustive, preemptions, stale });
        row.break_by(violation);
    }

    /// Searches scenario number `place` under [`Memory::C11`] within the bounds `few` of
    /// [`FEW_BOUNDS`], with these orderings.
    pub(crate) fn explore_with(
        &self,
        place: usize,
        orders: Rc<Orders>,
        few: &Range<usize>,
        budget: Budget,
    ) -> Report {
        let scenario = self.scenario(place).with_orders(orders);
        explore_few(&scenario, Memory::C11, budget, self.is_one_object, few)
    }

    /// Returns scenario number `place`.
    pub(crate) fn scenario(&self, place: usize) -> Scenario {
        let case = (self.scenarios)(self).into_iter().nth(place);
        case.expect("the caller knows the number of scenarios").scenario
    }

    /// Like [`Self::check`], for tests of a lock.
    ///
    /// # Errors
    ///
    /// Returns [`Broken`] with the first order found in which the lock breaks a promise.
    pub fn sound(&self, budget: Budget) -> Result<Vec<Row>, Broken> {
        // Most violations are short, and one scenario may have it that takes long before another.
        let first = Budget { executions: budget.executions.min(FIRST_EXECUTIONS), ..budget };
        let mut rows = self.check(Budget { few_preemptions: 0, ..first });
        if !rows.iter().any(|row| row.violated.is_some()) {
            rows = self.check(budget);
        }
        match rows.iter().find_map(|row| row.violated.zip(row.schedule.clone()).zip(Some(row))) {
            None => Ok(rows),
            Some(((property, schedule), row)) => {
                let text = row.narrative.last().cloned().unwrap_or_default();
                let steps = row.steps.clone();
                Err(Broken { name: self.name, property, text, steps, schedule })
            }
        }
    }

    /// Executes the order of a schedule string of this subject once.
    ///
    /// # Errors
    ///
    /// Fails if the string cannot be parsed, names no scenario of this subject, or does not fit it.
    pub fn replay(&self, schedule: &str) -> Result<Replay, CheckError> {
        let schedule: Schedule = schedule.parse()?;
        let unknown = || CheckError::Scenario(schedule.scenario.clone());
        let (name, shape) = schedule.scenario.split_once('/').ok_or_else(unknown)?;
        let cases = (self.scenarios)(self);
        let case = cases.iter().find(|case| name == self.name && case.shape == shape);
        let case = case.ok_or_else(unknown)?;
        let (steps, violation) = crate::model::replay(&case.scenario, &schedule)?;
        Ok(Replay { subject: *self, narrative: tell(&steps), steps, violation })
    }

    fn row(&self, case: &Case, report: Report) -> Row {
        let Report { explored, complete: exhaustive, preemptions, share, violation, .. } = report;
        let mut row = Row {
            family: self.family,
            name: self.name,
            scenario: case.shape,
            about: case.about,
            checks: case.scenario.checks.clone(),
            violated: None,
            schedule: None,
            explored,
            exhaustive,
            preemptions,
            share,
            weak: None,
            narrative: Vec::new(),
            steps: Vec::new(),
        };
        row.break_by(violation);
        row
    }
}

impl Row {
    /// Returns the row of a lock with the same executions. A schedule still names the lock that was
    /// searched.
    #[must_use]
    pub fn of(&self, subject: &Subject) -> Self {
        Self { family: subject.family, name: subject.name, ..self.clone() }
    }

    fn break_by(&mut self, violation: Option<Violation>) {
        let Some(Violation { property, text, schedule, narrative, steps }) = violation else {
            return;
        };
        self.steps = steps;
        self.violated = Some(property);
        self.schedule = Some(schedule.to_string());
        self.narrative = narrative;
        self.narrative.push(text);
    }
}

/// Returns the scenarios of a lock.
pub(crate) fn lock<T: Lock>(subject: &Subject) -> Vec<Case> {
    let Subject { name, family, promises, .. } = *subject;
    let turns = visits::<T>(format!("{name}/turns"), family, WRITERS, promises);
    let mut all = vec![Case::new("turns", "three tasks take turns", turns)];
    if promises.contains(&Promise::Shared) {
        let readers = visits::<T>(format!("{name}/readers"), family, READERS, promises);
        all.push(Case::new("readers", "two readers among the tasks", readers));
        let together = together::<T>(format!("{name}/together"), family);
        all.push(Case::new("together", "readers that wait for each other inside", together));
    }
    if promises.contains(&Promise::Bounded) {
        let hog = passes::<T>(format!("{name}/hog"), family, 1);
        all.push(Case::new("hog", "an owner that immediately acquires it again", hog));
        let hogs = passes::<T>(format!("{name}/two-hogs"), family, 2);
        all.push(Case::new("two-hogs", "two owners that immediately acquire it again", hogs));
    }
    for shape in SHAPES.iter().filter(|shape| shape.suits(promises)) {
        let scenario = script::<T>(format!("{name}/{}", shape.name), family, shape);
        all.push(Case::new(shape.name, shape.about, scenario));
    }
    all
}

fn zone_cases<B>(subject: &Subject) -> Vec<Case>
where
    B: Bulk<Model, TicketLock<Model>> + Copy + Default,
{
    let cases = ZONE_SHAPES.iter().map(|shape| {
        let scenario = zone_scenario(subject.name, B::default(), shape);
        Case::new(shape.name, shape.about, scenario)
    });
    cases.collect()
}

fn rcu_cases<const SECTIONS: bool>(subject: &Subject) -> Vec<Case> {
    let cases = RCU_SHAPES.iter().map(|shape| {
        let scenario = rcu_scenario::<SECTIONS>(subject.name, shape);
        Case::new(shape.name, shape.about, scenario)
    });
    cases.collect()
}

/// Returns the subject of a policy of the zone lock.
pub(crate) fn zone_subject<B>(name: &'static str, about: &'static str) -> Subject
where
    B: Bulk<Model, TicketLock<Model>> + Copy + Default,
{
    let scenarios = zone_cases::<B>;
    let (family, busted, is_one_object) = ("zone", false, false);
    let memory = Memory::Sc;
    let (promises, twin): (&[_], _) = (&[], None);
    Subject { name, family, about, promises, busted, is_one_object, twin, memory, scenarios }
}

/// Returns the subject of RCU, whose readers announce their `SECTIONS`.
pub(crate) fn rcu_subject<const SECTIONS: bool>(
    name: &'static str,
    about: &'static str,
) -> Subject {
    let scenarios = rcu_cases::<SECTIONS>;
    let (family, busted, is_one_object) = ("rcu", false, false);
    let memory = Memory::Sc;
    let (promises, twin): (&[_], _) = (&[], None);
    Subject { name, family, about, promises, busted, is_one_object, twin, memory, scenarios }
}
