//! Depth-first search: each order with a bounded number of preemptions, or one order of each class.

use super::execution::run::{Guide, Point, run};
use super::execution::saved::Saved;
use super::footprint::Asleep;
use super::scenario::{Failure, Property, Scenario};
use super::schedule::{Choice, Recorder, Run, default_choice};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A point of an execution with more than one choice.
struct Node {
    choices: Vec<Choice>,
    at: usize,
    /// The state there, if states are remembered.
    state: Option<u128>,
    /// The sleep set there, where it is another one because the state was met before.
    asleep: Option<Asleep>,
    /// The moment, if the execution can return to it.
    moment: Option<(Saved, Course)>,
}

/// What a search knows of the present order: at a moment of it, or at its end.
#[derive(Clone, Copy, Default)]
struct Course {
    /// Nodes passed.
    depth: usize,
    /// Preemptions.
    used: u32,
    asleep: Asleep,
    /// [`Recorder::mark`].
    mark: (usize, u32),
}

/// How a state was met first, of which everything that can follow is executed.
struct Met {
    /// Except for what begins with these.
    asleep: Asleep,
    /// Number of preemptions with which these choices are within the bound.
    used: u32,
}

/// Depth-first search: the first `bound` preemptions, or one order of each class.
pub(super) struct Search {
    nodes: Vec<Node>,
    /// Preemptions allowed; `None` leaves out orders that only exchange independent steps instead.
    bound: Option<u32>,
    /// The bound left something out.
    cut: bool,
    /// States that were met at points with a choice, if states are remembered.
    met: Option<BTreeMap<u128, Met>>,
}

impl Search {
    pub(super) fn new(bound: Option<u32>, remembers: bool) -> Self {
        let met = remembers.then(BTreeMap::new);
        Self { nodes: Vec::new(), bound, cut: false, met }
    }

    /// Whether taking `choice` preempts the task that ran last.
    fn preempts(choices: &[Choice], last: Option<usize>, choice: Choice) -> bool {
        let on = last.map(Choice::run);
        on.is_some_and(|on| choice != on && choices.contains(&on))
    }

    /// Puts the default choice first and removes the choices beyond the bound.
    fn admissible(
        &mut self,
        mut awake: Vec<Choice>,
        last: Option<usize>,
        used: u32,
    ) -> Vec<Choice> {
        if awake.is_empty() {
            return awake;
        }
        let first = default_choice(&awake, last);
        if self.bound.is_some_and(|bound| used >= bound) {
            let all = awake.clone();
            awake.retain(|&choice| !Self::preempts(&all, last, choice));
            self.cut |= awake.len() < all.len();
        }
        let place = awake.iter().position(|&choice| choice == first);
        awake[..=place.expect("the default choice preempts nobody")].rotate_right(1);
        awake
    }

    /// The node of a point that no execution of this search has come to in this order; `None` where
    /// the state was met before, and everything that follows is executed from there. A state with
    /// another sleep set is left only by what was asleep and is not now (Godefroid, 1996).
    fn node(
        &mut self,
        mut choices: Vec<Choice>,
        course: Course,
        point: &Point<'_>,
    ) -> Option<Node> {
        let bounded = self.bound.is_some();
        let Course { asleep, used, .. } = course;
        // Only a task that can continue is preempted by another one.
        let goes_on = |last| bounded && point.choices.contains(&Choice::run(last));
        let matters = |&last: &usize| goes_on(last) || point.execution.has_pause();
        let state = || point.execution.state(point.last.filter(matters));
        let known = self.met.as_mut().and_then(|met| Some((met, state()?)));
        let state = known.as_ref().map(|&(_, state)| state);
        let mut other = None;
        match known.map(|(met, state)| met.entry(state)) {
            None => {}
            Some(Entry::Vacant(place)) => {
                place.insert(Met { asleep, used });
            }
            // A circle: it is followed until the steps of an execution run out.
            Some(Entry::Occupied(_)) if self.nodes.iter().any(|node| node.state == state) => {}
            Some(Entry::Occupied(met)) if bounded => {
                let met = met.into_mut();
                if met.used <= used {
                    return None;
                }
                met.used = used;
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

    /// The part of the tree that lies before the present order, see [`Report::share`].
    pub(super) fn share(&self) -> f64 {
        let (mut share, mut width) = (0.0, 1.0);
        for node in &self.nodes {
            width /= node.choices.len() as f64;
            share += node.at as f64 * width;
        }
        share
    }

    /// Executes until something fails, nothing is left, or `limit` executions were made.
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
            let mut walk =
                Walk { search: self, scenario, course, recorder, explored, limit, found: None };
            run(scenario, steps, false, &mut walk);
            if let Some(found) = walk.found {
                return found;
            }
        }
    }
}

/// Executions of a search, up to one that must start from the beginning.
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
    /// One execution, up to its end or to where nothing new can follow.
    fn choose(&mut self, point: &Point<'_>) -> Option<Choice> {
        let &Point { choices, touched, last, .. } = point;
        let Self { search, course, recorder, .. } = self;
        let admissible = search.admissible(course.asleep.awake(choices), last, course.used);
        let mut choice = *admissible.first()?;
        let mut done: &[Choice] = &[];
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
            done = &node.choices[..node.at];
            course.depth += 1;
        }
        if search.bound.is_none() {
            course.asleep.step(done, choice, choices, touched);
        }
        course.used += u32::from(Search::preempts(choices, last, choice));
        recorder.record(choices, last, choice);
        Some(choice)
    }

    fn again(&mut self, failure: Option<&Failure>) -> Option<&Saved> {
        *self.explored += 1;
        if let Some(&(property, _)) = failure {
            let runs = std::mem::take(&mut self.recorder).runs();
            self.found = Some(Found::Violation(property, runs));
        } else if !self.search.advance() {
            self.found = Some(if self.search.cut { Found::Bound } else { Found::Everything });
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
    /// Everything within the bound was executed, and something lies beyond.
    Bound,
    /// Nothing is left.
    Everything,
    /// The budget.
    Limit,
}
