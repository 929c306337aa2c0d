//! The search for an order that violates a property.

use super::execution::run::run;
use super::memory::Memory;
use super::narrative::{Step, tell};
use super::retrace::{Retraced, retrace};
use super::scenario::{Failure, Property, Scenario};
use super::schedule::{Choice, Recorder, Run, Schedule, ScheduleError};
use super::search::{Found, Scope, Search};
use super::shorten::shorten;
use core::ops::Range;

/// Preemption bounds that are searched first: most errors need no more.
const FIRST_BOUNDS: [u32; 3] = [0, 1, 2];

/// Bounds that are searched if the search without a bound did not finish. The search beyond them is
/// random.
const LAST_BOUNDS: [u32; 6] = [3, 4, 5, 6, 7, 8];

/// Bounds on preemptions and on stale steps that are searched under weaker memory, with the share
/// of the executions in percent after which the search ends. The last two follow one order of each
/// class, and the very last all stale steps.
const WEAK_BOUNDS: [Bounds; 6] = [
    (Some(0), Some(1), 90),
    (Some(1), Some(1), 90),
    (Some(2), Some(1), 90),
    (Some(2), Some(2), 90),
    (None, Some(2), 95),
    (None, None, 100),
];

/// Percentages of the executions after which the first bounded searches, the search of one order of
/// each class, and the last bounded searches end.
const SHARES: [u64; 3] = [70, 85, 95];

/// Initial state of the random search with seed 1. Other seeds use an odd multiple of it.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Limits of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Number of executions of the scenario, divided among the parts of the search.
    pub executions: u64,
    /// Number of executions with at most two preemptions, if it is larger than their share of
    /// `executions`. The other parts keep their shares.
    pub few_preemptions: u64,
    /// Maximum number of steps of one execution. An execution with more steps counts as a livelock.
    pub steps: usize,
    /// Seed of the random search. The same seed always gives the same result.
    pub seed: u64,
}

impl Budget {
    /// Returns the maximum number of executions of the scenario.
    pub fn most(&self) -> u64 {
        let share = self.executions / 100 * SHARES[0];
        self.executions + self.few_preemptions.saturating_sub(share)
    }
}

impl Default for Budget {
    /// 20,000 executions of at most 3,000 steps: 0.1 to 0.2 seconds for a scenario of three tasks.
    fn default() -> Self {
        Self { executions: 20_000, few_preemptions: 0, steps: 3000, seed: 1 }
    }
}

/// A violated property with the order that violates it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The violated property.
    pub property: Property,
    /// The observation, as a sentence.
    pub text: String,
    /// The order, as short as it could be made.
    pub schedule: Schedule,
    /// One line for each step of that order.
    pub narrative: Vec<String>,
    /// The same steps.
    pub steps: Vec<Step>,
}

/// Result of an exploration.
#[derive(Clone, Debug)]
pub struct Report {
    /// Number of executions, including those that shortened the violation.
    pub explored: u64,
    /// Whether every order was executed, up to the exchange of independent steps.
    pub complete: bool,
    /// Largest number of preemptions up to which every order was executed.
    pub preemptions: Option<u32>,
    /// Progress of the search of one order of each class: the explored share of the tree of
    /// choices, in which all subtrees below a choice count the same. 1 when it is complete.
    pub share: f64,
    /// Largest number of stale steps up to which every order with that number of preemptions was
    /// executed. `None` if there is no limit.
    pub stale: Option<u32>,
    /// The violation, if one was found.
    pub violation: Option<Violation>,
}

impl Report {
    pub(super) fn new() -> Self {
        let (preemptions, stale) = (None, Some(0));
        Self { explored: 0, complete: false, preemptions, share: 0.0, stale, violation: None }
    }
}

/// Searches for a violation of `scenario` within `budget`, and returns a report of the search.
pub fn explore(scenario: &Scenario, budget: Budget) -> Report {
    search(scenario, budget, false)
}

/// Searches for a violation of `scenario` under a memory model weaker than sequential consistency,
/// within `budget`. With `remembers`, no order is followed beyond a state that was seen before, as
/// in [`explore_states`].
pub fn explore_weak(
    scenario: &Scenario,
    memory: Memory,
    budget: Budget,
    remembers: bool,
) -> Report {
    weak(scenario, memory, budget, remembers, &WEAK_BOUNDS)
}

/// The first of [`WEAK_BOUNDS`], and those up to two preemptions with two stale steps.
pub(crate) const FEW_BOUNDS: [Range<usize>; 2] = [0..1, 1..4];

/// The last of [`WEAK_BOUNDS`]: one order of each class of all executions.
pub(crate) const NO_BOUNDS: Range<usize> = 5..6;

/// Like [`explore_weak`], but within the bounds of `few` only: one of [`FEW_BOUNDS`], or
/// [`NO_BOUNDS`].
pub(crate) fn explore_few(
    scenario: &Scenario,
    memory: Memory,
    budget: Budget,
    remembers: bool,
    few: &Range<usize>,
) -> Report {
    weak(scenario, memory, budget, remembers, &WEAK_BOUNDS[few.clone()])
}

