//! Depth-first search: each order with a bounded number of preemptions, or one order of each class.

use super::cycles::{Cycles, START, Slots, served};
use super::execution::run::{Close, Guide, Point, run};
use super::execution::saved::Saved;
use super::execution::state::State;
use super::footprint::Asleep;
use super::memory::Memory;
use super::scenario::{Failure, Property, Scenario};
use super::schedule::{Choice, Recorder, Run, can_continue, default_choice};
use super::table::Table;
use core::num::NonZeroU8;

/// Number of steps after which a node follows although it has only one choice: they may be a loop.
const LONG: usize = 64;

/// A point of an execution with more than one choice, or after a long way without one.
struct Node {
    choices: Vec<Choice>,
    at: usize,
    /// The state there, if states are remembered.
    state: Option<State>,
    /// Its number among the states of [`Search::cycles`].
    number: usize,
    /// Whether a step since the node before it may have written.
    wrote: bool,
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

/// Numbers of stale steps that a bound admits.
const STALE: usize = 3;

/// How a state was reached.
#[derive(Clone, Copy, Default)]
struct Met {
    /// Steps that were asleep: orders that begin with them are excluded.
    asleep: Asleep,
    /// For each number of stale steps, the fewest preemptions with it, if fewer stale steps need
    /// more.
    fewest: [Option<Reached>; STALE],
}

/// Preemptions before a state, and the number of the search that reached it with these.
#[derive(Clone, Copy)]
struct Reached {
    preemptions: u8,
    round: NonZeroU8,
}

impl Met {
    fn new(asleep: Asleep) -> Self {
        Self { asleep, fewest: [None; STALE] }
    }

    /// Returns whether it was reached with at most this number of stale steps.
    fn is_reached_with(&self, stale: usize) -> bool {
        self.fewest[..=stale].iter().any(Option::is_some)
    }

    /// Returns whether all that is within the bounds after these preemptions and stale steps was
    /// executed in this `round`, or will be, and records that it will be.
    ///
    /// The latter holds if the state can be reached with fewer of one and not more of the other,
    /// which an earlier search may know. This search also reaches it so: on the way with the fewest
    /// there is no state that could be reached with fewer.
    fn covers(&mut self, (preemptions, stale): (u8, usize), round: NonZeroU8) -> bool {
        let before = self.fewest[..stale].iter().flatten();
        let fewest = self.fewest[stale];
        let fewest = fewest.filter(|by| by.round == round || by.preemptions < preemptions);
        if before.chain(&fewest).any(|by| by.preemptions <= preemptions) {
            return true;
        }
        self.fewest[stale] = Some(Reached { preemptions, round });
        for more in &mut self.fewest[stale + 1..] {
            *more = more.filter(|by| by.preemptions < preemptions);
        }
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
    /// States that were reached at points with a choice, if states are remembered. A search with
    /// wider bounds keeps those of the one before.
    met: Option<Table<Met>>,
    /// Number of the search among those that share [`Self::met`].
    round: NonZeroU8,
    /// The states and the steps between them, if a state was reached again on the way from it.
    /// Then all steps are followed, since an order of independent steps may close no cycle.
    cycles: Option<Cycles>,
    /// Whether such a state was just reached for the first time: the search begins again.
    loops: bool,
    /// Memory for the choices of a step.
    spare: Vec<Choice>,
    /// Memory for saved points.
    olds: Vec<Saved>,
}

impl Search {
    /// Returns the first search of a scenario, or one that no other precedes.
    pub(super) fn new(scope: Scope, remembers: bool) -> Self {
        let met = remembers.then(Table::new);
        let (nodes, cut, skipped, cycles, loops) = (Vec::new(), false, false, None, false);
        let (round, spare, olds) = (NonZeroU8::MIN, Vec::new(), Vec::new());
        Self { nodes, scope, cut, skipped, met, round, cycles, loops, spare, olds }
    }

    /// Returns the search that follows this one, with wider bounds.
    pub(super) fn widened(self, scope: Scope) -> Self {
        let bounded = self.scope.preemptions.and(scope.preemptions).is_some();
        let (met, round) = (self.met, self.round.saturating_add(1));
        let next = Self::new(scope, met.is_some());
        if bounded { Self { met, round, ..next } } else { next }
    }

