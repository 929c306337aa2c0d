//! Depth-first search: each order with a bounded number of preemptions, or one order of each class.

use super::execution::run::{Guide, Point, run};
use super::execution::saved::Saved;
use super::footprint::Asleep;
use super::memory::Memory;
use super::scenario::{Failure, Property, Scenario};
use super::schedule::{Choice, Recorder, Run, can_continue, default_choice};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A point of an execution with more than one choice.
struct Node {
    choices: Vec<Choice>,
    at: usize,
    /// The state there, if states are remembered.
    state: Option<u128>,
    /// The sleep set there, if it differs because the state was seen before.
    asleep: Option<Asleep>,
    /// The saved point, if the execution can return to it.
    moment: Option<(Saved, Course)>,
}

/// Progress of a search in the current order, at a point of it or at its end.
#[derive(Clone, Copy, Default)]
struct Course {
    /// Nodes passed.
    depth: usize,
    /// Preemptions.
    used: u32,
    /// Stale steps.
    stale: u32,
    asleep: Asleep,
    /// [`Recorder::mark`].
    mark: (usize, u32),
}

/// How a state was reached. Everything that can follow it is executed.
struct Met {
    /// Steps that were asleep: orders that begin with them are excluded.
    asleep: Asleep,
    /// Numbers of preemptions and of stale steps for which these choices are within the bounds.
    used: Vec<(u32, u32)>,
}

impl Met {
    /// Returns whether all that is within the bounds after `used` was executed, and records that it
    /// will be.
    fn covers(&mut self, used: (u32, u32)) -> bool {
        let covered = |by: (u32, u32), used: (u32, u32)| by.0 <= used.0 && by.1 <= used.1;
        if self.used.iter().any(|&by| covered(by, used)) {
            return true;
        }
        self.used.retain(|&of| !covered(used, of));
        self.used.push(used);
        false
    }
}

/// What a search includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) memory: Memory,
    /// Preemptions allowed; `None` skips orders that only exchange independent steps instead.
    pub(super) preemptions: Option<u32>,
    /// Stale steps allowed; `None` for any number.
    pub(super) stale: Option<u32>,
}

/// Depth-first search with a bounded number of preemptions, or of one order of each class.
pub(super) struct Search {
    nodes: Vec<Node>,
    scope: Scope,
    /// Whether a bound excluded an order.
    cut: bool,
    /// Whether an execution was abandoned that may be possible.
    skipped: bool,
    /// States that were reached at points with a choice, if states are remembered.
    met: Option<BTreeMap<u128, Met>>,
}

impl Search {
    pub(super) fn new(scope: Scope, remembers: bool) -> Self {
        let met = remembers.then(BTreeMap::new);
        Self { nodes: Vec::new(), scope, cut: false, skipped: false, met }
    }

    /// Returns whether `choice` preempts the task that ran last.
    fn preempts(choices: &[Choice], last: Option<usize>, choice: Choice) -> bool {
        let continues = choice.is_flush() || last.is_some_and(|last| choice.is_step_of(last));
        !continues && can_continue(choices, last)
    }

    /// Puts the default choice first and removes the choices beyond the bound.
    fn admissible(
        &mut self,
        mut awake: Vec<Choice>,
        last: Option<usize>,
        course: &Course,
    ) -> Vec<Choice> {
        if self.scope.stale.is_some_and(|bound| course.stale >= bound) {
            let before = awake.len();
            awake.retain(|choice| !choice.is_stale());
            self.cut |= awake.len() < before;
        }
        if awake.is_empty() {
            return awake;
        }
        let first = default_choice(&awake, last);
        if self.scope.preemptions.is_some_and(|bound| course.used >= bound) {
            let all = awake.clone();
            awake.retain(|&choice| !Self::preempts(&all, last, choice));
            self.cut |= awake.len() < all.len();
        }
        let place = awake.iter().position(|&choice| choice == first);
        awake[..=place.expect("the default choice preempts no task")].rotate_right(1);
        awake
    }

    /// Returns the node of a point that this search reaches for the first time in this order, or
    /// `None` if the state was seen before and everything that follows it is executed from there.
    /// If the state has another sleep set, only steps that were asleep then and are not now are
    /// executed (Godefroid, 1996).
    fn node(
        &mut self,
        mut choices: Vec<Choice>,
        course: Course,
        point: &Point<'_>,
    ) -> Option<Node> {
        let bounded = self.scope.preemptions.is_some();
        let Course { asleep, used, stale, .. } = course;
        let used = (used, if self.scope.stale.is_some() { stale } else { 0 });
        // Only a task that can continue can be preempted.
        let continues = bounded && can_continue(point.choices, point.last);
        let matters = |_: &usize| continues || point.execution.tasks.has_pause();
        let state = || point.execution.state(point.last.filter(matters));
        let known = self.met.as_mut().and_then(|met| Some((met, state()?)));
        let state = known.as_ref().map(|&(_, state)| state);
        let mut other = None;
        match known.map(|(met, state)| met.entry(state)) {
            None => {}
            Some(Entry::Vacant(place)) => {
                place.insert(Met { asleep, used: vec![used] });
            }
            // A cycle that reads old values for ever: memory would make the newer ones visible.
            Some(Entry::Occupied(_))
                if self.scope.stale.is_none()
                    && self.nodes.iter().any(|node| node.state == state) =>
            {
                return None;
            }
            // A cycle: the order is followed until the step limit of an execution is reached.
            Some(Entry::Occupied(_)) if self.nodes.iter().any(|node| node.state == state) => {}
            Some(Entry::Occupied(met)) if bounded => {
                let covered = met.into_mut().covers(used);
                if covered {
                    return None;
                }
            }
            Some(Entry::Occupied(met)) if !met.get().used.iter().any(|by| by.1 <= used.1) => {
                *met.into_mut() = Met { asleep, used: vec![used] };
            }
            Some(Entry::Occupied(met)) => {
                let met = met.into_mut();
                choices.retain(|&choice| met.asleep.contains(choice));
                if choices.is_empty() {
                    return None;
                }
                met.asleep = met.asleep.and(asleep);
                other = Some(met.asleep);
            }
        }
        let saves = state.is_some() && choices.len() > 1;
        let moment = saves.then(|| point.save()).flatten().map(|saved| (saved, course));
        Some(Node { choices, at: 0, state, asleep: other, moment })
    }