/// Bounds on preemptions and on stale steps, and the share of the executions in percent.
type Bounds = (Option<u32>, Option<u32>, u64);

fn weak(
    scenario: &Scenario,
    memory: Memory,
    budget: Budget,
    remembers: bool,
    bounds: &[Bounds],
) -> Report {
    let mut report = Report::new();
    let mut before: Option<Search> = None;
    for &(preemptions, stale, share) in bounds {
        let limit = (budget.executions / 100 * share).max(1);
        if report.explored >= limit {
            continue;
        }
        let scope = Scope { memory, preemptions, stale };
        let search = before.take();
        let search = search.map_or_else(|| Search::new(scope, remembers), |it| it.widened(scope));
        let search = before.insert(search);
        match search.run(scenario, budget.steps, limit, &mut report.explored) {
            Found::Violation(property, runs) => {
                return found(scenario, memory, budget, report, property, runs);
            }
            Found::Limit => {}
            Found::Bound => (report.preemptions, report.stale) = (preemptions, stale),
            Found::Everything => {
                (report.preemptions, report.stale) = (preemptions, None);
                (report.complete, report.share) = (true, 1.0);
                return report;
            }
        }
    }
    report
}

/// Like [`explore`], but follows no order beyond a state that was seen before, if the instances of
/// `scenario` are made with [`Instance::of`](super::Instance::of).
pub fn explore_states(scenario: &Scenario, budget: Budget) -> Report {
    search(scenario, budget, true)
}

fn search(scenario: &Scenario, budget: Budget, remembers: bool) -> Report {
    let mut report = Report::new();
    let Budget { executions, few_preemptions, steps, .. } = budget;
    let [first, classes, last] = SHARES.map(|share| (executions / 100 * share).max(1));
    let bounded = |bounds: &'static [u32], limit| bounds.iter().map(move |&b| (Some(b), limit));
    let parts = bounded(&FIRST_BOUNDS, first.max(few_preemptions));
    let parts = parts.chain([(None, classes)]).chain(bounded(&LAST_BOUNDS, last));
    let (mut out, mut beyond) = (false, 0);
    let mut before: Option<Search> = None;
    for (part, (bound, limit)) in parts.enumerate() {
        // If the search with a bound did not finish, higher bounds are skipped.
        if out && bound.is_some() {
            continue;
        }
        if part == FIRST_BOUNDS.len() {
            beyond = report.explored.saturating_sub(first);
        }
        let limit = limit + beyond;
        let scope = Scope { memory: Memory::Sc, preemptions: bound, stale: Some(0) };
        let search = before.take();
        let search = search.map_or_else(|| Search::new(scope, remembers), |it| it.widened(scope));
        let search = before.insert(search);
        match search.run(scenario, steps, limit, &mut report.explored) {
            Found::Violation(property, runs) => {
                return found(scenario, Memory::Sc, budget, report, property, runs);
            }
            Found::Bound => report.preemptions = bound,
            Found::Everything => {
                report.preemptions = bound.or(report.preemptions);
                report.complete = true;
                report.share = 1.0;
                return report;
            }
            Found::Limit => {
                out |= bound.is_some();
                if bound.is_none() {
                    report.share = search.share();
                }
            }
        }
    }
    let executions = executions + beyond;
    random(scenario, Budget { executions, ..budget }, report)
}

/// A random number generator: xorshift64*.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit
    }
}

/// Searches with random priorities that are lowered at random steps (PCT).
fn random(scenario: &Scenario, budget: Budget, mut report: Report) -> Report {
    // The factor is odd, so the state is nonzero for every seed.
    let mut draw = Draw(SEED.wrapping_mul(budget.seed.wrapping_mul(2).wrapping_sub(1)));
    // Length of an execution, estimated from previous executions.
    let mut length = 32;
    while report.explored < budget.executions {
        report.explored += 1;
        let mut priorities: Vec<usize> = Vec::new();
        let changes: Vec<usize> = (0..draw.below(4)).map(|_| draw.below(length)).collect();
        let (mut step, mut lowest) = (0, usize::MAX / 2);
        let mut recorder = Recorder::default();
        let mut choose = |choices: &[Choice], last: Option<usize>| {
            let tasks = choices.iter().map(|choice| choice.task() + 1).max().unwrap_or(0);
            while priorities.len() < tasks {
                priorities.push(usize::MAX / 2 + 1 + draw.below(1 << 20));
            }
            if let Some(last) = last.filter(|_| changes.contains(&step)) {
                lowest -= 1;
                priorities[last] = lowest;
            }
            step += 1;
            // In one of eight steps a deadline fires before the task with the highest priority
            // runs.
            let early = draw.below(8) == 0;
            let allowed = choices.iter().filter(|choice| early || !choice.is_deadline());
            let best = allowed.max_by_key(|choice| (priorities[choice.task()], choice.task()));
            let choice = best.copied().unwrap_or(choices[0]);
            recorder.record(choices, last, choice);
            Some(choice)
        };
        let outcome = run(scenario, Memory::Sc, budget.steps, false, &mut choose);
        length = length.max(step);
        if let Some((property, _)) = outcome.failure {
            return found(scenario, Memory::Sc, budget, report, property, recorder.runs());
        }
    }
    report
}

