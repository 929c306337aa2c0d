//! The search for an order that violates a property.

use super::execution::{Outcome, run};
use super::scenario::{Property, Scenario};
use super::schedule::{Choice, Follower, Recorder, Run, Schedule, ScheduleError, default_choice};
use super::shorten::shorten;

/// The largest bound on preemptions; beyond it the search is random.
const PREEMPTIONS_MAX: u32 = 8;

/// Seed of the random part. Fixed: a check gives the same answer every time.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// How much an exploration may cost.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Executions of the scenario.
    pub executions: u64,
    /// Steps of one execution before it counts as a livelock.
    pub steps: usize,
}

impl Default for Budget {
    /// 200,000 executions of at most 3,000 steps: about a second for a scenario of three tasks.
    fn default() -> Self {
        Self { executions: 200_000, steps: 3000 }
    }
}

/// A violated property with the order that shows it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What was violated.
    pub property: Property,
    /// What was seen.
    pub text: String,
    /// The order, as short as it could be made.
    pub schedule: Schedule,
    /// One line for each step of that order.
    pub narrative: Vec<String>,
}

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Executions made, those that shortened the violation included.
    pub explored: u64,
    /// Every order was executed.
    pub complete: bool,
    /// Every order with at most this many preemptions was executed.
    pub preemptions: Option<u32>,
    /// The violation, if there was one.
    pub violation: Option<Violation>,
}

/// A point of an execution with more than one choice.
struct Node {
    choices: Vec<Choice>,
    at: usize,
}

/// Depth-first search over orders with at most `bound` preemptions.
struct Search {
    nodes: Vec<Node>,
    bound: u32,
    /// The bound left something out.
    cut: bool,
}

impl Search {
    fn new(bound: u32) -> Self {
        Self { nodes: Vec::new(), bound, cut: false }
    }

    /// Whether taking `choice` preempts the task that ran last.
    fn preempts(choices: &[Choice], last: Option<usize>, choice: Choice) -> bool {
        let on = last.map(Choice::run);
        on.is_some_and(|on| choice != on && choices.contains(&on))
    }

    /// The choices within the bound, the default one first.
    fn admissible(&mut self, choices: &[Choice], last: Option<usize>, used: u32) -> Vec<Choice> {
        let first = default_choice(choices, last);
        let mut all = vec![first];
        for &choice in choices.iter().filter(|&&choice| choice != first) {
            if used < self.bound || !Self::preempts(choices, last, choice) {
                all.push(choice);
            } else {
                self.cut = true;
            }
        }
        all
    }

    fn execute(&mut self, scenario: &Scenario, steps: usize) -> (Outcome, Recorder) {
        let (mut depth, mut used) = (0, 0);
        let mut recorder = Recorder::default();
        let mut choose = |choices: &[Choice], last: Option<usize>| {
            let admissible = self.admissible(choices, last, used);
            let mut choice = admissible[0];
            if admissible.len() > 1 {
                if depth == self.nodes.len() {
                    self.nodes.push(Node { choices: admissible, at: 0 });
                } else {
                    let same = self.nodes[depth].choices == admissible;
                    assert!(same, "`{}` differs between two executions", scenario.name);
                }
                let node = &self.nodes[depth];
                choice = node.choices[node.at];
                depth += 1;
            }
            used += u32::from(Self::preempts(choices, last, choice));
            recorder.record(choices, last, choice);
            Some(choice)
        };
        let outcome = run(scenario, steps, false, &mut choose);
        (outcome, recorder)
    }

    /// Moves on to the next order; returns whether there is one.
    fn advance(&mut self) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            node.at += 1;
            if node.at < node.choices.len() {
                return true;
            }
            self.nodes.pop();
        }
        false
    }
}

/// Looks for a violation of `scenario` within `budget`.
pub fn explore(scenario: &Scenario, budget: Budget) -> Report {
    let mut report = Report { explored: 0, complete: false, preemptions: None, violation: None };
    // Depth-first search gets three quarters, random search what is left.
    let bounded = budget.executions - budget.executions / 4;
    for bound in 0..=PREEMPTIONS_MAX {
        let mut search = Search::new(bound);
        loop {
            if report.explored >= bounded {
                return random(scenario, budget, report);
            }
            report.explored += 1;
            let (outcome, recorder) = search.execute(scenario, budget.steps);
            if let Some((property, _)) = outcome.failure {
                return found(scenario, budget, report, property, recorder.runs());
            }
            if !search.advance() {
                break;
            }
        }
        report.preemptions = Some(bound);
        if !search.cut {
            report.complete = true;
            return report;
        }
    }
    random(scenario, budget, report)
}

/// Random numbers: xorshift64*.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit
    }
}

/// Random priorities, lowered at random steps (PCT).
fn random(scenario: &Scenario, budget: Budget, mut report: Report) -> Report {
    let mut draw = Draw(SEED);
    // Length of an execution, learnt from those seen so far.
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
            // A deadline fires instead of the best task in one of eight steps.
            let early = draw.below(8) == 0;
            let allowed = choices.iter().filter(|choice| early || !choice.is_deadline());
            let best = allowed.max_by_key(|choice| (priorities[choice.task()], choice.task()));
            let choice = best.copied().unwrap_or(choices[0]);
            recorder.record(choices, last, choice);
            Some(choice)
        };
        let outcome = run(scenario, budget.steps, false, &mut choose);
        length = length.max(step);
        if let Some((property, _)) = outcome.failure {
            return found(scenario, budget, report, property, recorder.runs());
        }
    }
    report
}

/// Shortens a failing order and tells it.
fn found(
    scenario: &Scenario,
    budget: Budget,
    mut report: Report,
    property: Property,
    runs: Vec<Run>,
) -> Report {
    let runs = shorten(scenario, budget.steps, property, runs, &mut report.explored);
    let schedule = Schedule { scenario: scenario.name.clone(), runs };
    let (narrative, failure) = follow(scenario, &schedule, budget.steps)
        .expect("an order that was executed can be executed again");
    let (property, text) = failure.expect("an order that failed fails again");
    report.violation = Some(Violation { property, text, schedule, narrative });
    report
}

type Told = (Vec<String>, Option<(Property, String)>);

fn follow(scenario: &Scenario, schedule: &Schedule, steps: usize) -> Result<Told, ScheduleError> {
    let mut follower = Follower::new(&schedule.runs, false);
    let outcome = run(scenario, steps, true, &mut |choices, last| follower.choose(choices, last));
    match follower.impossible {
        Some(run) => Err(ScheduleError::Impossible(run + 1)),
        None => Ok((outcome.lines, outcome.failure)),
    }
}

/// Executes `scenario` once in the order of `schedule`: one line for each step, the last one says
/// what was violated, if anything was.
///
/// # Errors
///
/// When the schedule does not fit the scenario.
pub fn replay(
    scenario: &Scenario,
    schedule: &Schedule,
) -> Result<(Vec<String>, Option<Property>), ScheduleError> {
    let (mut lines, failure) = follow(scenario, schedule, Budget::default().steps)?;
    let property = failure.map(|(property, text)| {
        lines.push(format!("violated: {}: {text}", property.name()));
        property
    });
    Ok((lines, property))
}