    /// Returns whether `choice` is another step than one of the task that ran last.
    fn switches(last: Option<usize>, choice: Choice) -> bool {
        !(choice.is_flush() || last.is_some_and(|last| choice.is_step_of(last)))
    }

    /// Returns the choices that are awake and within the bounds, the default one first.
    fn admissible(
        &mut self,
        choices: &[Choice],
        last: Option<usize>,
        course: &Course,
    ) -> Vec<Choice> {
        let mut awake = std::mem::take(&mut self.spare);
        awake.clear();
        awake.extend(choices.iter().filter(|&&choice| !course.asleep.contains(choice)));
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
            let (before, continues) = (awake.len(), can_continue(&awake, last));
            awake.retain(|&choice| !(continues && Self::switches(last, choice)));
            self.cut |= awake.len() < before;
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
        choices: &[Choice],
        course: Course,
        segment: &mut Segment,
        point: &Point<'_>,
    ) -> Option<Node> {
        let bounded = self.scope.preemptions.is_some();
        let Course { asleep, used, stale, .. } = course;
        let preemptions = if bounded { used as u8 } else { 0 };
        let stale = if self.scope.stale.is_some() { stale as usize } else { 0 };
        let used = (preemptions, stale);
        // Only a task that can continue can be preempted.
        let continues = bounded && can_continue(point.choices, point.last);
        let matters = |_: &usize| continues || point.execution.tasks.has_pause();
        let state = || point.execution.state(point.last.filter(matters));
        let known = self.met.as_mut().and_then(|met| Some((met, state()?)));
        let state = known.as_ref().map(|&(_, state)| state);
        let number = match (&mut self.cycles, state) {
            (Some(cycles), Some(state)) => {
                let from = self.nodes.last().map_or(START, |node| node.number);
                cycles.add(from, state.values, &segment.steps, segment.served)
            }
            _ => START,
        };
        let (mut other, mut left) = (None, None);
        match known.map(|(met, state)| (met.get(state.whole).copied(), met, state)) {
            None => {}
            Some((None, met, state)) => {
                let mut nodes = self.nodes.iter();
                let first =
                    nodes.position(|node| node.state.is_some_and(|at| at.values == state.values));
                if let Some(first) = first.filter(|_| state.values != state.whole) {
                    // A loop. Without the events of a round that only reads, `psc` has fewer edges:
                    // what can follow the round can also follow the state before it. Rounds that
                    // write are not judged.
                    self.loops |= self.cycles.is_none();
                    let wrote = self.nodes[first + 1..].iter().any(|node| node.wrote);
                    self.skipped |= wrote || segment.wrote;
                    return None;
                }
                let mut new = Met::new(asleep);
                new.covers(used, self.round);
                met.insert(state.whole, new);
            }
            Some((Some(_), met, state)) => {
                if self.cycles.is_none() {
                    self.loops = self.nodes.iter().any(|node| node.state == Some(state));
                }
                let met = met.get(state.whole).expect("it was there");
                if bounded {
                    if met.covers(used, self.round) {
                        return None;
                    }
                } else if !met.is_reached_with(used.1) {
                    *met = Met::new(asleep);
                    met.covers(used, self.round);
                } else {
                    let fresh = choices.iter().filter(|&&choice| met.asleep.contains(choice));
                    let fresh: Vec<_> = fresh.copied().collect();
                    if fresh.is_empty() {
                        return None;
                    }
                    left = Some(fresh);
                    met.asleep = met.asleep.and(asleep);
                    other = Some(met.asleep);
                }
            }
        }
        let choices = left.unwrap_or_else(|| choices.to_vec());
        let saves = state.is_some() && choices.len() > 1;
        let old = if saves { self.olds.pop().unwrap_or_default() } else { Saved::default() };
        let moment = saves.then(|| point.save(old)).flatten().map(|saved| (saved, course));
        let wrote = segment.wrote;
        Some(Node { choices, at: 0, state, number, wrote, asleep: other, moment })
    }