/// Shortens a failing order and narrates it.
fn found(
    scenario: &Scenario,
    memory: Memory,
    budget: Budget,
    mut report: Report,
    property: Property,
    runs: Vec<Run>,
) -> Report {
    let runs = shorten((scenario, memory), budget.steps, property, runs, &mut report.explored);
    let schedule = Schedule { scenario: scenario.name.clone(), memory, runs };
    let (steps, failure) = follow(scenario, &schedule, budget.steps)
        .expect("an order that was executed can be executed again");
    let (property, text) = failure.expect("an order that failed fails again");
    report.violation = Some(Violation { property, text, schedule, narrative: tell(&steps), steps });
    report
}

/// The steps of an order, and the property that it violates, if any.
pub type Told = (Vec<Step>, Option<Failure>);

fn follow(scenario: &Scenario, schedule: &Schedule, steps: usize) -> Result<Told, ScheduleError> {
    let Schedule { memory, runs, .. } = schedule;
    let Retraced { outcome, impossible, .. } =
        retrace((scenario, *memory), steps, runs, false, true);
    if outcome.again {
        return follow(scenario, schedule, steps);
    }
    if let Some(run) = impossible {
        return Err(ScheduleError::Impossible(run + 1));
    }
    let (mut steps, mut failure) = (outcome.steps, outcome.failure);
    if let Some((Property::NoLivelock, text)) = &mut failure
        && let Some(round) = cut_rounds(&mut steps)
    {
        let last = if round == 1 { "step repeats" } else { "steps repeat" };
        *text = format!("{text}: the last {round} {last}");
    }
    Ok((steps, failure))
}

/// The longest round of a livelock that is looked for.
const ROUND: usize = 200;

/// Cuts all rounds but one from the end of an execution that ended with several equal ones. Returns
/// the number of steps of the round.
fn cut_rounds(steps: &mut Vec<Step>) -> Option<usize> {
    let count = steps.len();
    let mut rounds = 1..=ROUND.min(count / 3);
    let round =
        rounds.find(|round| steps[count - 2 * round..].starts_with(&steps[count - round..]))?;
    let again = |&at: &usize| steps[at] == steps[at + round];
    let repeated = (0..count - round).rev().take_while(again).count();
    steps.truncate(count - repeated);
    Some(round)
}

/// Executes `scenario` once in the order of `schedule`. Returns the steps, and the violated
/// property, if any.
///
/// # Errors
///
/// Fails if the schedule does not fit the scenario.
pub fn replay(scenario: &Scenario, schedule: &Schedule) -> Result<Told, ScheduleError> {
    follow(scenario, schedule, Budget::default().steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Instance, Model, Word};
    use convoy_sync::{Atomic, Platform, Sleep};
    use std::sync::atomic::Ordering::SeqCst;

    type Words = [Word<u32>; 2];

    /// Returns the number of executions of the search by classes, and its result.
    fn classes(body: fn(&Words, usize)) -> (u64, Found) {
        let scenario = Scenario::new("classes", [], move || {
            Instance::sharing([Word::new(0), Word::new(0)], 2, body, |_, end| {
                match end.asleep.as_slice() {
                    [] => Ok(()),
                    asleep => Err((Property::NoDeadlock, format!("{asleep:?}"))),
                }
            })
        });
        let mut explored = 0;
        let scope = Scope { memory: Memory::Sc, preemptions: None, stale: Some(0) };
        let found = Search::new(scope, false).run(&scenario, 100, 1000, &mut explored);
        (explored, found)
    }

    #[test]
    fn independent_steps_have_one_order_and_dependent_ones_all() {
        let (apart, found) = classes(|words, task| {
            words[task].fetch_add(1, SeqCst);
            words[task].fetch_add(1, SeqCst);
        });
        // One order of 6. The others are abandoned where they would repeat it.
        assert!(matches!(found, Found::Everything));
        assert!(apart <= 3, "{apart}");
        let (reads, _) = classes(|words, _| {
            words[0].load(SeqCst);
            words[0].load(SeqCst);
        });
        assert_eq!(reads, apart);
        let (together, _) = classes(|words, _| {
            words[0].fetch_add(1, SeqCst);
            words[0].fetch_add(1, SeqCst);
        });
        assert_eq!(together, 6);
    }

    #[test]
    fn classes_keep_the_order_that_loses_a_wakeup() {
        let (_, found) = classes(|words, task| {
            if task == 0 {
                if words[0].load(SeqCst) == 0 {
                    Model::wait(&words[1], 0, Sleep::Uninterruptible, None);
                }
            } else {
                words[0].store(1, SeqCst);
                Model::wake(&raw const words[1], 1);
            }
        });
        assert!(matches!(found, Found::Violation(Property::NoDeadlock, _)));
    }
}