    /// Advances to the next order. Returns whether there is one.
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

    /// Returns the part of the tree before the current order, see [`Report::share`].
    pub(super) fn share(&self) -> f64 {
        let (mut share, mut width) = (0.0, 1.0);
        for node in &self.nodes {
            width /= node.choices.len() as f64;
            share += node.at as f64 * width;
        }
        share
    }

    /// Executes orders until one fails, none is left, or `limit` executions were made.
    pub(super) fn run(
        &mut self,
        scenario: &Scenario,
        steps: usize,
        limit: u64,
        explored: &mut u64,
    ) -> Found {
        loop {
            if *explored >= limit {
                return Found::Limit;
            }
            let (course, recorder) = (Course::default(), Recorder::default());
            let memory = self.scope.memory;
            let mut walk =
                Walk { search: self, scenario, course, recorder, explored, limit, found: None };
            let outcome = run(scenario, memory, steps, false, &mut walk);
            if let Some(found) = walk.found {
                return found;
            }
            if outcome.again {
                *self = Self::new(self.scope, self.met.is_some());
            }
        }
    }
}

/// Executions of a search, up to an execution that must start from the beginning.
struct Walk<'a> {
    search: &'a mut Search,
    scenario: &'a Scenario,
    course: Course,
    recorder: Recorder,
    explored: &'a mut u64,
    limit: u64,
    found: Option<Found>,
}

impl Guide for Walk<'_> {
    /// Chooses the next step of one execution, until its end or until nothing new can follow.
    fn choose(&mut self, point: &Point<'_>) -> Option<Choice> {
        let &Point { choices, touched, last, .. } = point;
        let Self { search, course, recorder, .. } = self;
        let admissible = search.admissible(course.asleep.awake(choices), last, course);
        let mut choice = *admissible.first()?;
        let mut nodes: (&[Choice], usize) = (&[], 0);
        if admissible.len() > 1 {
            if course.depth == search.nodes.len() {
                course.mark = recorder.mark();
                let node = search.node(admissible, *course, point)?;
                search.nodes.push(node);
            } else {
                let node = &search.nodes[course.depth];
                let same = node.asleep.is_some() || node.choices == admissible;
                assert!(same, "`{}` differs between two executions", self.scenario.name);
            }
            let node = &search.nodes[course.depth];
            course.asleep = node.asleep.unwrap_or(course.asleep);
            choice = node.choices[node.at];
            nodes = (&node.choices, node.at);
            course.depth += 1;
        }
        if search.scope.preemptions.is_none() {
            course.asleep.step(nodes, choice, choices, touched);
        }
        course.stale += u32::from(choice.is_stale());
        course.used += u32::from(Search::preempts(choices, last, choice));
        recorder.record(choices, last, choice);
        Some(choice)
    }

    fn again(&mut self, failure: Option<&Failure>, is_judged: bool) -> Option<&Saved> {
        *self.explored += 1;
        // Stale steps lead tasks that poll into loops in which no other task runs, or which memory
        // would end: the search of sequentially consistent memory finds livelocks.
        let weak = self.search.scope.memory != Memory::Sc;
        let endless = |property| weak && property == Property::NoLivelock;
        self.search.cut |= failure.is_some_and(|&(property, _)| endless(property));
        self.search.skipped |= !is_judged;
        if let Some(&(property, _)) = failure.filter(|&&(property, _)| !endless(property)) {
            let runs = std::mem::take(&mut self.recorder).runs();
            self.found = Some(Found::Violation(property, runs));
        } else if !self.search.advance() {
            let Search { scope, cut, skipped, .. } = *self.search;
            let is_bounded = scope.preemptions.is_some() || scope.stale.is_some();
            self.found = Some(match (cut, skipped) {
                (false, false) => Found::Everything,
                (true, false) if is_bounded => Found::Bound,
                _ => Found::Limit,
            });
        } else if *self.explored >= self.limit {
            self.found = Some(Found::Limit);
        }
        let moment = self.search.nodes.last().and_then(|node| node.moment.as_ref());
        let (saved, course) = moment.filter(|_| self.found.is_none())?;
        self.course = *course;
        self.recorder.back_to(course.mark);
        Some(saved)
    }
}

/// How a search ended.
pub(super) enum Found {
    Violation(Property, Vec<Run>),
    /// Every order within the bound was executed, and some exceed it.
    Bound,
    /// No order is left.
    Everything,
    /// The execution limit was reached, or an execution could not be judged.
    Limit,
}