    /// Advances to the next order. Returns whether there is one.
    fn advance(&mut self) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            node.at += 1;
            if node.at < node.choices.len() {
                return true;
            }
            let moment = self.nodes.pop().and_then(|node| node.moment);
            self.olds.extend(moment.map(|(saved, _)| saved));
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
            let segment = Segment::default();
            let mut walk = Walk {
                search: self,
                scenario,
                course,
                segment,
                recorder,
                explored,
                limit,
                found: None,
            };
            let outcome = run(scenario, memory, steps, false, &mut walk);
            if let Some(found) = walk.found {
                return found;
            }
            if outcome.again || self.loops {
                let cycles = (self.loops || self.cycles.is_some()).then(Cycles::new);
                *self = Self { cycles, ..Self::new(self.scope, self.met.is_some()) };
            }
        }
    }
}

/// The steps since the last node.
#[derive(Default)]
struct Segment {
    steps: Vec<Choice>,
    served: Slots,
    /// Whether a step may have written.
    wrote: bool,
}

/// Executions of a search, up to an execution that must start from the beginning.
struct Walk<'a> {
    search: &'a mut Search,
    scenario: &'a Scenario,
    course: Course,
    segment: Segment,
    recorder: Recorder,
    explored: &'a mut u64,
    limit: u64,
    found: Option<Found>,
}

impl Guide for Walk<'_> {
    /// Chooses the next step of one execution, until its end or until nothing new can follow.
    fn choose(&mut self, point: &Point<'_>) -> Option<Choice> {
        let &Point { choices, last, .. } = point;
        let Self { search, course, segment, recorder, .. } = self;
        let admissible = search.admissible(choices, last, course);
        let mut choice = *admissible.first()?;
        let mut nodes: (&[Choice], usize) = (&[], 0);
        let is_long = search.met.is_some() && segment.steps.len() >= LONG;
        if admissible.len() > 1 || is_long {
            if course.depth == search.nodes.len() {
                course.mark = recorder.mark();
                let node = search.node(&admissible, *course, segment, point);
                search.spare = admissible;
                search.nodes.push(node?);
            } else {
                let node = &search.nodes[course.depth];
                let repeats = node.asleep.is_some() || node.choices == admissible;
                assert!(repeats, "`{}` differs between two executions", self.scenario.name);
                search.spare = admissible;
            }
            let node = &search.nodes[course.depth];
            course.asleep = node.asleep.unwrap_or(course.asleep);
            choice = node.choices[node.at];
            nodes = (&node.choices, node.at);
            course.depth += 1;
            segment.steps.clear();
            (segment.served, segment.wrote) = (0, false);
        } else {
            search.spare = admissible;
        }
        segment.steps.push(choice);
        segment.served |= served(choices, choice);
        segment.wrote |= point.execution.writes(choice);
        if search.cycles.is_none() && search.scope.preemptions.is_none() {
            course.asleep.step(nodes, choice, choices, |choice| point.execution.touched(choice));
        }
        course.stale += u32::from(choice.is_stale());
        let switches = Search::switches(last, choice);
        course.used += u32::from(switches && can_continue(choices, last));
        recorder.record(choices, last, choice);
        Some(choice)
    }

    fn again(&mut self, failure: Option<&Failure>, close: Close) -> Option<&Saved> {
        *self.explored += 1;
        let Self { search, .. } = self;
        search.cut |= close == Close::Endless;
        search.skipped |= close == Close::Unjudged;
        if search.loops {
            return None;
        }
        if let Some(&(property, _)) = failure {
            let runs = std::mem::take(&mut self.recorder).runs();
            self.found = Some(Found::Violation(property, runs));
        } else {
            let left = search.advance();
            let limit = *self.explored >= self.limit;
            let Search { scope, cut, skipped, .. } = *search;
            let is_bounded = scope.preemptions.is_some() || scope.stale.is_some();
            let cycle = search.cycles.as_mut().and_then(|cycles| cycles.find(!left || limit));
            self.found = match (cycle, cut, skipped) {
                (Some(runs), ..) => Some(Found::Violation(Property::NoLivelock, runs)),
                _ if left => limit.then_some(Found::Limit),
                (None, false, false) => Some(Found::Everything),
                (None, true, false) if is_bounded => Some(Found::Bound),
                _ => Some(Found::Limit),
            };
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
